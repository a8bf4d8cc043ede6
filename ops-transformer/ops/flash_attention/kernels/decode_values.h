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

// Where sums of weights times values are kept: [row][feature].
struct ValueSums {
    float* chain;  // over some keys of a chain, between its pieces
    float* out;    // over whole chains
    int64_t stride;
    bool first, last;  // the piece in hand of its chain

    ValueSums from(int64_t row, int64_t feature) const {
        const int64_t at = row * stride + feature;
        return {chain + at, out + at, stride, first, last};
    }
};

// Adds weights[row][key] * value[key][feature] for a piece of `keys` keys of a chain and `vecs` vectors of features, or
// one that is not whole.
template <class V, int rows, int vecs, bool whole = true>
[[gnu::always_inline]] inline void add_product(const float* weights, const RowsOf<V>& values, int64_t keys,
                                               const ValueSums& sums) {
    typename V::vec sum[rows][vecs];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vecs; v++)
            sum[r][v] = sums.first ? V::zero() : V::load(sums.chain + r * sums.stride + v * V::lanes);
    const auto* value = values.data;
#pragma GCC unroll 1
    for (int64_t k = 0; k < keys; k++, value += values.stride) {
        typename V::vec x[vecs];
#pragma GCC unroll 8
        for (int v = 0; v < vecs; v++)
            x[v] = whole ? V::load_values(value + v * V::lanes) : V::load_values(value, values.dim);
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
        for (int v = 0; v < vecs; v++) {
            const int64_t at = r * sums.stride + v * V::lanes;
            if (sums.last)
                V::store(sums.out + at, V::add(V::load(sums.out + at), sum[r][v]));
            else
                V::store(sums.chain + at, sum[r][v]);
        }
}

// Vectors of features whose sums for so many query rows stay in registers.
template <class V>
constexpr int strip_vecs(int64_t rows) {
    return static_cast<int>(std::min<int64_t>(8, V::tile_rows * V::tile_vecs / std::min<int64_t>(rows, 4)));
}

// The same for all query rows, in groups of up to four, and a strip of features: some vectors, or a part of one.
template <class V>
void add_strip(const float* weights, int64_t rows, const RowsOf<V>& values, int64_t keys, LinesAhead& ahead,
               const ValueSums& sums) {
    for (int64_t row = 0; row < rows; row += 4) {
        ahead.ask();
        with_constant<4>(static_cast<int>(std::min<int64_t>(4, rows - row)), [&](auto group) {
            constexpr int kRows = decltype(group)::value;
            const float* of_group = weights + row * kScoreStride;
            if (values.dim < V::lanes)
                add_product<V, kRows, 1, false>(of_group, values, keys, sums.from(row, 0));
            else
                with_constant<strip_vecs<V>(kRows)>(static_cast<int>(values.dim / V::lanes), [&](auto vecs) {
                    add_product<V, kRows, decltype(vecs)::value>(of_group, values, keys, sums.from(row, 0));
                });
        });
    }
}

// Calls add(range) for the chains of keys [begin, end), counted from the start of their block.
template <class Add>
[[gnu::always_inline]] inline void for_each_chain(int64_t begin, int64_t end, Add&& add) {
    for (int64_t chain = begin / kValueChain * kValueChain; chain < end; chain += kValueChain)
        add(KeyRange{std::max(begin, chain), std::min(end, chain + kValueChain)});
}

// The same for all features, strip by strip; strips are as equal as can be. As many rows are asked for from row `ahead`
// on.
template <class V>
void add_products(const float* weights, int64_t rows, const RowsOf<V>& values, int64_t keys, int64_t ahead,
                  const ValueSums& sums) {
    const int64_t most = strip_vecs<V>(rows), part = values.dim % V::lanes;
    int64_t left = values.dim / V::lanes, c = 0, strips = (left + most - 1) / most;
    LinesAhead lines(values, ahead, keys, (strips + (part != 0)) * ((rows + 3) / 4));
    for (; strips > 0; strips--) {
        const int64_t width = (left + strips - 1) / strips;
        add_strip<V>(weights, rows, {values.data + c, values.stride, width * V::lanes}, keys, lines, sums.from(0, c));
        left -= width;
        c += width * V::lanes;
    }
    if (part != 0) add_strip<V>(weights, rows, {values.data + c, values.stride, part}, keys, lines, sums.from(0, c));
}

// out = weights * values, for all rows. Keys count from the start of the block, to whose first key `values` points.
// chain_sums: memory laid out like out.
template <class V>
void multiply_values(const float* weights, int64_t rows, const RowsOf<V>& values, KeyRange keys, float* chain_sums,
                     float* out, int64_t out_stride) {
    // A few rows of V are in L1 until all strips are done, while the next ones are on their way. More rows would load
    // and store fewer sums; but then the next rows push out those in hand, and where reading is what takes the time,
    // with up to 4 query rows of fp32 or 2 of 16 bits, they come at a less even pace.
    constexpr int64_t kSize = sizeof(typename V::value);
    const int64_t in_hand = (rows <= kSize ? 4096 : 8192) / kSize;
    const int64_t most = std::clamp<int64_t>(in_hand / std::max<int64_t>(values.dim, 1), 8, kValueChain);
    for (int64_t row = 0; row < rows; row++) std::fill_n(out + row * out_stride, padded_floats(values.dim), 0.0F);
    for_each_chain(keys.begin, keys.end, [&](KeyRange chain) {
        for (int64_t key = chain.begin; key < chain.end; key += most) {
            const int64_t count = std::min(most, chain.end - key);
            add_products<V>(weights + key, rows, values.from(key), count, most,
                            {chain_sums, out, out_stride, key == chain.begin, key + count == chain.end});
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
