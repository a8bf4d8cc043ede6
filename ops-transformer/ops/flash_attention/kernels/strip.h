// A strip is as many query rows as one register tile has columns, with everything that is known about them: the
// transposed query, the online softmax, the output in the making. This file takes a strip over one block of keys.
//
// The exponential is taken on the tile of scores while it is still in registers, so raw scores are never stored.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/bias_panel.h"
#include "kernels/dispatch.h"
#include "kernels/key_block.h"
#include "kernels/piece.h"
#include "kernels/score_tile.h"
#include "kernels/softmax.h"
#include "kernels/tile.h"

namespace flash_attention::FUSION_ISA {

template <class V>
struct Strip {
    static constexpr int64_t kColumns = Softmax<V>::kColumns;
    StripRows rows;
    typename V::element* query;  // [feature / V::depth of all parts][column]
    float* group;  // [value feature, padded to tile rows][column]: output of the present group of key blocks
    float* total;  // of the groups before it
    bool group_filled, total_filled;  // else they are 0
    Softmax<V> softmax;
};

// A lane has left its allowed range: shrink all it has accumulated, also the weights of the piece in hand. Rare, so
// kept out of the hot loop.
template <class V>
[[gnu::noinline]] void raise_maximum(Strip<V>& strip, int lane, typename V::vec largest, float exponent_scale,
                                     int64_t value_dim, typename V::element* weights, int64_t weight_rows) {
    constexpr int64_t kColumns = Strip<V>::kColumns;
    const auto factor = strip.softmax.raise(lane, largest, exponent_scale);
    const auto scale_sums = [&](float* sums) {
        for (int64_t r = 0; r < value_dim; r++)
            V::store(sums + r * kColumns, V::mul(V::load(sums + r * kColumns), factor));
    };
    if (strip.group_filled) scale_sums(strip.group + lane);
    if (strip.total_filled) scale_sums(strip.total + lane);
    for (int64_t r = 0; r < weight_rows / V::depth; r++) V::scale_weights(weights + r * kColumns + lane, factor);
}

// From products to scores: the bias joins, hidden pairs become -infinity, keys from the piece's end on too. `first`:
// the tile's first key, counted from the piece's.
template <class V, int vecs>
[[gnu::always_inline]] inline void modify_scores(const ForwardBlock& block, const Strip<V>& strip, const Piece& piece,
                                                 const PieceModifiers& modifiers, const Panels<V>& panels,
                                                 int64_t first, Tile<V, V::tile_rows, vecs>& tile) {
    add_bias<V, vecs>(block, strip.rows, piece, panels, first, tile);
    if (modifiers.hides || piece.count() - first < V::tile_rows)
        hide_pairs<V, vecs>(piece, modifiers, panels, first, -kInfinity, tile);
}

// Weights = exp2(scores - used maximum) of one tile, and their sums. `first`: its first key, counted from the piece's.
template <class V, int vecs, bool kModified>
[[gnu::always_inline]] inline void weigh_tile(const ForwardBlock& block, const Panels<V>& panels, int64_t first,
                                              int64_t keys, int lane, float exponent_scale, Strip<V>& strip,
                                              const Tile<V, V::tile_rows, vecs>& tile) {
    constexpr int64_t kColumns = Strip<V>::kColumns;
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++) {
        const int at = lane + v * V::lanes;
        auto largest = tile.sum[0][v];
#pragma GCC unroll 16
        for (int r = 1; r < V::tile_rows; r++) largest = V::max(tile.sum[r][v], largest);
        largest = V::max(largest, V::set(-kInfinity));  // a NaN of the first row
        if (strip.softmax.must_raise(at, largest))
            raise_maximum<V>(strip, at, largest, exponent_scale, block.value_dim, panels.weights, first);
        const auto used_max = V::load(strip.softmax.used_max + at);
        auto sum = V::zero();
        typename V::vec weight[V::tile_rows];
#pragma GCC unroll 16
        for (int r = 0; r < V::tile_rows; r++) {
            weight[r] =
                V::template exp2<V::exp_degree>(V::mul(V::sub(tile.sum[r][v], used_max), V::set(exponent_scale)));
            sum = V::add(sum, weight[r]);
            if constexpr (kModified) {
                if (block.drops() && r < keys)
                    weight[r] = V::keep_bits(weight[r], panels.kept[first + r] >> at, V::zero());
            }
        }
        V::store(strip.softmax.block_sum + at, V::add(V::load(strip.softmax.block_sum + at), sum));
        V::store_weights(panels.weights + first / V::depth * kColumns + at, kColumns, weight);
    }
}

// The weights of a piece. kModified: it has modifiers.
template <class V, int vecs, bool kModified>
void weigh_piece(const ForwardBlock& block, const KeyBlock<V>& rows, const Piece& piece,
                 const PieceModifiers& modifiers, const Panels<V>& panels, float exponent_scale, Strip<V>& strip) {
    const int lane = piece.vec_begin * V::lanes;
    for (int64_t key = piece.keys.begin; key < piece.keys.end; key += V::tile_rows) {
        const int64_t first = key - piece.keys.begin, keys = piece.keys.end - key;
        Tile<V, V::tile_rows, vecs> tile;
        multiply_features<V, vecs>({block.parts[0].dim, block.parts[1].dim}, rows.key,
                                   {key - rows.keys.begin, piece.keys.end - rows.keys.begin}, strip.query + lane,
                                   Strip<V>::kColumns, panels.tree, tile);
        if (kModified || keys < V::tile_rows)
            modify_scores<V, vecs>(block, strip, piece, modifiers, panels, first, tile);
        weigh_tile<V, vecs, kModified>(block, panels, first, keys, lane, exponent_scale, strip, tile);
    }
}

// Output += V^T P^T over those values of a piece that are NaN or infinite and seen: the copy that the plain product
// takes holds 0 instead, so that they cannot spread to rows that do not see them, and all other rows are what they
// would be.
template <class V>
[[gnu::noinline]] void add_special_values(const ForwardBlock& block, const Piece& piece, bool hides,
                                          const Panels<V>& panels, Strip<V>& strip) {
    constexpr int64_t kColumns = Strip<V>::kColumns;
    for (int64_t k = 0; k < piece.count(); k++) {
        const auto* values =
            static_cast<const typename V::value*>(block.value.data) + (piece.keys.begin + k) * block.value.stride;
        const uint64_t seen = hides ? panels.seen[k] : ~uint64_t{0};
        for (int64_t f = 0; f < block.value_dim; f++) {
            const float value = V::one_value(values + f);
            if (std::isfinite(value)) continue;
            for (int lane = piece.vec_begin * V::lanes; lane < piece.vec_end * V::lanes; lane += V::lanes) {
                const auto weight = V::load_weights(panels.weights + k / V::depth * kColumns + lane, k % V::depth);
                float* at = strip.group + f * kColumns + lane;
                const auto old = V::load(at);
                V::store(at, V::keep_bits(V::multiply_add(V::set(value), weight, old), seen >> lane, old));
            }
        }
    }
}

template <class V, int vecs>
void add_values(const KeyBlock<V>& rows, const Piece& piece, const Panels<V>& panels, int64_t value_dim,
                Strip<V>& strip) {
    constexpr int64_t kColumns = Strip<V>::kColumns;
    const int lane = piece.vec_begin * V::lanes;
    strip.group_filled = true;
    const auto* values = rows.value.data + (piece.keys.begin - rows.keys.begin) / V::depth * rows.value.stride;
    for (int64_t f = 0; f < value_dim; f += V::tile_rows) {
        const LeftRows<typename V::element, V::tile_rows> columns(values, 1, rows.value.stride, f, value_dim);
        Tile<V, V::tile_rows, vecs>::add_product(columns, panels.weights + lane, kColumns,
                                                 (piece.count() + V::depth - 1) / V::depth,
                                                 strip.group + f * kColumns + lane, kColumns);
    }
}

// Takes the strip over a block of keys.
template <class V>
void attend(const ForwardBlock& block, const KeyBlock<V>& rows, const Panels<V>& panels, float exponent_scale,
            Strip<V>& strip) {
    KeyRange keys = rows.keys;
    while (!keys.empty()) {
        const Piece piece = first_piece<V>(block.band, strip.rows, block.kv_len, keys);
        keys.begin = piece.keys.end;
        if (piece.vec_begin >= piece.vec_end) continue;
        const PieceModifiers modifiers = load_modifiers<V>(block, strip.rows, piece, panels);
        if (modifiers.nothing_seen) continue;
        with_constant<V::tile_vecs>(piece.vec_end - piece.vec_begin, [&](auto width) {
            constexpr int vecs = decltype(width)::value;
            if (modifiers.any())
                weigh_piece<V, vecs, true>(block, rows, piece, modifiers, panels, exponent_scale, strip);
            else
                weigh_piece<V, vecs, false>(block, rows, piece, modifiers, panels, exponent_scale, strip);
            add_values<V, vecs>(rows, piece, panels, block.value_dim, strip);
            if (rows.has_special_values) add_special_values<V>(block, piece, modifiers.hides, panels, strip);
        });
    }
    strip.softmax.end_block();
}

}  // namespace flash_attention::FUSION_ISA
