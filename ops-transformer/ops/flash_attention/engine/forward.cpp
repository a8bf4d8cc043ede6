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

// Cuts every sequence into blocks of query rows.
void add_blocks(const Problem& problem, ForwardPlan& plan) {
    const int64_t step = plan.kernels->query_block;
    plan.blocks.reserve(problem.sequences.size());
    for (int64_t s = 0; s < static_cast<int64_t>(problem.sequences.size()); s++) {
        const Sequence& sequence = problem.sequences[s];
        for (int64_t row = 0; row < sequence.q_len; row += step) {
            const int64_t end = std::min(row + step, sequence.q_len);
            plan.blocks.push_back({s, row, end, visible_pairs(sequence.band, row, end, sequence.kv_len)});
        }
    }
}

// Sorts blocks and makes runs of them. The last items are short ones in either case, so that no thread is late; with
// few items for each thread that takes the strict order, longest first.
void order_blocks(int64_t heads, int threads, ForwardPlan& plan) {
    constexpr int64_t kManyItems = 16;  // for a thread
    const bool by_sequence = plan.items >= kManyItems * threads;
    const auto longer = [](const ForwardPlan::Block& a, const ForwardPlan::Block& b) { return a.pairs > b.pairs; };
    if (!by_sequence) std::stable_sort(plan.blocks.begin(), plan.blocks.end(), longer);

    struct Weighed {
        int64_t pairs;
        ForwardPlan::Run run;
    };
    std::vector<Weighed> weighed;
    for (int64_t first = 0, end = 0; first < static_cast<int64_t>(plan.blocks.size()); first = end) {
        Weighed w{0, {0, first, 0}};
        for (end = first; end < static_cast<int64_t>(plan.blocks.size()); end++) {
            const bool same = plan.blocks[end].sequence == plan.blocks[first].sequence;
            if (end > first && !(by_sequence && same)) break;
            w.pairs += plan.blocks[end].pairs;
        }
        w.run.blocks = end - first;
        std::stable_sort(plan.blocks.begin() + first, plan.blocks.begin() + end, longer);
        weighed.push_back(w);
    }
    std::stable_sort(weighed.begin(), weighed.end(),
                     [](const Weighed& a, const Weighed& b) { return a.pairs > b.pairs; });
    int64_t item = 0;
    plan.runs.reserve(weighed.size());
    for (Weighed& w : weighed) {
        w.run.first_item = item;
        item += w.run.blocks * heads;
        plan.runs.push_back(w.run);
    }
}

}  // namespace

ForwardPlan plan_forward(const Problem& problem) {
    ForwardPlan plan;
    plan.kernels = &kernels().forward[static_cast<int>(problem.type)];
    const int threads = opbase::thread_count();
    add_blocks(problem, plan);
    plan.items = static_cast<int64_t>(plan.blocks.size()) * problem.query_heads;
    order_blocks(problem.query_heads, threads, plan);
    plan.slots = static_cast<int>(std::clamp<int64_t>(plan.items, 1, threads));
    plan.scratch_bytes = plan.kernels->scratch_bytes({{problem.head_dim, problem.rope_dim}, problem.value_dim});
    return plan;
}

void run_forward(const Problem& problem, const ForwardPlan& plan, const Addresses& addresses, void* workspace) {
    auto body = [&](int64_t item, int slot) {
        const auto after = std::upper_bound(plan.runs.begin(), plan.runs.end(), item,
                                            [](int64_t i, const ForwardPlan::Run& run) { return i < run.first_item; });
        const ForwardPlan::Run& run = *(after - 1);
        const int64_t in_run = item - run.first_item;
        const ForwardPlan::Block& rows = plan.blocks[run.first_block + in_run % run.blocks];
        const ForwardBlock block = make_block(problem, rows, in_run / run.blocks, addresses);
        plan.kernels->run(block, static_cast<std::byte*>(workspace) + slot * plan.scratch_bytes);
    };
    opbase::parallel_for(plan.items, plan.slots, body);
}

}  // namespace flash_attention
