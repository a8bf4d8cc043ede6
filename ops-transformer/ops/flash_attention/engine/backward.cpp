#include "engine/backward.h"

#include <algorithm>
#include <cstddef>

#include "engine/backward_extras.h"
#include "engine/blocks.h"
#include "opbase/parallel.h"

namespace flash_attention {

namespace {

constexpr int64_t kMostChunks = 8;
constexpr int64_t kManyHeads = 4;  // for each thread

int64_t divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

int64_t head_group(const Problem& problem) {
    return problem.query_heads / problem.kv_heads;
}

int64_t row_blocks(const BackwardKernels& kernels, const Sequence& s) {
    return divide_up(s.q_len, kernels.query_block);
}

// Partial dq of all query heads that share a head of keys and values.
int64_t dq_floats_of_head(const Problem& problem, const BackwardPlan& plan, const Sequence& s) {
    return head_group(problem) * row_blocks(*plan.kernels, s) * plan.dq_floats;
}

int64_t pairs_of(const Problem& problem, const Sequence& s, KeyRange keys) {
    return head_group(problem) *
           (visible_pairs(s.band, 0, s.q_len, keys.end) - visible_pairs(s.band, 0, s.q_len, keys.begin));
}

// Sums of dq over parts of the keys are needed as soon as there is more than one.
bool has_parts(const Sequence& s) {
    return s.kv_len > kBackwardKeys;
}

// While a chunk has one part, parts can be added to the total at once.
bool has_parts_of_chunks(const Sequence& s) {
    const KeyChunks chunks(s.kv_len);
    return chunks.parts > chunks.count;
}

// Heads are few when threads would wait for the last of them; so many heads even out what one takes longer.
bool heads_are_few(const Problem& problem, int64_t threads) {
    int64_t heads = 0;
    bool several = false;
    for (const Sequence& s : problem.sequences) {
        if (!s.has_pairs()) continue;
        heads += problem.kv_heads;
        several |= KeyChunks(s.kv_len).count > 1;
    }
    return several && heads < kManyHeads * threads && heads % threads != 0;
}

void add_items(const Problem& problem, BackwardPlan& plan) {
    for (int64_t s = 0; s < static_cast<int64_t>(problem.sequences.size()); s++) {
        const Sequence& sequence = problem.sequences[s];
        const KeyChunks chunks(sequence.kv_len);
        const int64_t floats = has_parts(sequence) ? dq_floats_of_head(problem, plan, sequence) : 0;
        const int64_t bytes = floats * static_cast<int64_t>(sizeof(float));
        const bool apart = plan.chunks_apart && chunks.count > 1;
        if (!apart) plan.slot_dq_bytes = std::max(plan.slot_dq_bytes, bytes * (has_parts_of_chunks(sequence) ? 2 : 1));
        for (int64_t head = 0; head < problem.kv_heads; head++) {
            BackwardPlan::Item item{s, head, BackwardPlan::kAllChunks, 0, plan.dq_bytes};
            item.pairs = pairs_of(problem, sequence, {0, sequence.kv_len});
            if (!apart) {
                plan.items.push_back(item);
                continue;
            }
            plan.sums.push_back(item);
            plan.dq_bytes += chunks.count * bytes;
            for (item.chunk = 0; item.chunk < chunks.count; item.chunk++) {
                item.pairs = pairs_of(problem, sequence, chunks[item.chunk]);
                plan.items.push_back(item);
            }
        }
    }
    std::stable_sort(plan.items.begin(), plan.items.end(),
                     [](const BackwardPlan::Item& a, const BackwardPlan::Item& b) { return a.pairs > b.pairs; });
}

BackwardKeys make_keys(const Problem& problem, const Sequence& s, int64_t kv_head, KeyRange keys, const Addresses& at) {
    const int64_t bytes = element_bytes(problem.type);
    BackwardKeys made;
    made.keys = keys;
    made.shape = shape_of(problem);
    made.dk[0] = element<void>(at[kDk], s.dk + kv_head * problem.dk.head, bytes);
    made.dk[1] = element<void>(at[kDkRope], s.dk_rope + kv_head * problem.dk_rope.head, bytes);
    made.dv = element<void>(at[kDv], s.dv + kv_head * problem.dv.head, bytes);
    made.dk_stride[0] = problem.dk.row;
    made.dk_stride[1] = problem.dk_rope.row;
    made.dv_stride = problem.dv.row;
    made.scale = problem.scale;
    return made;
}

// A plan that is carried out.
class BackwardRun {
  public:
    BackwardRun(const Problem& problem, const BackwardPlan& plan, const Addresses& addresses, std::byte* workspace)
        : problem_(problem), plan_(plan), at_(addresses), workspace_(workspace) {}

    void run_item(const BackwardPlan::Item& item, int slot) const {
        const Sequence& s = problem_.sequences[item.sequence];
        std::byte* scratch = workspace_ + slot * plan_.slot_bytes();
        const KeyChunks chunks(s.kv_len);
        const int64_t floats = dq_floats_of_head(problem_, plan_, s);
        if (item.chunk != BackwardPlan::kAllChunks) {
            float* sums = partial_dq(item) + item.chunk * floats;
            return run_chunk(item, chunks[item.chunk], scratch, sums, false);
        }
        float* total = has_parts(s) ? reinterpret_cast<float*>(scratch + plan_.scratch_bytes) : nullptr;
        for (int64_t chunk = 0; chunk < chunks.count; chunk++) {
            const bool apart = chunk > 0 && has_parts_of_chunks(s);
            run_chunk(item, chunks[chunk], scratch, apart ? total + floats : total, chunk > 0 && !apart);
            if (apart) add(total + floats, floats, total);
        }
        if (total != nullptr) write_dq(item, total);
    }

    void add_chunks(const BackwardPlan::Item& head) const {
        const Sequence& s = problem_.sequences[head.sequence];
        const int64_t floats = dq_floats_of_head(problem_, plan_, s);
        float* total = partial_dq(head);
        for (int64_t chunk = 1; chunk < KeyChunks(s.kv_len).count; chunk++) add(total + chunk * floats, floats, total);
        write_dq(head, total);
    }

  private:
    float* partial_dq(const BackwardPlan::Item& item) const {
        return reinterpret_cast<float*>(workspace_ + plan_.slots * plan_.slot_bytes() + item.dq_bytes);
    }

    static void add(const float* more, int64_t count, float* total) {
        for (int64_t i = 0; i < count; i++) total[i] += more[i];
    }

    // use(block, its number) for all blocks of query rows that share the head of keys and values.
    template <class Use>
    void for_each_block(const BackwardPlan::Item& item, Use&& use) const {
        const Sequence& s = problem_.sequences[item.sequence];
        const int64_t group = head_group(problem_);
        int64_t number = 0;
        for (int64_t head = item.kv_head * group; head < (item.kv_head + 1) * group; head++)
            for (int64_t row = 0; row < s.q_len; row += plan_.kernels->query_block)
                use(backward_block(problem_, s, head, {row, std::min(row + plan_.kernels->query_block, s.q_len)}, at_),
                    number++);
    }

    // dk and dv of some keys. Their part of dq goes into the sums, or, when these are nullptr, is all of it.
    void run_chunk(const BackwardPlan::Item& item, KeyRange chunk, std::byte* scratch, float* dq_sums,
                   bool started) const {
        const Sequence& s = problem_.sequences[item.sequence];
        for (int64_t key = chunk.begin; key == chunk.begin || key < chunk.end; key += kBackwardKeys) {
            const KeyRange part{key, std::min(key + kBackwardKeys, chunk.end)};
            const BackwardKeys keys = make_keys(problem_, s, item.kv_head, part, at_);
            plan_.kernels->begin(keys, scratch);
            for_each_block(item, [&](BackwardBlock block, int64_t number) {
                if (dq_sums != nullptr) block.dq_sum = dq_sums + number * plan_.dq_floats;
                block.dq_started = started;
                plan_.kernels->add(block, keys, scratch);
            });
            plan_.kernels->end(keys, scratch);
            started = true;
        }
    }

    void write_dq(const BackwardPlan::Item& item, const float* sums) const {
        for_each_block(item, [&](const BackwardBlock& block, int64_t number) {
            plan_.kernels->write_dq(block, sums + number * plan_.dq_floats);
        });
    }

    const Problem& problem_;
    const BackwardPlan& plan_;
    const Addresses& at_;
    std::byte* workspace_;
};

}  // namespace

KeyChunks::KeyChunks(int64_t keys)
    : kv_len(keys), parts(std::max<int64_t>(divide_up(keys, kBackwardKeys), 1)), count(std::min(parts, kMostChunks)) {}

KeyRange KeyChunks::operator[](int64_t chunk) const {
    const auto begin_of = [this](int64_t i) { return std::min(i * parts / count * kBackwardKeys, kv_len); };
    return {begin_of(chunk), begin_of(chunk + 1)};
}

BackwardPlan plan_backward(const Problem& problem) {
    return plan_backward(problem, kernels().backward[static_cast<int>(problem.type)], opbase::thread_count());
}

BackwardPlan plan_backward(const Problem& problem, const BackwardKernels& kernels, int threads) {
    BackwardPlan plan;
    plan.kernels = &kernels;
    const FeatureShape shape = shape_of(problem);
    plan.dq_floats = plan.kernels->dq_floats(shape);
    plan.chunks_apart = heads_are_few(problem, threads);
    add_items(problem, plan);
    int64_t keys = 0;
    for (const Sequence& s : problem.sequences) keys = std::max(keys, std::min(s.kv_len, kBackwardKeys));
    plan.scratch_bytes = plan.kernels->scratch_bytes(shape, keys);
    plan.bias = plan_bias_gradient(problem, kernels.query_block);
    if (!plan.bias.empty()) plan.scratch_bytes = std::max(plan.scratch_bytes, plan.kernels->bias.scratch_bytes(shape));
    const auto items = static_cast<int64_t>(std::max(plan.items.size(), plan.bias.size()));
    plan.slots = static_cast<int>(std::clamp<int64_t>(items, 1, threads));
    return plan;
}

int64_t most_workspace_bytes(const Problem& problem, int64_t entries, int64_t q_len, int64_t kv_len) {
    const BackwardKernels& table = kernels().backward[static_cast<int>(problem.type)];
    const FeatureShape shape = shape_of(problem);
    int64_t scratch = table.scratch_bytes(shape, std::min(kv_len, kBackwardKeys));
    if (problem.wants_dbias) scratch = std::max(scratch, table.bias.scratch_bytes(shape));
    const int64_t slots = opbase::thread_count();
    if (kv_len <= kBackwardKeys) return slots * scratch;
    // A sum of dq for all rows: in one sequence, or in many, each of which has at most one block that is not full.
    // Where chunks follow each other, a slot has two of them for one head; where they are apart, every head has one for
    // each chunk, and slots have none.
    const int64_t block_bytes = head_group(problem) * table.dq_floats(shape) * static_cast<int64_t>(sizeof(float));
    const int64_t in_slots = slots * 2 * divide_up(q_len, table.query_block) * block_bytes;
    const int64_t chunks = std::min(divide_up(kv_len, kBackwardKeys), kMostChunks);
    const int64_t apart = problem.kv_heads * chunks * (q_len / table.query_block + entries) * block_bytes;
    const bool may_be_few = problem.kv_heads < kManyHeads * slots;
    return slots * scratch + std::max(in_slots, may_be_few ? apart : 0);
}

void run_backward(const Problem& problem, const BackwardPlan& plan, const Addresses& addresses, void* workspace) {
    const BackwardRun run(problem, plan, addresses, static_cast<std::byte*>(workspace));
    opbase::parallel_for(static_cast<int64_t>(plan.items.size()), plan.slots,
                         [&](int64_t item, int slot) { run.run_item(plan.items[item], slot); });
    opbase::parallel_for(static_cast<int64_t>(plan.sums.size()), plan.slots,
                         [&](int64_t item, int) { run.add_chunks(plan.sums[item]); });
    opbase::parallel_for(static_cast<int64_t>(plan.bias.size()), plan.slots, [&](int64_t item, int slot) {
        run_bias_gradient(problem, *plan.kernels, plan.bias[item], addresses,
                          static_cast<std::byte*>(workspace) + slot * plan.slot_bytes());
    });
    if (problem.has_sink)
        opbase::parallel_for(problem.query_heads, plan.slots,
                             [&](int64_t head, int) { write_sink_gradient(problem, *plan.kernels, head, addresses); });
}

}  // namespace flash_attention
