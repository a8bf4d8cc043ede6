// The entry points of the ring update: each fills a request and hands it on.
#ifndef FUNC_VISIBILITY
#define FUNC_VISIBILITY  // the prototypes below become visible symbols of this library
#endif
#include "aclnnop/aclnn_ring_attention_update.h"

#include "opbase/executor.h"
#include "ring_attention_update/op_api/ring_request.h"

using ring_attention_update::plan_ring_update;

namespace {

constexpr const char* kName = "aclnnRingAttentionUpdate";
constexpr const char* kNameV2 = "aclnnRingAttentionUpdateV2";

}  // namespace

aclnnStatus aclnnRingAttentionUpdateGetWorkspaceSize(const aclTensor* prevAttnOut, const aclTensor* prevSoftmaxMax,
                                                     const aclTensor* prevSoftmaxSum, const aclTensor* curAttnOut,
                                                     const aclTensor* curSoftmaxMax, const aclTensor* curSoftmaxSum,
                                                     const aclTensor* actualSeqQlenOptional, char* inputLayoutOptional,
                                                     const aclTensor* attnOutOut, const aclTensor* softmaxMaxOut,
                                                     const aclTensor* softmaxSumOut, uint64_t* workspaceSize,
                                                     aclOpExecutor** executor) {
    return plan_ring_update({kName,
                             {prevAttnOut, prevSoftmaxMax, prevSoftmaxSum, curAttnOut, curSoftmaxMax, curSoftmaxSum,
                              actualSeqQlenOptional, attnOutOut, softmaxMaxOut, softmaxSumOut},
                             inputLayoutOptional,
                             nullptr,
                             workspaceSize,
                             executor});
}

aclnnStatus aclnnRingAttentionUpdate(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                     const aclrtStream stream) {
    return opbase::run_operator(kName, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnRingAttentionUpdateV2GetWorkspaceSize(const aclTensor* prevAttnOut, const aclTensor* prevSoftmaxMax,
                                                       const aclTensor* prevSoftmaxSum, const aclTensor* curAttnOut,
                                                       const aclTensor* curSoftmaxMax, const aclTensor* curSoftmaxSum,
                                                       const aclTensor* actualSeqQlenOptional,
                                                       char* inputLayoutOptional, char* inputSoftmaxLayoutOptional,
                                                       const aclTensor* attnOutOut, const aclTensor* softmaxMaxOut,
                                                       const aclTensor* softmaxSumOut, uint64_t* workspaceSize,
                                                       aclOpExecutor** executor) {
    return plan_ring_update({kNameV2,
                             {prevAttnOut, prevSoftmaxMax, prevSoftmaxSum, curAttnOut, curSoftmaxMax, curSoftmaxSum,
                              actualSeqQlenOptional, attnOutOut, softmaxMaxOut, softmaxSumOut},
                             inputLayoutOptional,
                             inputSoftmaxLayoutOptional,
                             workspaceSize,
                             executor});
}

aclnnStatus aclnnRingAttentionUpdateV2(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                       const aclrtStream stream) {
    return opbase::run_operator(kNameV2, workspace, workspaceSize, executor, stream);
}
