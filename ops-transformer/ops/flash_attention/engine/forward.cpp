#include "engine/forward.h"

#include <algorithm>
#include <cstddef>

#include "opbase/parallel.h"

namespace flash_attention {

namespace {

constexpr int64_t kCacheLine = 64;

int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

// A pointer into an operand, or nullptr when the problem does not use it.
template <class T>
T* element(void* base, int64_t offset, int64_t bytes) {
    return base == nullptr ? nullptr : reinterpret_cast<T*>(static_cast<std::byte*>(base) + offset * bytes);
}

ForwardBlock make_block(const Problem& problem, const ForwardPlan::Block& rows, int64_t head, const Addresses& at) {
    const Sequence& s = problem.sequences[rows.sequence];
    const int64_t bytes = element_bytes(problem.type);
    const int64_t kv_head = problem.kv_head(head);
    const int64_t stats = s.stats + head * s.stats_strides.head + rows.row_begin * s.stats_strides.row;
    const int64_t mask = s.mask + head * problem.mask.head + rows.row_begin * problem.mask.row;

    ForwardBlock block;
    block.query = element<const void>(at[kQuery],
                                      s.query + head * problem.query.head + rows.row_begin * problem.query.row, bytes);
    block.key = element<const void>(at[kKey], s.key + kv_head * problem.key.head, bytes);
    block.value = element<const void>(at[kValue], s.value + kv_head * problem.value.head, bytes);
    block.out =
        element<void>(at[kAttentionOut], s.out + head * problem.out.head + rows.row_begin * problem.out.row, bytes);
    block.max = element<float>(at[kSoftmaxMax], stats, sizeof(float));
    block.sum = element<float>(at[kSoftmaxSum], stats, sizeof(float));
    block.mask = problem.has_mask ? element<const uint8_t>(at[kAttenMask], mask, 1) : nullptr;
    block.query_stride = problem.query.row;
    block.key_stride = problem.key.row;
    block.value_stride = problem.value.row;
    block.out_stride = problem.out.row;
    block.stats_stride = s.stats_strides.row;
    block.mask_stride = problem.mask.row;
    block.row_begin = rows.row_begin;
    block.row_end = rows.row_end;
    block.kv_len = s.kv_len;
    block.head_dim = problem.head_dim;
    block.value_dim = problem.value_dim;
    block.scale = problem.scale;
    block.band = s.band;
    return block;
}

}  // namespace

ForwardPlan plan_forward(const Problem& problem) {
    ForwardPlan plan;
    plan.kernels = &kernels();

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
    plan.scratch_bytes = round_up(plan.kernels->forward_scratch_bytes(problem.head_dim, problem.value_dim), kCacheLine);
    return plan;
}

void run_forward(const Problem& problem, const ForwardPlan& plan, const Addresses& addresses, void* workspace) {
    const ForwardKernel kernel = plan.kernels->forward[static_cast<int>(problem.type)];
    const int64_t heads = problem.query_heads;
    auto body = [&](int64_t item, int slot) {
        const ForwardBlock block = make_block(problem, plan.blocks[item / heads], item % heads, addresses);
        kernel(block, static_cast<std::byte*>(workspace) + slot * plan.scratch_bytes);
    };
    opbase::parallel_for(static_cast<int64_t>(plan.blocks.size()) * heads, plan.slots, body);
}

}  // namespace flash_attention
