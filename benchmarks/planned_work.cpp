#include "planned_work.h"

#include <algorithm>

#include "engine/decode.h"

namespace fusion_bench {
namespace {

using namespace flash_attention;

constexpr double kFloat = sizeof(float);
// Of the maximum or the sum of a row, of which each is written eight times; backward reads one, and with it the line.
constexpr double kStatistic = kStatsCopies * kFloat;

// What a problem makes of numbers of rows, keys and pairs.
struct Sizes {
    double query, value;  // features of a row of the query or the key, rope part included; of a value
    double element;
    explicit Sizes(const Problem& problem)
        : query(static_cast<double>(problem.head_dim + problem.rope_dim)),
          value(static_cast<double>(problem.value_dim)),
          element(static_cast<double>(element_bytes(problem.type))) {}

    // Of a key and its value; and as much for a row of the query and of the output.
    double both() const { return (query + value) * element; }
    double sums() const { return (query + value) * kFloat; }  // of the gradients of a key and its value
};

double length(KeyRange keys) {
    return static_cast<double>(std::max<int64_t>(keys.end - keys.begin, 0));
}

KeyRange common(KeyRange a, KeyRange b) {
    return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

WorkItem row_block(const Problem& problem, const ForwardPlan::Block& block) {
    const Sizes size(problem);
    const Sequence& s = problem.sequences[block.sequence];
    const auto rows = static_cast<double>(block.row_end - block.row_begin);
    const double keys = length(any_visible(s.band, block.row_begin, block.row_end, s.kv_len));
    return {static_cast<double>(block.cost) * (size.query + size.value),
            keys * size.both() + rows * (size.both() + 2 * kStatistic)};
}

// A chunk of keys for some of the heads that share it.
WorkItem decode_chunk(const Problem& problem, const ForwardPlan::Block& block, int64_t part) {
    const Sizes size(problem);
    const Sequence& s = problem.sequences[block.sequence];
    const DecodeParts parts = decode_parts(problem, s);
    const int64_t group = problem.query_heads / problem.kv_heads;
    const auto heads = static_cast<double>(std::min(parts.heads, group - part * parts.heads));
    const double rows = heads * static_cast<double>(s.q_len);
    const int64_t pairs =
        visible_pairs(s.band, 0, s.q_len, block.keys.end) - visible_pairs(s.band, 0, s.q_len, block.keys.begin);
    const double result = block.split == ForwardPlan::kNoSplit
                              ? size.value * size.element + 2 * kStatistic
                              : static_cast<double>(decode_row_floats(problem.value_dim)) * kFloat;
    return {heads * static_cast<double>(pairs) * (size.query + size.value),
            length(block.keys) * size.both() + rows * (size.query * size.element + result)};
}

// Partial results of a head of keys and values become its outputs.
WorkItem finish(const Problem& problem, const ForwardPlan::Split& split) {
    const Sizes size(problem);
    const Sequence& s = problem.sequences[split.sequence];
    const auto rows = static_cast<double>(s.q_len * (problem.query_heads / problem.kv_heads));
    return {
        0, static_cast<double>(split.chunks * split.chunk_bytes) + rows * (size.value * size.element + 2 * kStatistic)};
}

// The part of a sequence's keys that is in hand, and all blocks of query rows that see some of it.
class BackwardPart {
  public:
    BackwardPart(const Problem& problem, const BackwardPlan& plan, const Sequence& s, double l2_bytes)
        : size_(problem), plan_(plan), s_(s), l2_bytes_(l2_bytes) {}

    // Of `heads` query heads. dq is written as it is, or, `summed`, as floats, perhaps added to what is there.
    double bytes(KeyRange part, int64_t heads, bool summed, bool started) const {
        const double of_key = size_.both() + 2 * size_.sums();
        const double in_cache = size_.both() + size_.sums();
        double of_head = 0;
        int64_t blocks = 0;
        KeyRange kept;  // keys of the block of query rows before, if they stay in L2
        for (int64_t row = 0; row < s_.q_len; row += plan_.kernels->query_block) {
            const int64_t row_end = std::min(row + plan_.kernels->query_block, s_.q_len);
            const auto rows = static_cast<double>(row_end - row);
            const KeyRange keys = common(any_visible(s_.band, row, row_end, s_.kv_len), part);
            of_head += rows * size_.query * (summed ? (started ? 2 : 1) * kFloat : size_.element);
            if (keys.empty()) continue;
            blocks++;
            of_head += rows * ((size_.query + 2 * size_.value) * size_.element + 2 * kStatistic);
            of_head += (length(keys) - length(common(keys, kept))) * of_key;
            kept = length(keys) * in_cache <= l2_bytes_ ? keys : KeyRange{};
        }
        // Sums are cleared, for every eight blocks added to those before, and written in the type of the result.
        constexpr int64_t kGroup = 8;
        const auto groups = static_cast<double>(heads * blocks / kGroup + 1);
        return static_cast<double>(heads) * of_head +
               length(part) * ((2 + 4 * groups + 1) * size_.sums() + size_.both());
    }

  private:
    const Sizes size_;
    const BackwardPlan& plan_;
    const Sequence& s_;
    const double l2_bytes_;
};

int64_t head_group(const Problem& problem) {
    return problem.query_heads / problem.kv_heads;
}

WorkItem keys_of_head(const Problem& problem, const BackwardPlan& plan, const BackwardPlan::Item& item,
                      double l2_bytes) {
    const Sizes size(problem);
    const Sequence& s = problem.sequences[item.sequence];
    const KeyChunks chunks(s.kv_len);
    const bool all = item.chunk == BackwardPlan::kAllChunks;
    const KeyRange keys = all ? KeyRange{0, s.kv_len} : chunks[item.chunk];
    const bool summed = s.kv_len > kBackwardKeys;
    const BackwardPart part(problem, plan, s, l2_bytes);
    double bytes = 0;
    for (int64_t key = keys.begin; key < keys.end; key += kBackwardKeys)
        bytes +=
            part.bytes({key, std::min(key + kBackwardKeys, keys.end)}, head_group(problem), summed, key > keys.begin);
    if (all && summed) {
        // Chunks of several parts have sums of their own, which are added to the total.
        const double added = chunks.parts > chunks.count ? 3.0 * static_cast<double>(chunks.count - 1) : 0.0;
        bytes +=
            static_cast<double>(head_group(problem) * s.q_len) * size.query * ((added + 1) * kFloat + size.element);
    }
    return {static_cast<double>(item.pairs) * (3 * size.query + 2 * size.value), bytes};
}

// Partial dq of the chunks are added up, one after the other, and written.
WorkItem sum_of_head(const Problem& problem, const BackwardPlan::Item& item) {
    const Sizes size(problem);
    const Sequence& s = problem.sequences[item.sequence];
    const auto more = static_cast<double>(KeyChunks(s.kv_len).count - 1);
    return {0,
            static_cast<double>(head_group(problem) * s.q_len) * size.query * ((3 * more + 1) * kFloat + size.element)};
}

// Scores and the gradient of the weights once more.
WorkItem bias_part(const Problem& problem, const BiasPart& part) {
    const Sizes size(problem);
    const double keys = length(part.keys), rows = length(part.rows);
    const auto sequences = static_cast<double>(part.end_sequence - part.first_sequence);
    return {static_cast<double>(part.pairs) * (size.query + size.value),
            sequences * (keys + rows) * size.both() + keys * rows * size.element};
}

}  // namespace

std::vector<WorkLoop> work_of(const Problem& problem, const ForwardPlan& plan) {
    std::vector<WorkLoop> loops{{"items", {}}};
    for (size_t r = 0; r < plan.runs.size(); r++) {
        const ForwardPlan::Run& run = plan.runs[r];
        const int64_t end = r + 1 < plan.runs.size() ? plan.runs[r + 1].first_item : plan.items;
        std::vector<WorkItem> of_part;
        for (int64_t item = run.first_item; item < end; item++) {
            const int64_t in_run = item - run.first_item;
            const ForwardPlan::Block& block = plan.blocks[run.first_block + in_run % run.blocks];
            if (block.chunk == ForwardPlan::kNoChunk) {
                // All heads are alike.
                if (in_run < run.blocks) of_part.push_back(row_block(problem, block));
                loops[0].items.push_back(of_part[in_run % run.blocks]);
            } else {
                const int64_t parts = decode_parts(problem, problem.sequences[block.sequence]).parts;
                loops[0].items.push_back(decode_chunk(problem, block, in_run / run.blocks % parts));
            }
        }
    }
    if (plan.splits.empty()) return loops;
    loops.push_back({"merges of chunks", {}});
    for (const ForwardPlan::Split& split : plan.splits)
        loops[1].items.insert(loops[1].items.end(), problem.kv_heads, finish(problem, split));
    return loops;
}

std::vector<WorkLoop> work_of(const Problem& problem, const BackwardPlan& plan, double l2_bytes) {
    std::vector<WorkLoop> loops{{"items", {}}};
    for (const BackwardPlan::Item& item : plan.items)
        loops.back().items.push_back(keys_of_head(problem, plan, item, l2_bytes));
    if (!plan.sums.empty()) loops.push_back({"sums of dq", {}});
    for (const BackwardPlan::Item& item : plan.sums) loops.back().items.push_back(sum_of_head(problem, item));
    if (!plan.bias.empty()) loops.push_back({"gradient of the bias", {}});
    for (const BiasPart& part : plan.bias) loops.back().items.push_back(bias_part(problem, part));
    return loops;
}

double bytes_once(const Problem& problem, bool backward) {
    const Sizes size(problem);
    double bytes = 0;
    for (const Sequence& s : problem.sequences) {
        const auto rows = static_cast<double>(s.q_len * problem.query_heads);
        const auto keys = static_cast<double>(s.kv_len * problem.kv_heads);
        // Forward: query and output. Backward: query, dq, output and dy.
        bytes += (backward ? 2 : 1) * (rows + keys) * size.both() + rows * 2 * kStatistic;
    }
    return bytes;
}

}  // namespace fusion_bench
