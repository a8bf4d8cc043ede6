#include "engine/backward_extras.h"

#include <algorithm>
#include <cmath>

#include "engine/blocks.h"

namespace flash_attention {

namespace {

bool one_row(const Sequence& s) {
    return s.dbias.strides.row == 0;
}

// Sequences that share their gradient follow each other: batch entries with one matrix for all.
int64_t end_of_shared(const Problem& problem, int64_t first) {
    const Sequence& s = problem.sequences[first];
    int64_t end = first + 1;
    for (; end < static_cast<int64_t>(problem.sequences.size()); end++) {
        const Sequence& next = problem.sequences[end];
        if (!s.has_pairs() || !next.has_pairs() || next.dbias.origin != s.dbias.origin) break;
    }
    return end;
}

}  // namespace

std::vector<BiasPart> plan_bias_gradient(const Problem& problem, int64_t query_block) {
    std::vector<BiasPart> parts;
    if (!problem.wants_dbias) return parts;
    for (int64_t first = 0, end = 0; first < static_cast<int64_t>(problem.sequences.size()); first = end) {
        end = end_of_shared(problem, first);
        const Sequence& s = problem.sequences[first];
        if (!s.has_pairs()) continue;
        const int64_t rows = one_row(s) ? s.q_len : query_block;
        for (int64_t head = 0; head < problem.query_heads; head++)
            for (int64_t row = 0; row < s.q_len; row += rows)
                for (int64_t key = 0; key < s.kv_len; key += kBiasKeys) {
                    BiasPart part{first,
                                  end,
                                  head,
                                  {row, std::min(row + rows, s.q_len)},
                                  {key, std::min(key + kBiasKeys, s.kv_len)},
                                  0};
                    for (int64_t i = first; i < end; i++) {
                        const Band& band = problem.sequences[i].band;
                        part.pairs += visible_pairs(band, part.rows.begin, part.rows.end, part.keys.end) -
                                      visible_pairs(band, part.rows.begin, part.rows.end, part.keys.begin);
                    }
                    parts.push_back(part);
                }
    }
    std::stable_sort(parts.begin(), parts.end(),
                     [](const BiasPart& a, const BiasPart& b) { return a.pairs > b.pairs; });
    return parts;
}

void run_bias_gradient(const Problem& problem, const BackwardKernels& kernels, const BiasPart& part,
                       const Addresses& at, void* scratch) {
    const FeatureShape shape = shape_of(problem);
    kernels.bias.begin(shape, scratch);
    for (int64_t i = part.first_sequence; i < part.end_sequence; i++) {
        const Sequence& s = problem.sequences[i];
        for (int64_t row = part.rows.begin; row < part.rows.end; row += kernels.query_block) {
            const KeyRange rows{row, std::min(row + kernels.query_block, part.rows.end)};
            kernels.bias.add(backward_block(problem, s, part.head, rows, at), part.keys, scratch);
        }
    }
    const Sequence& s = problem.sequences[part.first_sequence];
    const SequenceBias& to = s.dbias;
    const int64_t entry = to.origin + part.head * to.strides.head + part.rows.begin * to.strides.row + part.keys.begin;
    BiasResult result;
    result.first = element<void>(at[kDbias], entry, element_bytes(problem.type));
    result.stride = to.strides.row;
    result.rows = part.rows.end - part.rows.begin;
    result.keys = part.keys.end - part.keys.begin;
    result.one_row = one_row(s);
    result.factor = problem.bias == BiasKind::kInside ? problem.scale : 1.0F;
    kernels.bias.end(result, shape, scratch);
}

void write_sink_gradient(const Problem& problem, const BackwardKernels& kernels, int64_t head, const Addresses& at) {
    constexpr int64_t kMostRows = 1024;
    float deltas[kMostRows];
    const double sink = static_cast<const float*>(at[kSink])[head];
    double sum = 0;
    // A sink of -infinity is none; all others take part in every row, as small as their weight may be.
    const bool is_none = std::isinf(sink) && sink < 0;
    for (const Sequence& s : problem.sequences) {
        if (is_none || !s.has_pairs()) continue;
        for (int64_t row = 0; row < s.q_len; row += kMostRows) {
            const KeyRange rows{row, std::min(row + kMostRows, s.q_len)};
            const BackwardBlock block = backward_block(problem, s, head, rows, at);
            kernels.row_deltas(block, deltas);
            for (int64_t i = 0; i < rows.end - rows.begin; i++) {
                const double max = block.max[i * block.stats_stride], total = block.sum[i * block.stats_stride];
                sum -= std::exp(sink - max) / total * deltas[i];
            }
        }
    }
    static_cast<float*>(at[kDsink])[head] = static_cast<float>(sum);
}

}  // namespace flash_attention
