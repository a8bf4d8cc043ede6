// The entry points of the dropout mask generators: each fills a request and hands it on.
#ifndef FUNC_VISIBILITY
#define FUNC_VISIBILITY  // the prototypes below become visible symbols of this library
#endif
#include "aclnnop/aclnn_dropout_gen_mask.h"

#include "dropout_gen_mask/op_api/mask_request.h"
#include "opbase/executor.h"

using dropout_gen_mask::MaskRequest;
using dropout_gen_mask::plan_mask;

namespace {

constexpr const char* kName = "aclnnDropoutGenMask";
constexpr const char* kNameV2 = "aclnnDropoutGenMaskV2";
constexpr const char* kNameV2Tensor = "aclnnDropoutGenMaskV2Tensor";

}  // namespace

aclnnStatus aclnnDropoutGenMaskGetWorkspaceSize(const aclIntArray* shape, double prob, int64_t seed, int64_t offset,
                                                aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
    return plan_mask({.name = kName,
                      .shape = shape,
                      .prob = prob,
                      .seed = seed,
                      .offset = offset,
                      .out = out,
                      .workspace_size = workspaceSize,
                      .executor = executor});
}

aclnnStatus aclnnDropoutGenMask(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                const aclrtStream stream) {
    return opbase::run_operator(kName, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnDropoutGenMaskV2GetWorkspaceSize(const aclIntArray* shape, double prob, int64_t seed, int64_t offset,
                                                  aclDataType probDataType, aclTensor* out, uint64_t* workspaceSize,
                                                  aclOpExecutor** executor) {
    return plan_mask({.name = kNameV2,
                      .shape = shape,
                      .prob = prob,
                      .seed = seed,
                      .offset = offset,
                      .prob_dtype = probDataType,
                      .out = out,
                      .workspace_size = workspaceSize,
                      .executor = executor});
}

aclnnStatus aclnnDropoutGenMaskV2(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                  const aclrtStream stream) {
    return opbase::run_operator(kNameV2, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnDropoutGenMaskV2TensorGetWorkspaceSize(const aclIntArray* shape, double prob,
                                                        const aclTensor* seedTensor, const aclTensor* offsetTensor,
                                                        int64_t offset, aclDataType probDataType, aclTensor* out,
                                                        uint64_t* workspaceSize, aclOpExecutor** executor) {
    return plan_mask({.name = kNameV2Tensor,
                      .shape = shape,
                      .prob = prob,
                      .offset = offset,
                      .from_tensors = true,
                      .seed_tensor = seedTensor,
                      .offset_tensor = offsetTensor,
                      .prob_dtype = probDataType,
                      .out = out,
                      .workspace_size = workspaceSize,
                      .executor = executor});
}

aclnnStatus aclnnDropoutGenMaskV2Tensor(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                        const aclrtStream stream) {
    return opbase::run_operator(kNameV2Tensor, workspace, workspaceSize, executor, stream);
}
