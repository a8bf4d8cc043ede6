#include "engine/blocks.h"

namespace flash_attention {

Rows rows_of(void* base, int64_t origin, const RowStrides& strides, int64_t head, int64_t first_row, int64_t bytes) {
    return {element<const void>(base, origin + head * strides.head + first_row * strides.row, bytes), strides.row};
}

namespace {

BlockBias bias_of(const Problem& problem, const SequenceBias& s, int64_t head, const Addresses& at) {
    BlockBias bias;
    bias.kind = problem.bias;
    if (is_bias_slope(bias.kind)) {
        bias.slope = static_cast<const float*>(at[kBias])[s.origin + head * s.strides.head];
        bias.diagonal = s.diagonal;
    } else if (is_bias_tensor(bias.kind)) {
        bias.rows = rows_of(at[kBias], s.origin, s.strides, head, 0, element_bytes(problem.type));
        bias.columns = s.columns;
        bias.full_rows = problem.bias_full_rows;
        bias.first_row = s.first_row;
        bias.first_column = s.first_column;
    }
    return bias;
}

}  // namespace

ScoreBlock score_block(const Problem& problem, const Sequence& s, int64_t head, int64_t row_begin, int64_t row_end,
                       const Addresses& at) {
    const int64_t bytes = element_bytes(problem.type);
    const int64_t row = row_begin, kv_head = problem.kv_head(head);
    const int64_t mask = s.mask + head * problem.mask.head + row * problem.mask.row;

    ScoreBlock block;
    block.parts[0] = {rows_of(at[kQuery], s.query, problem.query, head, row, bytes),
                      rows_of(at[kKey], s.key, problem.key, kv_head, 0, bytes), problem.head_dim};
    block.parts[1] = {rows_of(at[kQueryRope], s.query_rope, problem.query_rope, head, row, bytes),
                      rows_of(at[kKeyRope], s.key_rope, problem.key_rope, kv_head, 0, bytes), problem.rope_dim};
    block.value = rows_of(at[kValue], s.value, problem.value, kv_head, 0, bytes);
    block.mask = problem.has_mask ? element<const uint8_t>(at[kAttenMask], mask, 1) : nullptr;
    block.mask_stride = problem.mask.row;
    block.drop_mask = problem.has_drop_mask ? static_cast<const uint8_t*>(at[kDropMask]) : nullptr;
    block.drop_stream = problem.drop_from_seed ? &problem.drop_stream : nullptr;
    // Only with dropout can all pairs be counted.
    block.drop_first_bit = block.drops() ? s.drop_bit + (head * s.q_len + row) * s.kv_len : 0;
    block.keep_prob = problem.keep_prob;
    block.bias = bias_of(problem, s.bias, head, at);
    block.row_begin = row_begin;
    block.row_end = row_end;
    block.kv_len = s.kv_len;
    block.value_dim = problem.value_dim;
    block.scale = problem.scale;
    block.band = s.band;
    return block;
}

BackwardBlock backward_block(const Problem& problem, const Sequence& s, int64_t head, KeyRange rows,
                             const Addresses& at) {
    const int64_t bytes = element_bytes(problem.type), row = rows.begin;
    const int64_t stats = s.stats + head * s.stats_strides.head + row * s.stats_strides.row;
    BackwardBlock block{};
    static_cast<ScoreBlock&>(block) = score_block(problem, s, head, rows.begin, rows.end, at);
    block.dy = rows_of(at[kDy], s.dy, problem.dy, head, row, bytes);
    block.out = rows_of(at[kAttentionOut], s.out, problem.out, head, row, bytes);
    block.max = element<const float>(at[kSoftmaxMax], stats, sizeof(float));
    block.sum = element<const float>(at[kSoftmaxSum], stats, sizeof(float));
    block.stats_stride = s.stats_strides.row;
    block.dq_sum = nullptr;
    block.dq_started = false;
    block.dq[0] = element<void>(at[kDq], s.dq + head * problem.dq.head + row * problem.dq.row, bytes);
    block.dq[1] =
        element<void>(at[kDqRope], s.dq_rope + head * problem.dq_rope.head + row * problem.dq_rope.row, bytes);
    block.dq_stride[0] = problem.dq.row;
    block.dq_stride[1] = problem.dq_rope.row;
    return block;
}

}  // namespace flash_attention
