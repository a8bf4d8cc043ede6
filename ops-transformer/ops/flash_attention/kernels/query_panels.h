// A block of query rows as the backward reads it: query and dy transposed (for products over features) and as rows (for
// products over query rows), and what each row's weights and their gradients need.
#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>

#include "kernels/dispatch.h"
#include "kernels/key_block.h"
#include "kernels/score_tile.h"
#include "kernels/transpose_rows.h"

namespace flash_attention::FUSION_ISA {

// Query rows in hand at once: so many strips that one block of keys and everything about the rows stay in L2.
template <class V>
inline constexpr int64_t kBackwardRows = 4 * Softmax<V>::kColumns;

template <class V>
struct QueryPanels {
    using element = typename V::element;
    element* query_t;        // [feature / V::depth of both parts][row]
    element* dy_t;           // [value feature / V::depth][row]
    element* query_rows[2];  // of each part, [pass][row / V::depth][feature of the pass], NaN and infinities as 0
    element* dy_rows;        // likewise
    float* max;              // of each row: softmaxMax
    float* minus_log_sum;    // of each row: minus the logarithm of softmaxSum in base 2; -infinity: it has no weights
    float* delta;            // dy . out: what the softmax takes off the gradient of each weight
    bool special_query, special_dy;  // there were NaN or infinities
};

// Features that one pass of a product with lanes = features takes: as many vectors as a tile has, all passes as equal
// as can be.
struct FeaturePass {
    int64_t column, vecs;
};
// Calls use(pass) for all features.
template <class V, class Use>
[[gnu::always_inline]] inline void for_each_pass(int64_t dim, Use&& use) {
    int64_t left = round_up(dim, V::lanes) / V::lanes, column = 0;
    for (int64_t passes = (left + V::tile_vecs - 1) / V::tile_vecs; passes > 0; passes--) {
        const int64_t vecs = (left + passes - 1) / passes;
        use(FeaturePass{column, vecs});
        left -= vecs;
        column += vecs * V::lanes;
    }
}

// Rows by passes, so that a pass reads its operand from one end to the other; 0 in place of NaN and infinities. Returns
// whether there were any.
template <class V>
bool copy_rows(const Rows& from, int64_t count, int64_t dim, typename V::element* copy) {
    const bool special = !all_finite<V>(from, {0, count}, dim);
    for_each_pass<V>(dim, [&](const FeaturePass& pass) {
        const auto* rows = static_cast<const typename V::value*>(from.data) + pass.column;
        auto* to = copy + kBackwardRows<V> / V::depth * pass.column;
        const int64_t width = pass.vecs * V::lanes;
        for (int64_t r = 0; r < count; r += V::depth)
            for (int64_t c = 0; c < width; c += V::lanes)
                V::store_elements(to + r / V::depth * width + c, V::load_rows(rows + r * from.stride + c, from.stride,
                                                                              count - r, dim - pass.column - c));
        if (!special) return;
        for (int64_t r = 0; r < count; r++)
            for (int64_t c = 0; c < std::min(width, dim - pass.column); c++)
                if (!std::isfinite(V::one_value(rows + r * from.stride + c)))
                    V::clear_part(to + r / V::depth * width + c, r % V::depth);
    });
    return special;
}

// In short chains: deltas are subtracted from sums over the same features.
template <class V>
float dot(const typename V::value* a, const typename V::value* b, int64_t dim) {
    constexpr int64_t kChain = 8 * V::lanes;
    auto total = V::zero();
    for (int64_t begin = 0; begin < dim; begin += kChain) {
        auto sum = V::zero();
        for (int64_t c = begin; c < std::min(dim, begin + kChain); c += V::lanes) {
            const int64_t n = std::min<int64_t>(V::lanes, dim - c);
            sum = V::multiply_add(V::load_values(a + c, n), V::load_values(b + c, n), sum);
        }
        total = V::add(total, sum);
    }
    return V::sum_lanes(total);
}

// The maximum is not made one number with the logarithm: it is taken off first, without an error for scores near it.
template <class V>
void load_statistics(const BackwardBlock& block, int64_t row, const QueryPanels<V>& panels) {
    const float max = block.max[row * block.stats_stride], sum = block.sum[row * block.stats_stride];
    const bool hidden = sum == FLT_MAX && max == -FLT_MAX;  // a row without a visible key
    panels.max[row] = hidden ? 0.0F : max;
    panels.minus_log_sum[row] = hidden ? -kInfinity : -std::log2(sum);
}

template <class V>
float row_delta(const BackwardBlock& block, int64_t row) {
    return dot<V>(static_cast<const typename V::value*>(block.out.data) + row * block.out.stride,
                  static_cast<const typename V::value*>(block.dy.data) + row * block.dy.stride, block.value_dim);
}

template <class V>
void load_query_panels(const BackwardBlock& block, QueryPanels<V>& panels) {
    constexpr int64_t kColumns = Softmax<V>::kColumns, kRows = kBackwardRows<V>;
    const int64_t count = block.row_end - block.row_begin;
    const auto row = [](const Rows& rows, int64_t i) -> Rows {
        return {static_cast<const typename V::value*>(rows.data) + i * rows.stride, rows.stride};
    };
    panels.special_query = false;
    auto* query_t = panels.query_t;
    for (int p = 0; p < 2; p++) {
        const FeaturePart& part = block.parts[p];
        if (part.dim == 0) continue;
        for (int64_t i = 0; i < count; i += kColumns)
            transpose_rows<V>(row(part.query, i), std::min(kColumns, count - i), part.dim, sign_of(block.scale),
                              query_t + i, kRows);
        query_t += feature_elements<V>(part.dim) * kRows;
        panels.special_query |= copy_rows<V>(part.query, count, part.dim, panels.query_rows[p]);
    }
    for (int64_t i = 0; i < count; i += kColumns)
        transpose_rows<V>(row(block.dy, i), std::min(kColumns, count - i), block.value_dim, 1.0F, panels.dy_t + i,
                          kRows);
    panels.special_dy = copy_rows<V>(block.dy, count, block.value_dim, panels.dy_rows);
    std::fill_n(panels.max, kRows, 0.0F);
    std::fill_n(panels.minus_log_sum, kRows, -kInfinity);
    std::fill_n(panels.delta, kRows, 0.0F);
    for (int64_t i = 0; i < count; i++) {
        load_statistics(block, i, panels);
        panels.delta[i] = row_delta<V>(block, i);
    }
}

}  // namespace flash_attention::FUSION_ISA
