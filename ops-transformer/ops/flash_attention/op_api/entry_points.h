// What the entry points of all versions do alike.
#pragma once

#include <cstring>

#include "op_api/score_request.h"
#include "opbase/layout.h"

namespace flash_attention {

// The arguments that every version, forward or backward, has in this order.
struct SharedArguments {
    const aclTensor *bias, *drop_mask, *padding_mask, *atten_mask;
    const aclIntArray* prefix;
    double scale, keep_prob;
    int64_t pre_tokens, next_tokens, head_num;
    const char* input_layout;
    int64_t inner_precise, sparse_mode;
    uint64_t* workspace_size;
    aclOpExecutor** executor;
};

inline void set_shared(ScoreRequest& request, const SharedArguments& shared) {
    request.bias = shared.bias;
    request.drop_mask = shared.drop_mask;
    request.padding_mask = shared.padding_mask;
    request.atten_mask = shared.atten_mask;
    request.prefix = shared.prefix;
    request.scale = shared.scale;
    request.keep_prob = shared.keep_prob;
    request.pre_tokens = shared.pre_tokens;
    request.next_tokens = shared.next_tokens;
    request.head_num = shared.head_num;
    request.input_layout = shared.input_layout;
    request.inner_precise = shared.inner_precise;
    request.sparse_mode = shared.sparse_mode;
    request.workspace_size = shared.workspace_size;
    request.executor = shared.executor;
}

inline void set_lists(ScoreRequest& request, const aclIntArray* q_ends, const aclIntArray* kv_ends) {
    request.q_ends = q_ends;
    request.kv_ends = kv_ends;
}

inline void set_pse_type(ScoreRequest& request, const aclIntArray* q_start, const aclIntArray* kv_start,
                         int64_t pse_type) {
    request.q_start = q_start;
    request.kv_start = kv_start;
    request.pse_type = pse_type;
}

// For the operators that take dense batches and TND.
inline void set_any_layout(ScoreRequest& request) {
    const char* layout = request.input_layout;
    request.any_layout = true;
    request.varlen = layout != nullptr && opbase::parse_layout({layout, strnlen(layout, 32)}) == opbase::Layout::kTND;
}

}  // namespace flash_attention
