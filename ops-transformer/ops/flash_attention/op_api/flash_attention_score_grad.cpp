// The entry points of the backward operators: each fills a request and hands it on.
#ifndef FUNC_VISIBILITY
#define FUNC_VISIBILITY  // the prototypes below become visible symbols of this library
#endif
#include "aclnnop/aclnn_flash_attention_score_grad.h"

#include "op_api/entry_points.h"
#include "op_api/score_request.h"
#include "opbase/executor.h"

using flash_attention::plan_grad;
using flash_attention::ScoreRequest;
using flash_attention::set_any_layout;
using flash_attention::set_lists;
using flash_attention::set_pse_type;
using flash_attention::SharedArguments;

namespace {

using R = ScoreRequest;

// Tensors in the order of the signatures.
constexpr R::TensorField kInputs[] = {&R::query,       &R::key,         &R::value,        &R::dy,
                                      &R::bias,        &R::drop_mask,   &R::padding_mask, &R::atten_mask,
                                      &R::softmax_max, &R::softmax_sum, &R::softmax_out,  &R::attention_out};
constexpr R::TensorField kInputsWithSink[] = {&R::query,       &R::key,         &R::value,        &R::dy,
                                              &R::bias,        &R::drop_mask,   &R::padding_mask, &R::atten_mask,
                                              &R::softmax_max, &R::softmax_sum, &R::softmax_out,  &R::attention_out,
                                              &R::sink};
constexpr R::TensorField kInputsWithRope[] = {&R::query,        &R::query_rope,   &R::key,         &R::key_rope,
                                              &R::value,        &R::dy,           &R::bias,        &R::drop_mask,
                                              &R::padding_mask, &R::atten_mask,   &R::softmax_max, &R::softmax_sum,
                                              &R::softmax_out,  &R::attention_out};
constexpr R::TensorField kInputsWithRopeAndSink[] = {
    &R::query,       &R::query_rope,  &R::key,         &R::key_rope,      &R::value,
    &R::dy,          &R::bias,        &R::drop_mask,   &R::padding_mask,  &R::atten_mask,
    &R::softmax_max, &R::softmax_sum, &R::softmax_out, &R::attention_out, &R::sink};
constexpr R::TensorField kInputsOfScoreGradV4[] = {
    &R::query,       &R::key,           &R::value,      &R::dy,          &R::bias,
    &R::drop_mask,   &R::padding_mask,  &R::atten_mask, &R::softmax_max, &R::softmax_sum,
    &R::softmax_out, &R::attention_out, &R::sink,       &R::query_rope,  &R::key_rope,
    &R::scale_q,     &R::scale_k,       &R::scale_v,    &R::scale_dy,    &R::scale_o};

constexpr R::TensorField kOutputs[] = {&R::dq, &R::dk, &R::dv, &R::dbias};
constexpr R::TensorField kOutputsWithSink[] = {&R::dq, &R::dk, &R::dv, &R::dbias, &R::dsink};
constexpr R::TensorField kOutputsWithRope[] = {&R::dq, &R::dq_rope, &R::dk, &R::dk_rope, &R::dv, &R::dbias};
constexpr R::TensorField kOutputsWithRopeAndSink[] = {&R::dq, &R::dq_rope, &R::dk,   &R::dk_rope,
                                                      &R::dv, &R::dbias,   &R::dsink};
constexpr R::TensorField kOutputsOfScoreGradV4[] = {&R::dq,      &R::dk,    &R::dv,   &R::dq_rope,
                                                    &R::dk_rope, &R::dbias, &R::dsink};

constexpr const char* kScoreGrad = "aclnnFlashAttentionScoreGrad";
constexpr const char* kScoreGradV2 = "aclnnFlashAttentionScoreGradV2";
constexpr const char* kScoreGradV3 = "aclnnFlashAttentionScoreGradV3";
constexpr const char* kScoreGradV4 = "aclnnFlashAttentionScoreGradV4";
constexpr const char* kUnpaddingScoreGrad = "aclnnFlashAttentionUnpaddingScoreGrad";
constexpr const char* kUnpaddingScoreGradV2 = "aclnnFlashAttentionUnpaddingScoreGradV2";
constexpr const char* kUnpaddingScoreGradV3 = "aclnnFlashAttentionUnpaddingScoreGradV3";
constexpr const char* kUnpaddingScoreGradV4 = "aclnnFlashAttentionUnpaddingScoreGradV4";
constexpr const char* kUnpaddingScoreGradV5 = "aclnnFlashAttentionUnpaddingScoreGradV5";

struct Fields {
    std::span<const R::TensorField> inputs, outputs;
};

// In the order of the signatures.
struct ForwardResults {
    const aclTensor *softmax_max, *softmax_sum, *softmax_in, *attention_in;
};
struct Gradients {
    const aclTensor *dq, *dk, *dv, *dbias;
};

// The arguments that every version has.
ScoreRequest make_request(const char* name, const Fields& fields, const SharedArguments& shared, const aclTensor* query,
                          const aclTensor* key, const aclTensor* value, const aclTensor* dy,
                          const ForwardResults& results, const Gradients& gradients) {
    ScoreRequest request;
    request.name = name;
    request.names = flash_attention::kGradNames;
    request.backward = true;
    request.inputs = fields.inputs;
    request.outputs = fields.outputs;
    set_shared(request, shared);
    request.query = query;
    request.key = key;
    request.value = value;
    request.dy = dy;
    request.softmax_max = results.softmax_max;
    request.softmax_sum = results.softmax_sum;
    request.softmax_out = results.softmax_in;
    request.attention_out = results.attention_in;
    request.dq = gradients.dq;
    request.dk = gradients.dk;
    request.dv = gradients.dv;
    request.dbias = gradients.dbias;
    return request;
}

void set_rope(ScoreRequest& request, const aclTensor* query_rope, const aclTensor* key_rope, const aclTensor* dq_rope,
              const aclTensor* dk_rope) {
    request.query_rope = query_rope;
    request.key_rope = key_rope;
    request.dq_rope = dq_rope;
    request.dk_rope = dk_rope;
}

void set_sink(ScoreRequest& request, const aclTensor* sink, const aclTensor* dsink) {
    request.sink = sink;
    request.dsink = dsink;
}

}  // namespace

aclnnStatus aclnnFlashAttentionScoreGradGetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout,
    int64_t innerPrecise, int64_t sparseMode, const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
    ScoreRequest request = make_request(
        kScoreGrad, {kInputs, kOutputs},
        {pseShiftOptional, dropMaskOptional, paddingMaskOptional, attenMaskOptional, prefixOptional, scaleValue,
         keepProb, preTokens, nextTokens, headNum, inputLayout, innerPrecise, sparseMode, workspaceSize, executor},
        query, keyIn, value, dy, {softmaxMaxOptional, softmaxSumOptional, softmaxInOptional, attentionInOptional},
        {dqOut, dkOut, dvOut, dpseOut});
    return plan_grad(request);
}

aclnnStatus aclnnFlashAttentionScoreGrad(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                         const aclrtStream stream) {
    return opbase::run_operator(kScoreGrad, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionScoreGradV2GetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb,
    int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode,
    int64_t pseType, const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut, const aclTensor* dpseOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
    ScoreRequest request = make_request(
        kScoreGradV2, {kInputs, kOutputs},
        {pseShiftOptional, dropMaskOptional, paddingMaskOptional, attenMaskOptional, prefixOptional, scaleValue,
         keepProb, preTokens, nextTokens, headNum, inputLayout, innerPrecise, sparseMode, workspaceSize, executor},
        query, keyIn, value, dy, {softmaxMaxOptional, softmaxSumOptional, softmaxInOptional, attentionInOptional},
        {dqOut, dkOut, dvOut, dpseOut});
    set_pse_type(request, qStartIdxOptional, kvStartIdxOptional, pseType);
    return plan_grad(request);
}

aclnnStatus aclnnFlashAttentionScoreGradV2(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                           const aclrtStream stream) {
    return opbase::run_operator(kScoreGradV2, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionScoreGradV3GetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional, const aclTensor* sinkInOptional,
    const aclIntArray* prefixOptional, const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout,
    int64_t innerPrecise, int64_t sparseMode, int64_t pseType, const aclTensor* dqOut, const aclTensor* dkOut,
    const aclTensor* dvOut, const aclTensor* dpseOut, const aclTensor* dsinkOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
    ScoreRequest request = make_request(
        kScoreGradV3, {kInputsWithSink, kOutputsWithSink},
        {pseShiftOptional, dropMaskOptional, paddingMaskOptional, attenMaskOptional, prefixOptional, scaleValue,
         keepProb, preTokens, nextTokens, headNum, inputLayout, innerPrecise, sparseMode, workspaceSize, executor},
        query, keyIn, value, dy, {softmaxMaxOptional, softmaxSumOptional, softmaxInOptional, attentionInOptional},
        {dqOut, dkOut, dvOut, dpseOut});
    set_pse_type(request, qStartIdxOptional, kvStartIdxOptional, pseType);
    set_sink(request, sinkInOptional, dsinkOut);
    return plan_grad(request);
}

aclnnStatus aclnnFlashAttentionScoreGradV3(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                           const aclrtStream stream) {
    return opbase::run_operator(kScoreGradV3, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionScoreGradV4GetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional, const aclTensor* sinkInOptional,
    const aclTensor* queryRopeOptional, const aclTensor* keyRopeOptional, const aclTensor* dScaleQOptional,
    const aclTensor* dScaleKOptional, const aclTensor* dScaleVOptional, const aclTensor* dScaleDyOptional,
    const aclTensor* dScaleOOptional, const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, char* softmaxInLayout, int64_t innerPrecise, int64_t sparseMode,
    int64_t pseType, int64_t seed, int64_t offset, int64_t outDtype, const aclTensor* dqOut, const aclTensor* dkOut,
    const aclTensor* dvOut, const aclTensor* dqRopeOut, const aclTensor* dkRopeOut, const aclTensor* dpseOut,
    const aclTensor* dsinkOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
    ScoreRequest request = make_request(
        kScoreGradV4, {kInputsOfScoreGradV4, kOutputsOfScoreGradV4},
        {pseShiftOptional, dropMaskOptional, paddingMaskOptional, attenMaskOptional, prefixOptional, scaleValue,
         keepProb, preTokens, nextTokens, headNum, inputLayout, innerPrecise, sparseMode, workspaceSize, executor},
        query, keyIn, value, dy, {softmaxMaxOptional, softmaxSumOptional, softmaxInOptional, attentionInOptional},
        {dqOut, dkOut, dvOut, dpseOut});
    set_any_layout(request);
    request.names.query_rope = "queryRopeOptional";
    request.names.key_rope = "keyRopeOptional";
    request.scale_q = dScaleQOptional;
    request.scale_k = dScaleKOptional;
    request.scale_v = dScaleVOptional;
    request.scale_dy = dScaleDyOptional;
    request.scale_o = dScaleOOptional;
    request.out_dtype = outDtype;
    request.seed = seed;
    request.offset = offset;
    set_lists(request, actualSeqQLenOptional, actualSeqKvLenOptional);
    set_pse_type(request, qStartIdxOptional, kvStartIdxOptional, pseType);
    set_rope(request, queryRopeOptional, keyRopeOptional, dqRopeOut, dkRopeOut);
    set_sink(request, sinkInOptional, dsinkOut);
    request.softmax_layout = softmaxInLayout;
    return plan_grad(request);
}

aclnnStatus aclnnFlashAttentionScoreGradV4(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                           const aclrtStream stream) {
    return opbase::run_operator(kScoreGradV4, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionUnpaddingScoreGradGetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional, const aclIntArray* actualSeqKvLenOptional, double scaleValue,
    double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise,
    int64_t sparseMode, const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
    ScoreRequest request = make_request(
        kUnpaddingScoreGrad, {kInputs, kOutputs},
        {pseShiftOptional, dropMaskOptional, paddingMaskOptional, attenMaskOptional, prefixOptional, scaleValue,
         keepProb, preTokens, nextTokens, headNum, inputLayout, innerPrecise, sparseMode, workspaceSize, executor},
        query, keyIn, value, dy, {softmaxMaxOptional, softmaxSumOptional, softmaxInOptional, attentionInOptional},
        {dqOut, dkOut, dvOut, dpseOut});
    request.varlen = true;
    set_lists(request, actualSeqQLenOptional, actualSeqKvLenOptional);
    return plan_grad(request);
}

aclnnStatus aclnnFlashAttentionUnpaddingScoreGrad(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                  const aclrtStream stream) {
    return opbase::run_operator(kUnpaddingScoreGrad, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV2GetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional, const aclIntArray* actualSeqKvLenOptional,
    const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb,
    int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode,
    int64_t pseType, const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut, const aclTensor* dpseOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
    ScoreRequest request = make_request(
        kUnpaddingScoreGradV2, {kInputs, kOutputs},
        {pseShiftOptional, dropMaskOptional, paddingMaskOptional, attenMaskOptional, prefixOptional, scaleValue,
         keepProb, preTokens, nextTokens, headNum, inputLayout, innerPrecise, sparseMode, workspaceSize, executor},
        query, keyIn, value, dy, {softmaxMaxOptional, softmaxSumOptional, softmaxInOptional, attentionInOptional},
        {dqOut, dkOut, dvOut, dpseOut});
    request.varlen = true;
    set_lists(request, actualSeqQLenOptional, actualSeqKvLenOptional);
    set_pse_type(request, qStartIdxOptional, kvStartIdxOptional, pseType);
    return plan_grad(request);
}

aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV2(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                    const aclrtStream stream) {
    return opbase::run_operator(kUnpaddingScoreGradV2, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* keyIn, const aclTensor* keyInRope,
    const aclTensor* value, const aclTensor* dy, const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
    const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional,
    const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, int64_t pseType,
    const aclTensor* dqOut, const aclTensor* dqRopeOut, const aclTensor* dkOut, const aclTensor* dkRopeOut,
    const aclTensor* dvOut, const aclTensor* dpseOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
    ScoreRequest request = make_request(
        kUnpaddingScoreGradV3, {kInputsWithRope, kOutputsWithRope},
        {pseShiftOptional, dropMaskOptional, paddingMaskOptional, attenMaskOptional, prefixOptional, scaleValue,
         keepProb, preTokens, nextTokens, headNum, inputLayout, innerPrecise, sparseMode, workspaceSize, executor},
        query, keyIn, value, dy, {softmaxMaxOptional, softmaxSumOptional, softmaxInOptional, attentionInOptional},
        {dqOut, dkOut, dvOut, dpseOut});
    request.varlen = true;
    set_lists(request, actualSeqQLenOptional, actualSeqKvLenOptional);
    set_pse_type(request, qStartIdxOptional, kvStartIdxOptional, pseType);
    set_rope(request, queryRope, keyInRope, dqRopeOut, dkRopeOut);
    return plan_grad(request);
}

aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV3(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                    const aclrtStream stream) {
    return opbase::run_operator(kUnpaddingScoreGradV3, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV4GetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    const aclIntArray* actualSeqQLenOptional, const aclIntArray* actualSeqKvLenOptional, double scaleValue,
    double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise,
    int64_t sparseMode, const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, char* softmaxInLayout, uint64_t* workspaceSize, aclOpExecutor** executor) {
    ScoreRequest request = make_request(
        kUnpaddingScoreGradV4, {kInputs, kOutputs},
        {pseShiftOptional, dropMaskOptional, paddingMaskOptional, attenMaskOptional, prefixOptional, scaleValue,
         keepProb, preTokens, nextTokens, headNum, inputLayout, innerPrecise, sparseMode, workspaceSize, executor},
        query, keyIn, value, dy, {softmaxMaxOptional, softmaxSumOptional, softmaxInOptional, attentionInOptional},
        {dqOut, dkOut, dvOut, dpseOut});
    request.varlen = true;
    set_lists(request, actualSeqQLenOptional, actualSeqKvLenOptional);
    request.softmax_layout = softmaxInLayout;
    return plan_grad(request);
}

aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV4(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                    const aclrtStream stream) {
    return opbase::run_operator(kUnpaddingScoreGradV4, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV5GetWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* keyIn, const aclTensor* keyInRope,
    const aclTensor* value, const aclTensor* dy, const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
    const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional,
    const aclTensor* sinkInOptional, const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, int64_t pseType,
    char* softmaxInLayout, const aclTensor* dqOut, const aclTensor* dqRopeOut, const aclTensor* dkOut,
    const aclTensor* dkRopeOut, const aclTensor* dvOut, const aclTensor* dpseOut, const aclTensor* dsinkOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
    ScoreRequest request = make_request(
        kUnpaddingScoreGradV5, {kInputsWithRopeAndSink, kOutputsWithRopeAndSink},
        {pseShiftOptional, dropMaskOptional, paddingMaskOptional, attenMaskOptional, prefixOptional, scaleValue,
         keepProb, preTokens, nextTokens, headNum, inputLayout, innerPrecise, sparseMode, workspaceSize, executor},
        query, keyIn, value, dy, {softmaxMaxOptional, softmaxSumOptional, softmaxInOptional, attentionInOptional},
        {dqOut, dkOut, dvOut, dpseOut});
    request.varlen = true;
    set_lists(request, actualSeqQLenOptional, actualSeqKvLenOptional);
    set_pse_type(request, qStartIdxOptional, kvStartIdxOptional, pseType);
    set_rope(request, queryRope, keyInRope, dqRopeOut, dkRopeOut);
    set_sink(request, sinkInOptional, dsinkOut);
    request.softmax_layout = softmaxInLayout;
    return plan_grad(request);
}

aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV5GetMaxWorkspaceSize(
    const aclTensor* query, const aclTensor* queryRope, const aclTensor* keyIn, const aclTensor* keyInRope,
    const aclTensor* value, const aclTensor* dy, const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional,
    const aclTensor* softmaxSumOptional, const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional,
    const aclTensor* sinkInOptional, const aclIntArray* prefixOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, const aclIntArray* qStartIdxOptional,
    const aclIntArray* kvStartIdxOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, int64_t pseType,
    char* softmaxInLayout, const aclTensor* dqOut, const aclTensor* dqRopeOut, const aclTensor* dkOut,
    const aclTensor* dkRopeOut, const aclTensor* dvOut, const aclTensor* dpseOut, const aclTensor* dsinkOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
    // The bound is for any probability.
    ScoreRequest request = make_request(
        kUnpaddingScoreGradV5, {kInputsWithRopeAndSink, kOutputsWithRopeAndSink},
        {pseShiftOptional, dropMaskOptional, paddingMaskOptional, attenMaskOptional, prefixOptional, scaleValue, 1.0,
         preTokens, nextTokens, headNum, inputLayout, innerPrecise, sparseMode, workspaceSize, executor},
        query, keyIn, value, dy, {softmaxMaxOptional, softmaxSumOptional, softmaxInOptional, attentionInOptional},
        {dqOut, dkOut, dvOut, dpseOut});
    request.varlen = true;
    request.max_workspace = true;
    set_lists(request, actualSeqQLenOptional, actualSeqKvLenOptional);
    set_pse_type(request, qStartIdxOptional, kvStartIdxOptional, pseType);
    set_rope(request, queryRope, keyInRope, dqRopeOut, dkRopeOut);
    set_sink(request, sinkInOptional, dsinkOut);
    request.softmax_layout = softmaxInLayout;
    return plan_grad(request);
}

aclnnStatus aclnnFlashAttentionUnpaddingScoreGradV5(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                    const aclrtStream stream) {
    return opbase::run_operator(kUnpaddingScoreGradV5, workspace, workspaceSize, executor, stream);
}
