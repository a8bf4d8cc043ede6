// The operator compiler of the vendor, as far as programs talk to it: options, and compile-and-run of one operator.
// The functions live in libascendcl.so; opening or linking libacl_op_compiler.so leads to it. Valid C99 and C++11.
#ifndef FUSION_ATTENTION_ACL_ACL_OP_COMPILER_H_
#define FUSION_ATTENTION_ACL_ACL_OP_COMPILER_H_

#include "acl/acl_base.h"
#include "acl/acl_op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum aclCompileType { ACL_COMPILE_SYS = 0, ACL_COMPILE_UNREGISTERED = 1 } aclopCompileType;

typedef enum {
    ACL_PRECISION_MODE = 0,
    ACL_AICORE_NUM = 1,
    ACL_AUTO_TUNE_MODE = 2,
    ACL_OP_SELECT_IMPL_MODE = 3,
    ACL_OPTYPELIST_FOR_IMPLMODE = 4,
    ACL_OP_DEBUG_LEVEL = 5,
    ACL_DEBUG_DIR = 6,
    ACL_OP_COMPILER_CACHE_MODE = 7,
    ACL_OP_COMPILER_CACHE_DIR = 8,
    ACL_OP_PERFORMANCE_MODE = 9,
    ACL_OP_JIT_COMPILE = 10,  // always "disable": nothing is compiled here
    ACL_OP_DETERMINISTIC = 11,
    ACL_CUSTOMIZE_DTYPES = 12,
    ACL_OP_PRECISION_MODE = 13,
    ACL_ALLOW_HF32 = 14,
    ACL_PRECISION_MODE_V2 = 15,
    ACL_OP_DEBUG_OPTION = 16
} aclCompileOpt;

// Stores `value` (copied) for the process. The engine has no compiler, so no option changes a result.
// Unknown option or null value: ACL_ERROR_INVALID_PARAM (100000).
// ACL_OP_JIT_COMPILE keeps "disable" whatever is asked: with any other answer torch-npu leaves the aclnn operators for
// compiled ones, which do not exist here. Asking for something else is logged once.
ACL_FUNC_VISIBILITY aclError aclSetCompileopt(aclCompileOpt opt, const char* value);

// Bytes that aclGetCompileopt needs for the option, the terminating zero included: at least 1. 0 for an unknown option.
ACL_FUNC_VISIBILITY size_t aclGetCompileoptSize(aclCompileOpt opt);

// Copies the option's text (empty when it was never set) and its terminating zero to `value`, which has `length` bytes.
// Unknown option, null `value`, or `length` below aclGetCompileoptSize(opt): 100000, nothing is written.
ACL_FUNC_VISIBILITY aclError aclGetCompileopt(aclCompileOpt opt, char* value, size_t length);

// Would compile and run the operator `opType` on the given descriptors and buffers. The CPU engine has no operators of
// this interface: it returns ACL_ERROR_INTERNAL_ERROR (500000) and queues a text that names `opType`. Outputs are not
// touched. Null opType: 100000.
ACL_FUNC_VISIBILITY aclError aclopCompileAndExecute(
    const char* opType, int numInputs, const aclTensorDesc* const inputDesc[], const aclDataBuffer* const inputs[],
    int numOutputs, const aclTensorDesc* const outputDesc[], aclDataBuffer* const outputs[], const aclopAttr* attr,
    aclopEngineType engineType, aclopCompileType compileFlag, const char* opPath, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // FUSION_ATTENTION_ACL_ACL_OP_COMPILER_H_
