// Stands in for the header of this name when op-plugin sources are built against the torch-npu wheel.
//
// The wheel ships the real header too, but what its macros call is not exported from libtorch_npu.so. Only the parts
// below EXEC_NPU_CMD_EXT are; the classic names are made of those here, so that a source file reads like op-plugin's
// own and builds inside op-plugin as well.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <tuple>

#include "op_plugin/include/npu_cpp_extension.h"
#include "op_plugin/utils/error_suffix.h"

namespace op_plugin {

// The two functions of an aclnn operator, looked up once.
class AclnnOperator {
  public:
    AclnnOperator(const char* name, const char* plan_name) : name_(name) { GetApiFunc(name, plan_name, run_, plan_); }

    // Plans on this thread and leaves running to the task queue. Unlike EXEC_NPU_CMD_EXT it looks at the code of the
    // first phase: there a refused argument would reach the second phase without an executor, and its text be buried.
    template <typename... Arguments>
    void operator()(Arguments&... arguments) const {
        InitExecCommonCtx();
        const aclrtStream stream = GetAclStream();
        const bool deterministic = at::globalContext().deterministicAlgorithms();
        at_npu::native::ApplyDeterministicLevel(c10_npu::GetDeterministicLevel(), deterministic, true);

        uint64_t workspace_size = 0;
        aclOpExecutor* executor = nullptr;
        uint64_t* workspace_size_address = &workspace_size;
        aclOpExecutor** executor_address = &executor;
        auto converted = ConvertTypes(arguments..., workspace_size_address, executor_address);
        const int code = call(ConvertToOpApiFunc(converted, plan_), converted);
        if (code != 0) {
            ReleaseConvertTypes(converted);
            UnInitExecCommonCtx();
            refuse(code);
        }

        void* workspace = GetWorkSpaceAddr(workspace_size);
        RunAclCall(name_, [converted, workspace, workspace_size, stream, executor, run = run_]() -> int {
            InitExecSubTheadCtx(stream);
            const int run_code = ExecuteApiFunc(run, stream, workspace, workspace_size, executor);
            ReleaseConvertTypes(converted);
            ReleaseExecCommonCtx();
            return run_code;
        });
        UnInitExecCommonCtx();
    }

  private:
    [[noreturn]] void refuse(int code) const {
        const char* recent = c10_npu::c10_npu_get_error_message();
        const std::string text = recent == nullptr ? "" : recent;  // a copy: the suffix asks the runtime again
        TORCH_CHECK(false, "call ", name_, " failed, error code is ", code, error_suffix(ErrCode::ACL), "\n", text);
    }

    std::string name_;
    void* run_ = nullptr;
    void* plan_ = nullptr;
};

}  // namespace op_plugin

// In queue mode 2 both phases belong to the queue's thread: a workspace taken here could be gone when its turn comes.
#undef EXEC_NPU_CMD
#define EXEC_NPU_CMD(aclnn_api, ...)                                                              \
    do {                                                                                          \
        if (OpApiGetTaskQueueEnable() == 2) {                                                     \
            EXEC_NPU_CMD_V2_EXT(aclnn_api, __VA_ARGS__);                                          \
        } else {                                                                                  \
            static const op_plugin::AclnnOperator run(#aclnn_api, #aclnn_api "GetWorkspaceSize"); \
            run(__VA_ARGS__);                                                                     \
        }                                                                                         \
    } while (false)

#undef EXEC_NPU_NO_FORMAT_CHECK_CMD
#define EXEC_NPU_NO_FORMAT_CHECK_CMD EXEC_NPU_CMD

// Chooses between the graph operator and the aclnn operator; only the latter exists here.
#undef DO_COMPATIBILITY
#define DO_COMPATIBILITY(aclnn_api, graph_call)
