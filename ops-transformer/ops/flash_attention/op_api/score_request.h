// The arguments of one forward call, whatever version of the operator it came through.
#pragma once

#include <cstdint>
#include <span>

#include "acl/acl_base.h"
#include "aclnn/acl_meta.h"

namespace flash_attention {

// Field names are the engine's words; the messages use the names of the C signature. A version that lacks an argument
// leaves the default, which means the same as the absent argument.
struct ScoreRequest {
    using TensorField = const aclTensor* ScoreRequest::*;

    const char* name = nullptr;           // of the operator: "aclnnFlashAttentionScore"
    std::span<const TensorField> inputs;  // the tensor inputs in the order of the C signature, for address exchange
    bool varlen = false;                  // TND with lists of lengths
    bool any_layout = false;              // the one operator for dense batches and TND; `varlen` follows the layout
    bool out_dtype_first = false;         // one version compares the dtype of attentionOut with those of the inputs
    bool max_workspace = false;           // asks for the workspace of the worst lists instead of the given ones
    const char* query_rope_name = "queryRope";  // in the C signature
    const char* key_rope_name = "keyRope";

    const aclTensor* query = nullptr;
    const aclTensor* key = nullptr;
    const aclTensor* value = nullptr;
    const aclTensor* query_rope = nullptr;
    const aclTensor* key_rope = nullptr;
    const aclTensor* real_shift = nullptr;
    const aclTensor* drop_mask = nullptr;
    const aclTensor* padding_mask = nullptr;  // reserved by the interface: never looked at
    const aclTensor* atten_mask = nullptr;
    const aclTensor* sink = nullptr;
    const aclTensor* scale_q = nullptr;  // dScaleQOptional and its like belong to quantised attention
    const aclTensor* scale_k = nullptr;
    const aclTensor* scale_v = nullptr;
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
    const char* softmax_out_layout = nullptr;
    int64_t seed = 0;  // with `offset`: of a dropout mask that the operator makes itself
    int64_t offset = 0;
    const aclTensor* softmax_max = nullptr;
    const aclTensor* softmax_sum = nullptr;
    const aclTensor* softmax_out = nullptr;  // reserved by the interface: never written
    const aclTensor* attention_out = nullptr;
    uint64_t* workspace_size = nullptr;
    aclOpExecutor** executor = nullptr;
};

// The tensor outputs in the order that all versions share.
inline constexpr ScoreRequest::TensorField kScoreOutputs[] = {&ScoreRequest::softmax_max, &ScoreRequest::softmax_sum,
                                                              &ScoreRequest::softmax_out, &ScoreRequest::attention_out};

// Phase one of every forward operator. Never throws.
aclnnStatus plan_score(const ScoreRequest& request) noexcept;

}  // namespace flash_attention
