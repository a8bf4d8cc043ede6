// Attributes of the single-operator interface. Valid C99 and C++11.
//
// The CPU engine offers operators through aclnn only, so an attribute set is stored and never read by a kernel; it is
// here because torch-npu fills one before it asks aclopCompileAndExecute, which then says by name what is not
// available.
#ifndef FUSION_ATTENTION_ACL_ACL_OP_H_
#define FUSION_ATTENTION_ACL_ACL_OP_H_

#include "acl/acl_base.h"
#include "acl/acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aclopAttr aclopAttr;

typedef enum aclEngineType { ACL_ENGINE_SYS = 0, ACL_ENGINE_AICORE = 1, ACL_ENGINE_VECTOR = 2 } aclopEngineType;

// Returns an empty attribute set, or null when memory is short. Free it with aclopDestroyAttr.
ACL_FUNC_VISIBILITY aclopAttr* aclopCreateAttr(void);

// Frees an attribute set; null is allowed.
ACL_FUNC_VISIBILITY void aclopDestroyAttr(const aclopAttr* attr);

// Each setter stores a copy under `attrName`, replacing what had that name. Null set or null name, a null value pointer
// where values are due, and negative counts: ACL_ERROR_INVALID_PARAM (100000). List setters take `numValues` elements;
// the list of lists takes `numLists` lists, list i having numValues[i] elements at values[i].
ACL_FUNC_VISIBILITY aclError aclopSetAttrBool(aclopAttr* attr, const char* attrName, uint8_t attrValue);
ACL_FUNC_VISIBILITY aclError aclopSetAttrInt(aclopAttr* attr, const char* attrName, int64_t attrValue);
ACL_FUNC_VISIBILITY aclError aclopSetAttrFloat(aclopAttr* attr, const char* attrName, float attrValue);
ACL_FUNC_VISIBILITY aclError aclopSetAttrString(aclopAttr* attr, const char* attrName, const char* attrValue);
ACL_FUNC_VISIBILITY aclError aclopSetAttrDataType(aclopAttr* attr, const char* attrName, aclDataType attrValue);
ACL_FUNC_VISIBILITY aclError aclopSetAttrListBool(aclopAttr* attr, const char* attrName, int numValues,
                                                  const uint8_t* values);
ACL_FUNC_VISIBILITY aclError aclopSetAttrListInt(aclopAttr* attr, const char* attrName, int numValues,
                                                 const int64_t* values);
ACL_FUNC_VISIBILITY aclError aclopSetAttrListFloat(aclopAttr* attr, const char* attrName, int numValues,
                                                   const float* values);
ACL_FUNC_VISIBILITY aclError aclopSetAttrListListInt(aclopAttr* attr, const char* attrName, int numLists,
                                                     const int* numValues, const int64_t* const values[]);

#ifdef __cplusplus
}
#endif

#endif  // FUSION_ATTENTION_ACL_ACL_OP_H_
