// The entry points of the forward operators: each fills a request and hands it on.
#ifndef FUNC_VISIBILITY
#define FUNC_VISIBILITY  // the prototypes below become visible symbols of this library
#endif
#include "aclnnop/aclnn_flash_attention_score.h"

#include "op_api/entry_points.h"
#include "op_api/score_request.h"
#include "opbase/executor.h"

using flash_attention::plan_score;
using flash_attention::ScoreRequest;
using flash_attention::set_any_layout;
using flash_attention::set_lists;
using flash_attention::set_pse_type;

namespace {

using R = ScoreRequest;

// Tensor inputs in the order of the signatures.
constexpr R::TensorField kInputs[] = {&R::query,     &R::key,          &R::value,     &R::bias,
                                      &R::drop_mask, &R::padding_mask, &R::atten_mask};
constexpr R::TensorField kInputsWithSink[] = {&R::query,     &R::key,          &R::value,      &R::bias,
                                              &R::drop_mask, &R::padding_mask, &R::atten_mask, &R::sink};
constexpr R::TensorField kInputsWithRope[] = {&R::query, &R::query_rope, &R::key,          &R::key_rope,  &R::value,
                                              &R::bias,  &R::drop_mask,  &R::padding_mask, &R::atten_mask};
constexpr R::TensorField kInputsWithRopeAndSink[] = {&R::query,      &R::query_rope, &R::key,       &R::key_rope,
                                                     &R::value,      &R::bias,       &R::drop_mask, &R::padding_mask,
                                                     &R::atten_mask, &R::sink};
constexpr R::TensorField kInputsOfScoreV4[] = {
    &R::query,      &R::key,      &R::value,   &R::bias,    &R::drop_mask, &R::padding_mask, &R::atten_mask,
    &R::query_rope, &R::key_rope, &R::scale_q, &R::scale_k, &R::scale_v,   &R::sink};

constexpr R::TensorField kOutputs[] = {&R::softmax_max, &R::softmax_sum, &R::softmax_out, &R::attention_out};

constexpr const char* kScore = "aclnnFlashAttentionScore";
constexpr const char* kScoreV2 = "aclnnFlashAttentionScoreV2";
constexpr const char* kScoreV3 = "aclnnFlashAttentionScoreV3";
constexpr const char* kScoreV4 = "aclnnFlashAttentionScoreV4";
constexpr const char* kVarLenScore = "aclnnFlashAttentionVarLenScore";
constexpr const char* kVarLenScoreV2 = "aclnnFlashAttentionVarLenScoreV2";
constexpr const char* kVarLenScoreV3 = "aclnnFlashAttentionVarLenScoreV3";
constexpr const char* kVarLenScoreV4 = "aclnnFlashAttentionVarLenScoreV4";
constexpr const char* kVarLenScoreV5 = "aclnnFlashAttentionVarLenScoreV5";

// The arguments that every version has, in the order of the signatures.
ScoreRequest make_request(const char* name, std::span<const R::TensorField> inputs, const aclTensor* query,
                          const aclTensor* key, const aclTensor* value, const aclTensor* bias,
                          const aclTensor* drop_mask, const aclTensor* padding_mask, const aclTensor* atten_mask,
                          const aclIntArray* prefix, double scale, double keep_prob, int64_t pre_tokens,
                          int64_t next_tokens, int64_t head_num, char* input_layout, int64_t inner_precise,
                          int64_t sparse_mode, const aclTensor* softmax_max, const aclTensor* softmax_sum,
                          const aclTensor* softmax_out, const aclTensor* attention_out, uint64_t* workspace_size,
                          aclOpExecutor** executor) {
    ScoreRequest request;
    request.name = name;
    request.inputs = inputs;
    request.outputs = kOutputs;
    set_shared(request, {bias, drop_mask, padding_mask, atten_mask, prefix, scale, keep_prob, pre_tokens, next_tokens,
                         head_num, input_layout, inner_precise, sparse_mode, workspace_size, executor});
    request.query = query;
    request.key = key;
    request.value = value;
    request.softmax_max = softmax_max;
    request.softmax_sum = softmax_sum;
    request.softmax_out = softmax_out;
    request.attention_out = attention_out;
    return request;
}

}  // namespace

aclnnStatus aclnnFlashAttentionScoreGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* realShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
    ScoreRequest request = make_request(
        kScore, kInputs, query, key, value, realShiftOptional, dropMaskOptional, paddingMaskOptional, attenMaskOptional,
        prefixOptional, scaleValue, keepProb, preTokens, nextTokens, headNum, inputLayout, innerPrecise, sparseMode,
        softmaxMaxOut, softmaxSumOut, softmaxOutOut, attentionOutOut, workspaceSize, executor);
    return plan_score(request);
}

aclnnStatus aclnnFlashAttentionScore(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                     const aclrtStream stream) {
    return opbase::run_operator(kScore, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionScoreV2GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* realShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout,
    int64_t innerPrecise, int64_t sparseMode, int64_t pseType, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
    ScoreRequest request =
        make_request(kScoreV2, kInputs, query, key, value, realShiftOptional, dropMaskOptional, paddingMaskOptional,
                     attenMaskOptional, prefixOptional, scaleValue, keepProb, preTokens, nextTokens, headNum,
                     inputLayout, innerPrecise, sparseMode, softmaxMaxOut, softmaxSumOut, softmaxOutOut,
                     attentionOutOut, workspaceSize, executor);
    set_pse_type(request, qStartIdxOptional, kvStartIdxOptional, pseType);
    return plan_score(request);
}

aclnnStatus aclnnFlashAttentionScoreV2(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                       const aclrtStream stream) {
    return opbase::run_operator(kScoreV2, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionScoreV3GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* realShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclTensor* sinkOptional, const aclIntArray* prefixOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, int64_t pseType,
    const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
    const aclTensor* attentionOutOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
    ScoreRequest request =
        make_request(kScoreV3, kInputsWithSink, query, key, value, realShiftOptional, dropMaskOptional,
                     paddingMaskOptional, attenMaskOptional, prefixOptional, scaleValue, keepProb, preTokens,
                     nextTokens, headNum, inputLayout, innerPrecise, sparseMode, softmaxMaxOut, softmaxSumOut,
                     softmaxOutOut, attentionOutOut, workspaceSize, executor);
    request.out_dtype_first = true;
    request.sink = sinkOptional;
    set_pse_type(request, qStartIdxOptional, kvStartIdxOptional, pseType);
    return plan_score(request);
}

aclnnStatus aclnnFlashAttentionScoreV3(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                       const aclrtStream stream) {
    return opbase::run_operator(kScoreV3, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionScoreV4GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* realShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclTensor* queryRopeOptional, const aclTensor* keyRopeOptional, const aclTensor* dScaleQOptional,
    const aclTensor* dScaleKOptional, const aclTensor* dScaleVOptional, const aclTensor* sinkOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, int64_t outDtype, int64_t pseType,
    char* softmaxOutLayout, int64_t seed, int64_t offset, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
    ScoreRequest request =
        make_request(kScoreV4, kInputsOfScoreV4, query, key, value, realShiftOptional, dropMaskOptional,
                     paddingMaskOptional, attenMaskOptional, prefixOptional, scaleValue, keepProb, preTokens,
                     nextTokens, headNum, inputLayout, innerPrecise, sparseMode, softmaxMaxOut, softmaxSumOut,
                     softmaxOutOut, attentionOutOut, workspaceSize, executor);
    set_any_layout(request);
    request.names.query_rope = "queryRopeOptional";
    request.names.key_rope = "keyRopeOptional";
    request.query_rope = queryRopeOptional;
    request.key_rope = keyRopeOptional;
    request.scale_q = dScaleQOptional;
    request.scale_k = dScaleKOptional;
    request.scale_v = dScaleVOptional;
    request.sink = sinkOptional;
    set_lists(request, actualSeqQLenOptional, actualSeqKvLenOptional);
    set_pse_type(request, qStartIdxOptional, kvStartIdxOptional, pseType);
    request.out_dtype = outDtype;
    request.softmax_layout = softmaxOutLayout;
    request.seed = seed;
    request.offset = offset;
    return plan_score(request);
}

aclnnStatus aclnnFlashAttentionScoreV4(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                       const aclrtStream stream) {
    return opbase::run_operator(kScoreV4, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionVarLenScoreGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* realShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, double scaleValue, double keepProb, int64_t preTokens,
    int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode,
    const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
    const aclTensor* attentionOutOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
    ScoreRequest request =
        make_request(kVarLenScore, kInputs, query, key, value, realShiftOptional, dropMaskOptional, paddingMaskOptional,
                     attenMaskOptional, prefixOptional, scaleValue, keepProb, preTokens, nextTokens, headNum,
                     inputLayout, innerPrecise, sparseMode, softmaxMaxOut, softmaxSumOut, softmaxOutOut,
                     attentionOutOut, workspaceSize, executor);
    request.varlen = true;
    set_lists(request, actualSeqQLenOptional, actualSeqKvLenOptional);
    return plan_score(request);
}

aclnnStatus aclnnFlashAttentionVarLenScore(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                           const aclrtStream stream) {
    return opbase::run_operator(kVarLenScore, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionVarLenScoreV2GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* realShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, int64_t pseType,
    const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
    const aclTensor* attentionOutOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
    ScoreRequest request =
        make_request(kVarLenScoreV2, kInputs, query, key, value, realShiftOptional, dropMaskOptional,
                     paddingMaskOptional, attenMaskOptional, prefixOptional, scaleValue, keepProb, preTokens,
                     nextTokens, headNum, inputLayout, innerPrecise, sparseMode, softmaxMaxOut, softmaxSumOut,
                     softmaxOutOut, attentionOutOut, workspaceSize, executor);
    request.varlen = true;
    set_lists(request, actualSeqQLenOptional, actualSeqKvLenOptional);
    set_pse_type(request, qStartIdxOptional, kvStartIdxOptional, pseType);
    return plan_score(request);
}

aclnnStatus aclnnFlashAttentionVarLenScoreV2(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             const aclrtStream stream) {
    return opbase::run_operator(kVarLenScoreV2, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionVarLenScoreV3GetWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* key, const aclTensor* keyRope,
    const aclTensor* value, const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional, const aclIntArray* actualSeqKvLenOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb,
    int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode,
    int64_t pseType, const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut,
    const aclTensor* attentionOutOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
    ScoreRequest request =
        make_request(kVarLenScoreV3, kInputsWithRope, query, key, value, realShiftOptional, dropMaskOptional,
                     paddingMaskOptional, attenMaskOptional, prefixOptional, scaleValue, keepProb, preTokens,
                     nextTokens, headNum, inputLayout, innerPrecise, sparseMode, softmaxMaxOut, softmaxSumOut,
                     softmaxOutOut, attentionOutOut, workspaceSize, executor);
    request.varlen = true;
    request.query_rope = queryRope;
    request.key_rope = keyRope;
    set_lists(request, actualSeqQLenOptional, actualSeqKvLenOptional);
    set_pse_type(request, qStartIdxOptional, kvStartIdxOptional, pseType);
    return plan_score(request);
}

aclnnStatus aclnnFlashAttentionVarLenScoreV3(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             const aclrtStream stream) {
    return opbase::run_operator(kVarLenScoreV3, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionVarLenScoreV4GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* realShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, double scaleValue, double keepProb, int64_t preTokens,
    int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode,
    char* softmaxOutLayout, const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
    ScoreRequest request =
        make_request(kVarLenScoreV4, kInputs, query, key, value, realShiftOptional, dropMaskOptional,
                     paddingMaskOptional, attenMaskOptional, prefixOptional, scaleValue, keepProb, preTokens,
                     nextTokens, headNum, inputLayout, innerPrecise, sparseMode, softmaxMaxOut, softmaxSumOut,
                     softmaxOutOut, attentionOutOut, workspaceSize, executor);
    request.varlen = true;
    set_lists(request, actualSeqQLenOptional, actualSeqKvLenOptional);
    request.softmax_layout = softmaxOutLayout;
    return plan_score(request);
}

aclnnStatus aclnnFlashAttentionVarLenScoreV4(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             const aclrtStream stream) {
    return opbase::run_operator(kVarLenScoreV4, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionVarLenScoreV5GetWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* key, const aclTensor* keyRope,
    const aclTensor* value, const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional, const aclTensor* sinkOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, int64_t pseType,
    char* softmaxOutLayout, const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
    ScoreRequest request =
        make_request(kVarLenScoreV5, kInputsWithRopeAndSink, query, key, value, realShiftOptional, dropMaskOptional,
                     paddingMaskOptional, attenMaskOptional, prefixOptional, scaleValue, keepProb, preTokens,
                     nextTokens, headNum, inputLayout, innerPrecise, sparseMode, softmaxMaxOut, softmaxSumOut,
                     softmaxOutOut, attentionOutOut, workspaceSize, executor);
    request.varlen = true;
    request.query_rope = queryRope;
    request.key_rope = keyRope;
    request.sink = sinkOptional;
    set_lists(request, actualSeqQLenOptional, actualSeqKvLenOptional);
    set_pse_type(request, qStartIdxOptional, kvStartIdxOptional, pseType);
    request.softmax_layout = softmaxOutLayout;
    return plan_score(request);
}

aclnnStatus aclnnFlashAttentionVarLenScoreV5GetMaxWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* key, const aclTensor* keyRope,
    const aclTensor* value, const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional, const aclTensor* sinkOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, int64_t pseType,
    char* softmaxOutLayout, const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
    // The bound is for a mask without gaps, which is read where it lies, and for any probability.
    dropMaskOptional = nullptr;
    keepProb = 1.0;
    ScoreRequest request =
        make_request(kVarLenScoreV5, kInputsWithRopeAndSink, query, key, value, realShiftOptional, dropMaskOptional,
                     paddingMaskOptional, attenMaskOptional, prefixOptional, scaleValue, keepProb, preTokens,
                     nextTokens, headNum, inputLayout, innerPrecise, sparseMode, softmaxMaxOut, softmaxSumOut,
                     softmaxOutOut, attentionOutOut, workspaceSize, executor);
    request.varlen = true;
    request.max_workspace = true;
    request.query_rope = queryRope;
    request.key_rope = keyRope;
    request.sink = sinkOptional;
    set_lists(request, actualSeqQLenOptional, actualSeqKvLenOptional);
    set_pse_type(request, qStartIdxOptional, kvStartIdxOptional, pseType);
    request.softmax_layout = softmaxOutLayout;
    return plan_score(request);
}

aclnnStatus aclnnFlashAttentionVarLenScoreV5(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             const aclrtStream stream) {
    return opbase::run_operator(kVarLenScoreV5, workspace, workspaceSize, executor, stream);
}
