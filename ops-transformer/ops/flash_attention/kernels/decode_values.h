// Weights times values for few query rows; lanes are features. V is read once, in place, as K is (decode_scores.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/decode_scores.h"
#include "kernels/decode_softmax.h"
#include "kernels/dispatch.h"
#include "kernels/tile.h"

namespace flash_attention::FUSION_ISA {

// Keys whose values are summed in one chain. Chains begin at multiples of it, so that it does not matter to a row which
// keys others see.
inline constexpr int64_t kValueChain = 64;

// sums[row][feature] += weights[row][key] * value[key][feature] for `keys` keys and `vecs` vectors of features; left:
// the features of a vector that is not whole.
template <class V, int rows, int vecs, bool whole = true>
[[gnu::always_inline]] inline void add_product(const float* weights, const typename V::value* value, int64_t stride,
                                               int64_t keys, float* sums, int64_t sums_stride, int64_t left = 0) {
    typename V::vec sum[rows][vecs];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vecs; v++) sum[r][v] = V::load(sums + r * sums_stride + v * V::lanes);
#pragma GCC unroll 1
    for (int64_t k = 0; k < keys; k++, value += stride) {
        typename V::vec x[vecs];
#pragma GCC unroll 8
        for (int v = 0; v < vecs; v++)
            x[v] = whole ? V::load_values(value + v * V::lanes) : V::load_values(value, left);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            const auto weight = V::broadcast_float(weights + r * kScoreStride + k);
#pragma GCC unroll 8
            for (int v = 0; v < vecs; v++) sum[r][v] = V::multiply_add(weight, x[v], sum[r][v]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vecs; v++) V::store(sums + r * sums_stride + v * V::lanes, sum[r][v]);
}

// The same over all features. Registers hold the sums of a few vectors of features; passes are as equal as can be.
// ahead: how many rows behind the `keys` are prefetched.
template <class V, int rows>
void add_products(const float* weights, const RowsOf<V>& values, int64_t keys, int64_t ahead, float* sums,
                  int64_t sums_stride) {
    constexpr int kMost = std::min(8, V::tile_rows * V::tile_vecs / rows);
    int64_t left = values.dim / V::lanes, c = 0, prefetched = 0;
    for (int64_t passes = (left + kMost - 1) / kMost; passes > 0; passes--) {
        const int64_t width = (left + passes - 1) / passes, asked = prefetched + (ahead - prefetched) / passes;
        values.prefetch(keys + prefetched, keys + asked);
        prefetched = asked;
        with_constant<kMost>(static_cast<int>(width), [&](auto vecs) {
            add_product<V, rows, decltype(vecs)::value>(weights, values.data + c, values.stride, keys, sums + c,
                                                        sums_stride);
        });
        left -= width;
        c += width * V::lanes;
    }
    if (c < values.dim)
        add_product<V, rows, 1, false>(weights, values.data + c, values.stride, keys, sums + c, sums_stride,
                                       values.dim - c);
}

// Calls add(range) for the chains of keys [begin, end), counted from the start of their block.
template <class Add>
[[gnu::always_inline]] inline void for_each_chain(int64_t begin, int64_t end, Add&& add) {
    for (int64_t chain = begin / kValueChain * kValueChain; chain < end; chain += kValueChain)
        add(KeyRange{std::max(begin, chain), std::min(end, chain + kValueChain)});
}

// out = weights * values, for all rows. Keys count from the start of the block, to whose first key `values` points;
// `sums`: memory for the chain in hand, laid out like `out`.
template <class V>
void multiply_values(const float* weights, int64_t rows, const RowsOf<V>& values, KeyRange keys, float* sums,
                     float* out, int64_t out_stride) {
    // A few rows of V pass through L1 at a time, while the next ones are on their way.
    const int64_t most = values.rows_ahead();
    const auto clear = [&](float* to) {
        for (int64_t row = 0; row < rows; row++) std::fill_n(to + row * out_stride, padded_floats(values.dim), 0.0F);
    };
    clear(out);
    for_each_chain(keys.begin, keys.end, [&](KeyRange chain) {
        clear(sums);
        for (int64_t key = chain.begin; key < chain.end; key += most) {
            const int64_t count = std::min(most, chain.end - key);
            const RowsOf<V> piece{values.data + key * values.stride, values.stride, values.dim};
            for (int64_t row = 0; row < rows; row += 4)
                with_constant<4>(static_cast<int>(std::min<int64_t>(4, rows - row)), [&](auto group) {
                    add_products<V, decltype(group)::value>(weights + row * kScoreStride + key, piece, count,
                                                            row == 0 ? most : 0, sums + row * out_stride, out_stride);
                });
        }
        for (int64_t row = 0; row < rows; row++) {
            float* to = out + row * out_stride;
            for (int64_t c = 0; c < padded_floats(values.dim); c += V::lanes)
                V::store(to + c, V::add(V::load(to + c), V::load(sums + row * out_stride + c)));
        }
    });
}

// A NaN or infinity among the values of the keys that a row does not see must not reach it, and 0 * NaN is NaN. So a
// row that came out not finite is done again without these keys, else in the same order: where they hold usual numbers
// the result is the same, bit by bit.
template <class V>
[[gnu::noinline]] void multiply_seen_values(const float* weights, const KeyBits& seen, const RowsOf<V>& values,
                                            KeyRange keys, float* out) {
    for (int64_t c = 0; c < values.dim; c += V::lanes) {
        auto total = V::zero();
        for_each_chain(keys.begin, keys.end, [&](KeyRange chain) {
            auto sum = V::zero();
            for (int64_t k = chain.begin; k < chain.end; k++)
                if (seen[k])
                    sum = V::multiply_add(V::set(weights[k]),
                                          V::load_values(values.data + k * values.stride + c,
                                                         std::min<int64_t>(V::lanes, values.dim - c)),
                                          sum);
            total = V::add(total, sum);
        });
        V::store(out + c, total);
    }
}

template <class V>
bool is_finite(const float* row, int64_t count) {
    auto sum = V::zero();  // x - x is 0, or NaN for what is not finite
    for (int64_t c = 0; c < count; c += V::lanes) {
        const auto x = V::load(row + c);
        sum = V::add(sum, V::sub(x, x));
    }
    return V::sum_lanes(sum) == 0.0F;
}

}  // namespace flash_attention::FUSION_ISA
