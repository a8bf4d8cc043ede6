// The entry points of the forward operators: each fills a request and hands it on.
#ifndef FUNC_VISIBILITY
#define FUNC_VISIBILITY  // the prototypes below become visible symbols of this library
#endif
#include "aclnnop/aclnn_flash_attention_score.h"

#include <cstring>

#include "op_api/score_request.h"
#include "opbase/executor.h"
#include "opbase/layout.h"

using flash_attention::plan_score;
using flash_attention::ScoreRequest;

namespace {

using R = ScoreRequest;

// Tensor inputs in the order of the signatures.
constexpr R::TensorField kInputs[] = {&R::query,     &R::key,          &R::value,     &R::real_shift,
                                      &R::drop_mask, &R::padding_mask, &R::atten_mask};
constexpr R::TensorField kInputsWithSink[] = {&R::query,     &R::key,          &R::value,      &R::real_shift,
                                              &R::drop_mask, &R::padding_mask, &R::atten_mask, &R::sink};
constexpr R::TensorField kInputsWithRope[] = {&R::query,     &R::query_rope,   &R::key,
                                              &R::key_rope,  &R::value,        &R::real_shift,
                                              &R::drop_mask, &R::padding_mask, &R::atten_mask};
constexpr R::TensorField kInputsWithRopeAndSink[] = {&R::query,      &R::query_rope, &R::key,       &R::key_rope,
                                                     &R::value,      &R::real_shift, &R::drop_mask, &R::padding_mask,
                                                     &R::atten_mask, &R::sink};
constexpr R::TensorField kInputsOfScoreV4[] = {
    &R::query,      &R::key,      &R::value,   &R::real_shift, &R::drop_mask, &R::padding_mask, &R::atten_mask,
    &R::query_rope, &R::key_rope, &R::scale_q, &R::scale_k,    &R::scale_v,   &R::sink};

constexpr const char* kScore = "aclnnFlashAttentionScore";
constexpr const char* kScoreV2 = "aclnnFlashAttentionScoreV2";
constexpr const char* kScoreV3 = "aclnnFlashAttentionScoreV3";
constexpr const char* kScoreV4 = "aclnnFlashAttentionScoreV4";
constexpr const char* kVarLenScore = "aclnnFlashAttentionVarLenScore";
constexpr const char* kVarLenScoreV2 = "aclnnFlashAttentionVarLenScoreV2";
constexpr const char* kVarLenScoreV3 = "aclnnFlashAttentionVarLenScoreV3";
constexpr const char* kVarLenScoreV4 = "aclnnFlashAttentionVarLenScoreV4";
constexpr const char* kVarLenScoreV5 = "aclnnFlashAttentionVarLenScoreV5";

bool is_tnd(const char* layout) {
    return layout != nullptr && opbase::parse_layout({layout, strnlen(layout, 32)}) == opbase::Layout::kTND;
}

// The arguments that every version has, in the order of the signatures.
ScoreRequest make_request(const char* name, std::span<const R::TensorField> inputs, const aclTensor* query,
                          const aclTensor* key, const aclTensor* value, const aclTensor* real_shift,
                          const aclTensor* drop_mask, const aclTensor* padding_mask, const aclTensor* atten_mask,
                          const aclIntArray* prefix, double scale, double keep_prob, int64_t pre_tokens,
                          int64_t next_tokens, int64_t head_num, char* input_layout, int64_t inner_precise,
                          int64_t sparse_mode, const aclTensor* softmax_max, const aclTensor* softmax_sum,
                          const aclTensor* softmax_out, const aclTensor* attention_out, uint64_t* workspace_size,
                          aclOpExecutor** executor) {
    ScoreRequest request;
    request.name = name;
    request.inputs = inputs;
    request.query = query;
    request.key = key;
    request.value = value;
    request.real_shift = real_shift;
    request.drop_mask = drop_mask;
    request.padding_mask = padding_mask;
    request.atten_mask = atten_mask;
    request.prefix = prefix;
    request.scale = scale;
    request.keep_prob = keep_prob;
    request.pre_tokens = pre_tokens;
    request.next_tokens = next_tokens;
    request.head_num = head_num;
    request.input_layout = input_layout;
    request.inner_precise = inner_precise;
    request.sparse_mode = sparse_mode;
    request.softmax_max = softmax_max;
    request.softmax_sum = softmax_sum;
    request.softmax_out = softmax_out;
    request.attention_out = attention_out;
    request.workspace_size = workspace_size;
    request.executor = executor;
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
    request.q_start = qStartIdxOptional;
    request.kv_start = kvStartIdxOptional;
    request.pse_type = pseType;
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
    request.q_start = qStartIdxOptional;
    request.kv_start = kvStartIdxOptional;
    request.pse_type = pseType;
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
    request.any_layout = true;
    request.varlen = is_tnd(inputLayout);
    request.query_rope_name = "queryRopeOptional";
    request.key_rope_name = "keyRopeOptional";
    request.query_rope = queryRopeOptional;
    request.key_rope = keyRopeOptional;
    request.scale_q = dScaleQOptional;
    request.scale_k = dScaleKOptional;
    request.scale_v = dScaleVOptional;
    request.sink = sinkOptional;
    request.q_ends = actualSeqQLenOptional;
    request.kv_ends = actualSeqKvLenOptional;
    request.q_start = qStartIdxOptional;
    request.kv_start = kvStartIdxOptional;
    request.out_dtype = outDtype;
    request.pse_type = pseType;
    request.softmax_out_layout = softmaxOutLayout;
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
    request.q_ends = actualSeqQLenOptional;
    request.kv_ends = actualSeqKvLenOptional;
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
    request.q_ends = actualSeqQLenOptional;
    request.kv_ends = actualSeqKvLenOptional;
    request.q_start = qStartIdxOptional;
    request.kv_start = kvStartIdxOptional;
    request.pse_type = pseType;
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
    request.q_ends = actualSeqQLenOptional;
    request.kv_ends = actualSeqKvLenOptional;
    request.q_start = qStartIdxOptional;
    request.kv_start = kvStartIdxOptional;
    request.pse_type = pseType;
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
    request.q_ends = actualSeqQLenOptional;
    request.kv_ends = actualSeqKvLenOptional;
    request.softmax_out_layout = softmaxOutLayout;
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
    request.q_ends = actualSeqQLenOptional;
    request.kv_ends = actualSeqKvLenOptional;
    request.q_start = qStartIdxOptional;
    request.kv_start = kvStartIdxOptional;
    request.pse_type = pseType;
    request.softmax_out_layout = softmaxOutLayout;
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
    request.q_ends = actualSeqQLenOptional;
    request.kv_ends = actualSeqKvLenOptional;
    request.q_start = qStartIdxOptional;
    request.kv_start = kvStartIdxOptional;
    request.pse_type = pseType;
    request.softmax_out_layout = softmaxOutLayout;
    return plan_score(request);
}

aclnnStatus aclnnFlashAttentionVarLenScoreV5(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             const aclrtStream stream) {
    return opbase::run_operator(kVarLenScoreV5, workspace, workspaceSize, executor, stream);
}
