#include "engine/forward.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "engine/blocks.h"
#include "engine/decode.h"
#include "opbase/parallel.h"

namespace flash_attention {

namespace {

ForwardBlock make_block(const Problem& problem, const ForwardPlan::Block& rows, int64_t head, const Addresses& at) {
    const Sequence& s = problem.sequences[rows.sequence];
    const int64_t stats = s.stats + head * s.stats_strides.head + rows.row_begin * s.stats_strides.row;
    ForwardBlock block{};
    static_cast<ScoreBlock&>(block) = score_block(problem, s, head, rows.row_begin, rows.row_end, at);
    block.out = element<void>(at[kAttentionOut], s.out + head * problem.out.head + rows.row_begin * problem.out.row,
                              element_bytes(problem.type));
    block.max = element<float>(at[kSoftmaxMax], stats, sizeof(float));
    block.sum = element<float>(at[kSoftmaxSum], stats, sizeof(float));
    block.out_stride = problem.out.row;
    block.stats_stride = s.stats_strides.row;
    block.sink =
        problem.has_sink ? static_cast<const float*>(at[kSink])[head] : -std::numeric_limits<float>::infinity();
    return block;
}

void add_blocks(const Problem& problem, int64_t index, ForwardPlan& plan) {
    const Sequence& s = problem.sequences[index];
    ForwardPlan::Block block;
    block.sequence = index;
    for (int64_t row = 0; row < s.q_len; row += plan.kernels->query_block) {
        block.row_begin = row;
        block.row_end = std::min(row + plan.kernels->query_block, s.q_len);
        block.cost = visible_pairs(s.band, block.row_begin, block.row_end, s.kv_len);
        plan.blocks.push_back(block);
    }
}

void add_chunks(const Problem& problem, int64_t index, ForwardPlan& plan) {
    const Sequence& s = problem.sequences[index];
    const DecodeChunks chunks = decode_chunks(s);
    ForwardPlan::Block block;
    block.sequence = index;
    block.row_end = s.q_len;
    if (chunks.count > 1) {
        block.split = static_cast<int64_t>(plan.splits.size());
        plan.splits.push_back({index, chunks.count, partial_bytes(problem, s), plan.partial_bytes});
        plan.partial_bytes += problem.kv_heads * chunks.count * partial_bytes(problem, s);
    }
    for (block.chunk = 0; block.chunk < chunks.count; block.chunk++) {
        block.keys = chunks[block.chunk];
        // Reading a key takes as long as some pairs, whether there are as many rows or not.
        block.cost = (block.keys.end - block.keys.begin) * kDecodeRows;
        plan.blocks.push_back(block);
    }
}

// Items of a block.
int64_t items_of(const Problem& problem, const ForwardPlan::Block& block) {
    if (block.chunk == ForwardPlan::kNoChunk) return problem.query_heads;
    return problem.kv_heads * decode_parts(problem, problem.sequences[block.sequence]).parts;
}

// Sorts blocks and makes runs of them. The last items are short ones in either case, so that no thread is late; with
// few items for each thread that takes the strict order, longest first.
void order_blocks(const Problem& problem, int threads, ForwardPlan& plan) {
    constexpr int64_t kManyItems = 16;  // for a thread
    const bool by_sequence = plan.items >= kManyItems * threads;
    const auto longer = [](const ForwardPlan::Block& a, const ForwardPlan::Block& b) { return a.cost > b.cost; };
    if (!by_sequence) std::stable_sort(plan.blocks.begin(), plan.blocks.end(), longer);

    struct Weighed {
        int64_t cost;
        ForwardPlan::Run run;
    };
    std::vector<Weighed> weighed;
    for (int64_t first = 0, end = 0; first < static_cast<int64_t>(plan.blocks.size()); first = end) {
        Weighed w{0, {0, first, 0}};
        for (end = first; end < static_cast<int64_t>(plan.blocks.size()); end++) {
            const bool same = plan.blocks[end].sequence == plan.blocks[first].sequence;
            if (end > first && !(by_sequence && same)) break;
            w.cost += plan.blocks[end].cost;
        }
        w.run.blocks = end - first;
        std::stable_sort(plan.blocks.begin() + first, plan.blocks.begin() + end, longer);
        weighed.push_back(w);
    }
    std::stable_sort(weighed.begin(), weighed.end(),
                     [](const Weighed& a, const Weighed& b) { return a.cost > b.cost; });
    int64_t item = 0;
    plan.runs.reserve(weighed.size());
    for (Weighed& w : weighed) {
        w.run.first_item = item;
        item += w.run.blocks * items_of(problem, plan.blocks[w.run.first_block]);
        plan.runs.push_back(w.run);
    }
}

// The rows of one item of a decode, and where its partial results lie among those of its head of keys and values.
class DecodeItem {
  public:
    DecodeItem(const Problem& problem, int64_t sequence, int64_t item, const Addresses& at) {
        ForwardPlan::Block all;
        all.sequence = sequence;
        all.row_end = problem.sequences[sequence].q_len;
        const DecodeParts parts = decode_parts(problem, problem.sequences[sequence]);
        const int64_t group = problem.query_heads / problem.kv_heads, first = item % parts.parts * parts.heads;
        kv_head_ = item / parts.parts;
        first_row_ = first * all.row_end;
        rows_ = {blocks_, std::min(parts.heads, group - first)};
        for (int64_t i = 0; i < rows_.head_count; i++)
            blocks_[i] = make_block(problem, all, kv_head_ * group + first + i, at);
    }
    const DecodeRows& rows() const { return rows_; }

    float* partials(const ForwardPlan::Split& split, std::byte* memory, int64_t chunk) const {
        auto* of_chunk =
            reinterpret_cast<float*>(memory + split.first_byte + (kv_head_ * split.chunks + chunk) * split.chunk_bytes);
        return of_chunk + first_row_ * decode_row_floats(blocks_[0].value_dim);
    }

  private:
    ForwardBlock blocks_[kDecodeRows];
    DecodeRows rows_;
    int64_t kv_head_, first_row_;
};

// A plan that is carried out.
struct ForwardRun {
    const Problem& problem;
    const ForwardPlan& plan;
    const Addresses& addresses;
    std::byte *scratch, *partials;

    void run_item(int64_t item, int slot) const {
        const auto after = std::upper_bound(plan.runs.begin(), plan.runs.end(), item,
                                            [](int64_t i, const ForwardPlan::Run& run) { return i < run.first_item; });
        const ForwardPlan::Run& run = *(after - 1);
        const int64_t in_run = item - run.first_item, in_block = in_run / run.blocks;
        const ForwardPlan::Block& block = plan.blocks[run.first_block + in_run % run.blocks];
        std::byte* of_slot = scratch + slot * plan.scratch_bytes;
        if (block.chunk == ForwardPlan::kNoChunk)
            return plan.kernels->run(make_block(problem, block, in_block, addresses), of_slot);
        const DecodeItem decode(problem, block.sequence, in_block, addresses);
        float* partial = block.split == ForwardPlan::kNoSplit
                             ? nullptr
                             : decode.partials(plan.splits[block.split], partials, block.chunk);
        plan.kernels->decode(decode.rows(), block.keys, partial, of_slot);
    }

    // Items are counted as in one chunk of the split.
    void finish_item(const ForwardPlan::Split& split, int64_t item) const {
        const DecodeItem decode(problem, split.sequence, item, addresses);
        plan.kernels->finish_decode(decode.rows(), decode.partials(split, partials, 0), split.chunks,
                                    split.chunk_bytes / static_cast<int64_t>(sizeof(float)));
    }
};

}  // namespace

ForwardPlan plan_forward(const Problem& problem) {
    return plan_forward(problem, kernels().forward[static_cast<int>(problem.type)], opbase::thread_count());
}

ForwardPlan plan_forward(const Problem& problem, const ForwardKernels& kernels, int threads) {
    ForwardPlan plan;
    plan.kernels = &kernels;
    plan.blocks.reserve(problem.sequences.size());
    for (int64_t s = 0; s < static_cast<int64_t>(problem.sequences.size()); s++) {
        if (is_decode(problem.sequences[s]))
            add_chunks(problem, s, plan);
        else
            add_blocks(problem, s, plan);
    }
    for (const ForwardPlan::Block& block : plan.blocks) plan.items += items_of(problem, block);
    order_blocks(problem, threads, plan);
    plan.slots = static_cast<int>(std::clamp<int64_t>(plan.items, 1, threads));
    plan.scratch_bytes = plan.kernels->scratch_bytes({{problem.head_dim, problem.rope_dim}, problem.value_dim});
    return plan;
}

void run_forward(const Problem& problem, const ForwardPlan& plan, const Addresses& addresses, void* workspace) {
    std::byte* scratch = static_cast<std::byte*>(workspace);
    const ForwardRun run{problem, plan, addresses, scratch, scratch + plan.slots * plan.scratch_bytes};
    opbase::parallel_for(plan.items, plan.slots, [&](int64_t item, int slot) { run.run_item(item, slot); });
    if (plan.splits.empty()) return;
    opbase::parallel_for(static_cast<int64_t>(plan.splits.size()) * problem.kv_heads, plan.slots,
                         [&](int64_t item, int) {
                             const ForwardPlan::Split& split = plan.splits[item / problem.kv_heads];
                             const int64_t parts = decode_parts(problem, problem.sequences[split.sequence]).parts;
                             for (int64_t part = 0; part < parts; part++)
                                 run.finish_item(split, item % problem.kv_heads * parts + part);
                         });
}

}  // namespace flash_attention
