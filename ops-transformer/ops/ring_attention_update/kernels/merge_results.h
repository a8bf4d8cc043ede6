// Two partial attention results over different keys, made into one: the online softmax (kernels/merge.h) over results
// that were written out, so with outputs that are divided by their sums already.
//
//   m = max(m1, m2), a = s1 e^(m1 - m), b = s2 e^(m2 - m), s = a + b
//   out = out1 (a / s) + out2 (b / s)
//
// A row of 128 features of 16 bits reads 0.6 KiB and writes 0.3 KiB, so that memory bounds this loop and the two
// exponentials of a row do not count.
#pragma once

#include <algorithm>
#include <cfloat>
#include <cstdint>
#include <type_traits>

#include "engine/problem.h"
#include "kernels/isa.h"
#include "kernels/merge.h"
#include "ring_attention_update/kernels/partial_rows.h"

namespace flash_attention::FUSION_ISA {

// What the statistics of a row say.
enum class PartKind {
    kOrdinary,
    kHidden,  // the row sees none of the part's keys: maximum -FLT_MAX, whatever the sum
    kNoKeys,  // the part has no keys: sum 0; its maximum is not one of a score
};

KERNEL_INLINE PartKind kind_of(const SoftmaxPart& part) {
    if (part.sum == 0.0F) return PartKind::kNoKeys;
    return part.max == -FLT_MAX ? PartKind::kHidden : PartKind::kOrdinary;
}

// By what the outputs of each part enter, and what the row's statistics become.
struct RowMerge {
    SoftmaxPart both;
    float first_weight, second_weight;
    bool first_counts, second_counts;  // parts that do not are not even read
};

// Where only one part counts its row passes through bit by bit.
KERNEL_INLINE RowMerge merge_row(const SoftmaxPart& first, const SoftmaxPart& second) {
    constexpr float kLog2E = 1.44269504F;
    const PartKind kinds[] = {kind_of(first), kind_of(second)};
    const bool counts[] = {kinds[0] == PartKind::kOrdinary, kinds[1] == PartKind::kOrdinary};
    if (counts[0] && counts[1]) {
        const MergedParts merged = merge_parts(first, second, kLog2E);
        return {merged.both, merged.first_factor * first.sum / merged.both.sum,
                merged.second_factor * second.sum / merged.both.sum, true, true};
    }
    if (counts[0] || counts[1])
        return {counts[0] ? first : second, counts[0] ? 1.0F : 0.0F, counts[1] ? 1.0F : 0.0F, counts[0], counts[1]};
    const bool hidden = kinds[0] == PartKind::kHidden || kinds[1] == PartKind::kHidden;
    return {hidden ? SoftmaxPart{-FLT_MAX, FLT_MAX} : SoftmaxPart{0.0F, 0.0F}, 0.0F, 0.0F, false, false};
}

template <class V>
KERNEL_INLINE typename V::vec weigh(const RowMerge& merge, typename V::vec first, typename V::vec second) {
    return V::multiply_add(V::set(merge.second_weight), second, V::mul(V::set(merge.first_weight), first));
}

template <class V>
void merge_outputs_of_row(const RowMerge& merge, const typename V::value* first, const typename V::value* second,
                          typename V::value* to, int64_t dim) {
    if (!merge.first_counts || !merge.second_counts) {
        if (!merge.first_counts && !merge.second_counts) {
            std::fill_n(to, dim, typename V::value{});
        } else {
            std::copy_n(merge.first_counts ? first : second, dim, to);
        }
        return;
    }
    int64_t c = 0;
    for (; c + V::lanes <= dim; c += V::lanes) {
        const auto sum = weigh<V>(merge, V::load_values(first + c), V::load_values(second + c));
        // Storing the first n values is slow where it is an instruction of its own.
        if constexpr (std::is_same_v<typename V::value, float>) {
            V::store(to + c, sum);
        } else {
            V::store_values(to + c, V::lanes, sum);
        }
    }
    if (c == dim) return;
    const int64_t n = dim - c;
    V::store_values(to + c, n, weigh<V>(merge, V::load_values(first + c, n), V::load_values(second + c, n)));
}

template <class V>
void merge_results(const ring_attention_update::RowsToMerge& rows) {
    using Value = typename V::value;
    const auto& [previous, current, merged, count, dim] = rows;
    for (int64_t row = 0; row < count; row++) {
        const RowMerge merge =
            merge_row({previous.max[row * previous.max_stride], previous.sum[row * previous.sum_stride]},
                      {current.max[row * current.max_stride], current.sum[row * current.sum_stride]});
        merge_outputs_of_row<V>(merge, static_cast<const Value*>(previous.out) + row * previous.out_stride,
                                static_cast<const Value*>(current.out) + row * current.out_stride,
                                static_cast<Value*>(merged.out) + row * merged.out_stride, dim);
        std::fill_n(merged.max + row * merged.max_stride, kStatsCopies, merge.both.max);
        std::fill_n(merged.sum + row * merged.sum_stride, kStatsCopies, merge.both.sum);
    }
}

}  // namespace flash_attention::FUSION_ISA
