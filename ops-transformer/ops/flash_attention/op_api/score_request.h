// The arguments of one call, forward or backward, whatever version of the operator it came through.
#pragma once

#include <cstdint>
#include <span>

#include "acl/acl_base.h"
#include "aclnn/acl_meta.h"

namespace flash_attention {

// What messages call the arguments whose names differ between signatures.
struct ArgumentNames {
    const char* key;
    const char* query_rope;
    const char* key_rope;
    const char* bias;
    const char* sink;
    const char* softmax_layout;
    const char* softmax_max;
    const char* softmax_sum;
    const char* attention_out;
};
inline constexpr ArgumentNames kScoreNames{.key = "key",
                                           .query_rope = "queryRope",
                                           .key_rope = "keyRope",
                                           .bias = "realShiftOptional",
                                           .sink = "sinkOptional",
                                           .softmax_layout = "softmaxOutLayout",
                                           .softmax_max = "softmaxMaxOut",
                                           .softmax_sum = "softmaxSumOut",
                                           .attention_out = "attentionOutOut"};
inline constexpr ArgumentNames kGradNames{.key = "keyIn",
                                          .query_rope = "queryRope",
                                          .key_rope = "keyInRope",
                                          .bias = "pseShiftOptional",
                                          .sink = "sinkInOptional",
                                          .softmax_layout = "softmaxInLayout",
                                          .softmax_max = "softmaxMaxOptional",
                                          .softmax_sum = "softmaxSumOptional",
                                          .attention_out = "attentionInOptional"};

// Field names are the engine's words; the messages use the names of the C signature. A version that lacks an argument
// leaves the default, which means the same as the absent argument.
struct ScoreRequest {
    using TensorField = const aclTensor* ScoreRequest::*;

    const char* name = nullptr;            // of the operator: "aclnnFlashAttentionScore"
    std::span<const TensorField> inputs;   // the tensor inputs in the order of the C signature, for address exchange
    std::span<const TensorField> outputs;  // the tensor outputs likewise
    ArgumentNames names = kScoreNames;
    bool backward = false;         // statistics and attention_out are inputs, the gradients are outputs
    bool varlen = false;           // TND with lists of lengths
    bool any_layout = false;       // the one operator for dense batches and TND; `varlen` follows the layout
    bool out_dtype_first = false;  // one version compares the dtype of attentionOut with those of the inputs
    bool max_workspace = false;    // asks for the workspace of the worst lists instead of the given ones

    const aclTensor* query = nullptr;
    const aclTensor* key = nullptr;
    const aclTensor* value = nullptr;
    const aclTensor* query_rope = nullptr;
    const aclTensor* key_rope = nullptr;
    const aclTensor* bias = nullptr;  // realShiftOptional, pseShiftOptional
    const aclTensor* drop_mask = nullptr;
    const aclTensor* padding_mask = nullptr;  // reserved by the interface: never looked at
    const aclTensor* atten_mask = nullptr;
    const aclTensor* sink = nullptr;
    const aclTensor* scale_q = nullptr;  // dScaleQOptional and its like belong to quantised attention
    const aclTensor* scale_k = nullptr;
    const aclTensor* scale_v = nullptr;
    const aclTensor* scale_dy = nullptr;
    const aclTensor* scale_o = nullptr;
    const aclIntArray* prefix = nullptr;
    const aclIntArray* q_ends = nullptr;  // actualSeqQLenOptional: cumulative ends
    const aclIntArray* kv_ends = nullptr;
    const aclIntArray* q_start = nullptr;  // qStartIdxOptional: the first entry counts
    const aclIntArray* kv_start = nullptr;
    double scale = 1.0;
    double keep_prob = 1.0;
    int64_t pre_tokens = INT64_MAX;
    int64_t next_tokens = INT64_MAX;
    int64_t head_num = 0;
    const char* input_layout = nullptr;
    int64_t inner_precise = 0;  // accepted with any value: rows without visible key are always handled exactly
    int64_t sparse_mode = 0;
    int64_t out_dtype = 0;
    int64_t pse_type = 1;
    const char* softmax_layout = nullptr;
    int64_t seed = 0;  // with `offset`: of a dropout mask that the operator makes itself
    int64_t offset = 0;

    // Results of forward, inputs of backward.
    const aclTensor* softmax_max = nullptr;
    const aclTensor* softmax_sum = nullptr;
    const aclTensor* softmax_out = nullptr;  // reserved by the interface: neither written nor read
    const aclTensor* attention_out = nullptr;

    // Of backward.
    const aclTensor* dy = nullptr;
    const aclTensor* dq = nullptr;
    const aclTensor* dk = nullptr;
    const aclTensor* dv = nullptr;
    const aclTensor* dq_rope = nullptr;
    const aclTensor* dk_rope = nullptr;
    const aclTensor* dbias = nullptr;  // dpseOut
    const aclTensor* dsink = nullptr;

    uint64_t* workspace_size = nullptr;
    aclOpExecutor** executor = nullptr;
};

// Phase one of every operator. Never throw.
aclnnStatus plan_score(const ScoreRequest& request) noexcept;
aclnnStatus plan_grad(const ScoreRequest& request) noexcept;

}  // namespace flash_attention
