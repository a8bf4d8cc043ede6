#include "ring_attention_update/reference/ring.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace ring_attention_update::reference {
namespace {

// Where a row of a head is: its features in the outputs, and its entry in the statistics.
struct Place {
    int64_t out, entry;
};

std::vector<Place> places(const RingArguments& a) {
    std::vector<Place> result;
    if (a.input_layout == "SBH") {
        const int64_t rows = a.out_shape[0], batch = a.out_shape[1], dim = a.out_shape[2] / a.heads;
        for (int64_t b = 0; b < batch; b++)
            for (int64_t n = 0; n < a.heads; n++)
                for (int64_t s = 0; s < rows; s++)
                    result.push_back({((s * batch + b) * a.heads + n) * dim, (b * a.heads + n) * rows + s});
        return result;
    }
    const int64_t rows = a.out_shape[0], dim = a.out_shape[2];
    std::vector<int64_t> bounds = a.actual_seq_qlen;
    if (a.input_softmax_layout == "TND") bounds = {rows};  // with one sequence for all
    if (bounds.front() != 0) bounds.insert(bounds.begin(), 0);
    for (size_t b = 0; b + 1 < bounds.size(); b++) {
        const int64_t start = bounds[b], length = bounds[b + 1] - start;
        for (int64_t i = 0; i < length; i++)
            for (int64_t n = 0; n < a.heads; n++) {
                const int64_t in_blocks = start * a.heads + n * length + i;
                const int64_t in_token_order = (start + i) * a.heads + n;
                result.push_back(
                    {((start + i) * a.heads + n) * dim, a.input_softmax_layout == "TND" ? in_token_order : in_blocks});
            }
    }
    return result;
}

constexpr double kHiddenMax = -static_cast<double>(FLT_MAX);

}  // namespace

RowPart merge_row(const RowPart& first, const RowPart& second) {
    const bool first_counts = first.sum != 0 && first.max != kHiddenMax;
    const bool second_counts = second.sum != 0 && second.max != kHiddenMax;
    RowPart merged{std::vector<double>(first.out.size(), 0.0), 0.0, 0.0};
    if (!first_counts && !second_counts) {
        const bool hidden =
            (first.sum != 0 && first.max == kHiddenMax) || (second.sum != 0 && second.max == kHiddenMax);
        if (hidden) merged = {merged.out, kHiddenMax, static_cast<double>(FLT_MAX)};
        return merged;
    }
    if (!first_counts) return second;
    if (!second_counts) return first;
    merged.max = std::max(first.max, second.max);
    const double a = first.sum * std::exp(first.max - merged.max), b = second.sum * std::exp(second.max - merged.max);
    merged.sum = a + b;
    for (size_t c = 0; c < merged.out.size(); c++)
        merged.out[c] = first.out[c] * (a / merged.sum) + second.out[c] * (b / merged.sum);
    return merged;
}

PartialResult merge(const RingArguments& arguments) {
    const int64_t dim =
        arguments.input_layout == "SBH" ? arguments.out_shape[2] / arguments.heads : arguments.out_shape[2];
    const PartialResult &previous = arguments.previous, &current = arguments.current;
    PartialResult result = previous;
    for (const Place& place : places(arguments)) {
        const auto row_of = [&](const PartialResult& part) {
            const auto begin = part.out.begin() + place.out;
            return RowPart{{begin, begin + dim}, part.max[place.entry], part.sum[place.entry]};
        };
        const RowPart row = merge_row(row_of(previous), row_of(current));
        std::copy(row.out.begin(), row.out.end(), result.out.begin() + place.out);
        result.max[place.entry] = row.max;
        result.sum[place.entry] = row.sum;
    }
    return result;
}

}  // namespace ring_attention_update::reference
