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
    bool varlen = false;                  // TND with lists of lengths
    std::span<const TensorField> inputs;  // the tensor inputs in the order of the C signature, for address exchange

    const aclTensor* query = nullptr;
    const aclTensor* key = nullptr;
    const aclTensor* value = nullptr;
    const aclTensor* real_shift = nullptr;
    const aclTensor* drop_mask = nullptr;
    const aclTensor* padding_mask = nullptr;  // reserved by the interface: never looked at
    const aclTensor* atten_mask = nullptr;
    const aclIntArray* prefix = nullptr;
    const aclIntArray* q_ends = nullptr;  // actualSeqQLenOptional: cumulative ends
    const aclIntArray* kv_ends = nullptr;
    double scale = 1.0;
    double keep_prob = 1.0;
    int64_t pre_tokens = INT64_MAX;
    int64_t next_tokens = INT64_MAX;
    int64_t head_num = 0;
    const char* input_layout = nullptr;
    int64_t inner_precise = 0;  // accepted with any value: rows without visible key are always handled exactly
    int64_t sparse_mode = 0;
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
