#include "engine/forward.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "opbase/parallel.h"

namespace flash_attention {

namespace {

// A pointer into an operand, or nullptr when the problem does not use it.
template <class T>
T* element(void* base, int64_t offset, int64_t bytes) {
    return base == nullptr ? nullptr : reinterpret_cast<T*>(static_cast<std::byte*>(base) + offset * bytes);
}

// Rows of `head` from `first_row` of the sequence whose row 0 of head 0 lies at `origin`.
Rows rows_of(void* base, int64_t origin, const RowStrides& strides, int64_t head, int64_t first_row, int64_t bytes) {
    return {element<const void>(base, origin + head * strides.head + first_row * strides.row, bytes), strides.row};
}

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

ForwardBlock make_block(const Problem& problem, const ForwardPlan::Block& rows, int64_t head, const Addresses& at) {
    const Sequence& s = problem.sequences[rows.sequence];
    const int64_t bytes = element_bytes(problem.type);
    const int64_t row = rows.row_begin, kv_head = problem.kv_head(head);
    const int64_t out = s.out + head * problem.out.head + row * problem.out.row;
    const int64_t stats = s.stats + head * s.stats_strides.head + row * s.stats_strides.row;
    const int64_t mask = s.mask + head * problem.mask.head + row * problem.mask.row;

    ForwardBlock block;
    block.parts[0] = {rows_of(at[kQuery], s.query, problem.query, head, row, bytes),
                      rows_of(at[kKey], s.key, problem.key, kv_head, 0, bytes), problem.head_dim};
    block.parts[1] = {rows_of(at[kQueryRope], s.query_rope, problem.query_rope, head, row, bytes),
                      rows_of(at[kKeyRope], s.key_rope, problem.key_rope, kv_head, 0, bytes), problem.rope_dim};
    block.value = rows_of(at[kValue], s.value, problem.value, kv_head, 0, bytes);
    block.out = element<void>(at[kAttentionOut], out, bytes);
    block.max = element<float>(at[kSoftmaxMax], stats, sizeof(float));
    block.sum = element<float>(at[kSoftmaxSum], stats, sizeof(float));
    block.out_stride = problem.out.row;
    block.stats_stride = s.stats_strides.row;
    block.mask = problem.has_mask ? element<const uint8_t>(at[kAttenMask], mask, 1) : nullptr;
    block.mask_stride = problem.mask.row;
    block.drop_mask = problem.has_drop_mask ? static_cast<const uint8_t*>(at[kDropMask]) : nullptr;
    // Only a mask with a bit for every pair bounds their number.
    block.drop_first_bit = problem.has_drop_mask ? s.drop_bit + (head * s.q_len + row) * s.kv_len : 0;
    block.keep_prob = problem.keep_prob;
    block.sink =
        problem.has_sink ? static_cast<const float*>(at[kSink])[head] : -std::numeric_limits<float>::infinity();
    block.bias = bias_of(problem, s.bias, head, at);
    block.row_begin = rows.row_begin;
    block.row_end = rows.row_end;
    block.kv_len = s.kv_len;
    block.value_dim = problem.value_dim;
    block.scale = problem.scale;
    block.band = s.band;
    return block;
}

}  // namespace

ForwardPlan plan_forward(const Problem& problem) {
    ForwardPlan plan;
    plan.kernels = &kernels().forward[static_cast<int>(problem.type)];

    struct Weighed {
        int64_t pairs;
        ForwardPlan::Block block;
    };
    std::vector<Weighed> weighed;
    weighed.reserve(problem.sequences.size());
    for (int64_t s = 0; s < static_cast<int64_t>(problem.sequences.size()); s++) {
        const Sequence& sequence = problem.sequences[s];
        for (int64_t row = 0; row < sequence.q_len; row += plan.kernels->query_block) {
            const int64_t end = std::min(row + plan.kernels->query_block, sequence.q_len);
            weighed.push_back({visible_pairs(sequence.band, row, end, sequence.kv_len), {s, row, end}});
        }
    }
    // Longest first keeps threads from waiting for one late long block. Equal blocks stay in order, so that neighbours
    // that read the same keys follow each other.
    std::stable_sort(weighed.begin(), weighed.end(),
                     [](const Weighed& a, const Weighed& b) { return a.pairs > b.pairs; });
    plan.blocks.reserve(weighed.size());
    for (const Weighed& w : weighed) plan.blocks.push_back(w.block);

    const int64_t items = static_cast<int64_t>(plan.blocks.size()) * problem.query_heads;
    plan.slots = static_cast<int>(std::clamp<int64_t>(items, 1, opbase::thread_count()));
    plan.scratch_bytes = plan.kernels->scratch_bytes({{problem.head_dim, problem.rope_dim}, problem.value_dim});
    return plan;
}

void run_forward(const Problem& problem, const ForwardPlan& plan, const Addresses& addresses, void* workspace) {
    const int64_t heads = problem.query_heads;
    auto body = [&](int64_t item, int slot) {
        const ForwardBlock block = make_block(problem, plan.blocks[item / heads], item % heads, addresses);
        plan.kernels->run(block, static_cast<std::byte*>(workspace) + slot * plan.scratch_bytes);
    };
    opbase::parallel_for(static_cast<int64_t>(plan.blocks.size()) * heads, plan.slots, body);
}

}  // namespace flash_attention
