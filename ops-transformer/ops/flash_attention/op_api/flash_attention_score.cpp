// The entry points of the forward operators: each fills a request and hands it on.
#ifndef FUNC_VISIBILITY
#define FUNC_VISIBILITY  // the prototypes below become visible symbols of this library
#endif
#include "aclnnop/aclnn_flash_attention_score.h"

#include "op_api/score_request.h"
#include "opbase/executor.h"

using flash_attention::plan_score;
using flash_attention::ScoreRequest;

namespace {

constexpr const char* kScore = "aclnnFlashAttentionScore";
constexpr const char* kVarLenScore = "aclnnFlashAttentionVarLenScore";

constexpr ScoreRequest::TensorField kInputsV1[] = {
    &ScoreRequest::query,     &ScoreRequest::key,          &ScoreRequest::value,     &ScoreRequest::real_shift,
    &ScoreRequest::drop_mask, &ScoreRequest::padding_mask, &ScoreRequest::atten_mask};

}  // namespace

aclnnStatus aclnnFlashAttentionScoreGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* realShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
    return plan_score({.name = kScore,
                       .inputs = kInputsV1,
                       .query = query,
                       .key = key,
                       .value = value,
                       .real_shift = realShiftOptional,
                       .drop_mask = dropMaskOptional,
                       .padding_mask = paddingMaskOptional,
                       .atten_mask = attenMaskOptional,
                       .prefix = prefixOptional,
                       .scale = scaleValue,
                       .keep_prob = keepProb,
                       .pre_tokens = preTokens,
                       .next_tokens = nextTokens,
                       .head_num = headNum,
                       .input_layout = inputLayout,
                       .inner_precise = innerPrecise,
                       .sparse_mode = sparseMode,
                       .softmax_max = softmaxMaxOut,
                       .softmax_sum = softmaxSumOut,
                       .softmax_out = softmaxOutOut,
                       .attention_out = attentionOutOut,
                       .workspace_size = workspaceSize,
                       .executor = executor});
}

aclnnStatus aclnnFlashAttentionScore(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                     const aclrtStream stream) {
    return opbase::run_operator(kScore, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionVarLenScoreGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* realShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, double scaleValue, double keepProb, int64_t preTokens,
    int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode,
    const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
    const aclTensor* attentionOutOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
    return plan_score({.name = kVarLenScore,
                       .varlen = true,
                       .inputs = kInputsV1,
                       .query = query,
                       .key = key,
                       .value = value,
                       .real_shift = realShiftOptional,
                       .drop_mask = dropMaskOptional,
                       .padding_mask = paddingMaskOptional,
                       .atten_mask = attenMaskOptional,
                       .prefix = prefixOptional,
                       .q_ends = actualSeqQLenOptional,
                       .kv_ends = actualSeqKvLenOptional,
                       .scale = scaleValue,
                       .keep_prob = keepProb,
                       .pre_tokens = preTokens,
                       .next_tokens = nextTokens,
                       .head_num = headNum,
                       .input_layout = inputLayout,
                       .inner_precise = innerPrecise,
                       .sparse_mode = sparseMode,
                       .softmax_max = softmaxMaxOut,
                       .softmax_sum = softmaxSumOut,
                       .softmax_out = softmaxOutOut,
                       .attention_out = attentionOutOut,
                       .workspace_size = workspaceSize,
                       .executor = executor});
}

aclnnStatus aclnnFlashAttentionVarLenScore(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                           const aclrtStream stream) {
    return opbase::run_operator(kVarLenScore, workspace, workspaceSize, executor, stream);
}
