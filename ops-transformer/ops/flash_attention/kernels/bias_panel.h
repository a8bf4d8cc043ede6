// The positional bias of a strip for some keys, as a panel [key][column] that is added to the tiles of products.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/bias.h"
#include "kernels/dispatch.h"
#include "kernels/pair_bits.h"
#include "kernels/softmax.h"
#include "kernels/tile.h"

namespace flash_attention::FUSION_ISA {

// Whether the bias is added before the scale (or there is none).
KERNEL_INLINE bool bias_inside(const ScoreBlock& block) {
    return block.bias.kind == BiasKind::kNone || block.bias.kind == BiasKind::kInside;
}

KERNEL_INLINE float sign_of(float x) {
    return x > 0 ? 1.0F : x < 0 ? -1.0F : 0.0F;
}

// The stored row of one column, from the first key of the panel on; `there` of its keys exist.
template <class V>
struct BiasRow {
    const typename V::value* values;
    int64_t there;
};

template <class V>
BiasRow<V> bias_row(const BlockBias& bias, int64_t row, int64_t key, int64_t keys) {
    row += bias.first_row;
    const StoredBiasRow stored = bias.full_rows > 0 ? stored_bias_row(row, bias.full_rows) : StoredBiasRow{row, 0};
    const int64_t column = bias.first_column + stored.shift + key;
    return {static_cast<const typename V::value*>(bias.rows.data) + stored.row * bias.rows.stride + column,
            std::clamp(bias.columns - column, int64_t{0}, keys)};
}

// Fills panel[key][column] from a bias tensor, `rows` rows from row_begin on; `sign` is that of the scale where the
// bias stands inside its bracket. -infinity hides its pair in `seen`; where a compressed bias has no entry the panel
// gets NaN.
template <class V>
void load_bias_tensor(const BlockBias& bias, int64_t row_begin, int64_t rows, int64_t key, int64_t keys, float sign,
                      float* panel, uint64_t* seen) {
    constexpr int64_t kColumns = Softmax<V>::kColumns;
    for (int64_t column = 0; column < rows; column += V::lanes) {
        BiasRow<V> row[V::lanes];
        for (int i = 0; i < V::lanes; i++)
            row[i] = bias_row<V>(bias, row_begin + std::min(column + i, rows - 1), key, keys);
        for (int64_t j = 0; j < keys; j += V::lanes) {
            typename V::vec x[V::lanes];
#pragma GCC unroll 16
            for (int i = 0; i < V::lanes; i++) {
                const int64_t n = row[i].there - j;
                x[i] = n >= V::lanes ? V::load_values(row[i].values + j)
                       : n > 0       ? V::load_values(row[i].values + j, n)
                                     : V::zero();
            }
            V::transpose(x);
            for (int64_t k = 0; k < std::min<int64_t>(V::lanes, keys - j); k++) {
                const uint64_t hidden = V::equal_lanes(x[k], V::set(-kInfinity));
                if (hidden != 0) seen[j + k] &= ~(hidden << column);
                V::store(panel + (j + k) * kColumns + column, V::mul(x[k], V::set(sign)));
            }
        }
        for (int i = 0; i < V::lanes; i++)
            for (int64_t j = row[i].there; j < keys; j++)
                panel[j * kColumns + column + i] = std::numeric_limits<float>::quiet_NaN();
    }
}

// The slopes' bias needs no panel: score * factor - slope * |distance| (or its square root) for a tile whose first key
// and column are `distance` apart. Distances are differences of small whole numbers and so exact up to 2^24.
template <bool root, class V, int rows, int vecs>
[[gnu::always_inline]] inline void add_slope(float slope, int64_t distance, typename V::vec factor,
                                             Tile<V, rows, vecs>& tile) {
    const auto first = V::sub(V::set(static_cast<float>(distance)), V::lane_numbers());
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++) {
            const auto apart = V::abs(V::add(first, V::set(static_cast<float>(r - v * V::lanes))));
            const auto length = root ? V::sqrt(apart) : apart;
            tile.sum[r][v] = V::multiply_add(tile.sum[r][v], factor, V::mul(V::set(-slope), length));
        }
    }
}

template <class V, int rows, int vecs>
[[gnu::always_inline]] inline void add_bias_slope(const BlockBias& bias, int64_t distance, typename V::vec factor,
                                                  Tile<V, rows, vecs>& tile) {
    if (bias.kind == BiasKind::kSquareRoot)
        add_slope<true, V>(bias.slope, distance, factor, tile);
    else
        add_slope<false, V>(bias.slope, distance, factor, tile);
}

}  // namespace flash_attention::FUSION_ISA
