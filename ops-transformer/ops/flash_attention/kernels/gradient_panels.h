// Weights and the gradients of scores, [key][query row], for a block of keys and a block of query rows:
//   P^T  = exp(scale K Q^T - max) / sum, as exp2((scale K Q^T - max) log2 e - log2 sum)
//   dS^T = P^T * (V dY^T - delta)
// They are made piece by piece, while the scores are in registers. Pairs that no row sees are 0 in both, whatever
// bits their operands hold.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/query_panels.h"
#include "kernels/score_tile.h"

namespace flash_attention::FUSION_ISA {

// Keys of a block: weights and gradients of scores for them and a block of query rows stay in L2 with everything else.
inline constexpr int64_t kGradientKeys = 96;

// A block of keys and values as the products want it.
template <class V>
struct GradientKeyBlock {
    KeyRange keys;              // begin is a multiple of V::depth, counted from the sequence's first key
    Elements<V> key[2];         // [key][feature / V::depth], for each part
    Elements<V> value[2];       // [key][value feature / V::depth]; there is one part
    Elements<V> columns[2];     // keys again, [key / V::depth][feature]
    bool special_keys = false;  // NaN or infinities that some row may not see: `columns` has 0 instead
};

// The query rows, as whole vectors of the block, for which a tile of keys has weights.
struct VecRange {
    int begin = 1 << 20, end = 0;
    bool empty() const { return begin >= end; }
    void include(int b, int e) {
        begin = std::min(begin, b);
        end = std::max(end, e);
    }
};

template <class V>
struct GradientPanels {
    using left_value = typename V::left_value;
    static constexpr int64_t kRows = kBackwardRows<V>;
    static constexpr int64_t kTiles = kGradientKeys / V::tile_rows + 1;
    // Weights of a tile are floats until their gradients are made of them, which would be rounded twice otherwise.
    static constexpr bool kExactInPlace = std::is_same_v<left_value, float>;
    static constexpr int64_t kExactFloats = kExactInPlace ? 0 : Tile<V, V::tile_rows, V::tile_vecs>::kFloats;
    left_value* weights;          // [key][row], what dropout keeps of them; for dv
    left_value* score_gradients;  // [key][row], for dk
    typename V::element* right;   // the same as right operand, [key / V::depth][row], for dq
    float* exact;                 // weights of one tile, if `weights` cannot hold them
    VecRange* rows_of_tile;       // [key / V::tile_rows]

    // Pieces fill in what they have; `all`: they will cover everything.
    void clear(int64_t keys, bool all) const {
        std::fill_n(rows_of_tile, kTiles, VecRange{});
        if (all) return;
        const int64_t padded = round_up(keys, V::tile_rows);
        std::fill_n(weights, padded * kRows, left_value{});
        std::fill_n(score_gradients, padded * kRows, left_value{});
        if constexpr (V::depth > 1) std::fill_n(right, padded / V::depth * kRows, typename V::element{});
    }
};

// A product as the float that it is: g++ would join it with a sum behind it, which then rounds once. Scores have to be
// those that softmaxMax is the largest of; else not even a single visible key has weight 1. clang joins nothing here.
template <class Vec>
KERNEL_INLINE Vec rounded(Vec product) {
#if __has_builtin(__builtin_assoc_barrier)
    return __builtin_assoc_barrier(product);
#else
    return product;
#endif
}

// What all tiles of a piece share.
template <class V>
struct GradientPiece {
    const BackwardBlock& block;
    const GradientKeyBlock<V>& keys;
    const QueryPanels<V>& queries;
    const Panels<V>& panels;
    const GradientPanels<V>& to;
    StripRows rows;
    Piece piece;
    PieceModifiers modifiers;
    float scale;  // products times this are scores

    // Column of the block where the piece begins.
    int64_t column() const { return rows.begin - block.row_begin + piece.vec_begin * V::lanes; }
};

// dS = P (dP - delta), where dropout keeps dP / keep_prob or 0; and then the weights that dv sees. `exact`: P.
template <class V, int vecs, bool kModified>
[[gnu::always_inline]] inline void score_gradients(const GradientPiece<V>& p, int64_t first, const float* exact,
                                                   int64_t exact_stride, typename V::left_value* weights,
                                                   Tile<V, V::tile_rows, vecs>& tile) {
    const bool drops = kModified && p.block.drops();
    const auto kept_factor = V::set(1.0F / p.block.keep_prob);
    const int64_t keys = p.piece.count() - first;
    const int lane = p.piece.vec_begin * V::lanes;
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++) {
        const auto delta = V::load(p.queries.delta + p.column() + v * V::lanes);
#pragma GCC unroll 16
        for (int r = 0; r < V::tile_rows; r++) {
            auto* at = weights + r * GradientPanels<V>::kRows + v * V::lanes;
            const auto weight = V::load(exact + r * exact_stride + v * V::lanes);
            auto gradient = tile.sum[r][v], kept = weight;
            if (drops && r < keys) {  // a product, so that NaN stays NaN
                const auto factor =
                    V::keep_bits(kept_factor, p.panels.kept[first + r] >> (lane + v * V::lanes), V::zero());
                gradient = V::mul(gradient, factor);
                kept = V::mul(weight, factor);
            }
            if (drops || !GradientPanels<V>::kExactInPlace) V::store_left(at, kept);
            tile.sum[r][v] = V::mul(V::sub(gradient, delta), weight);
        }
    }
}

template <class V, int vecs, bool kModified>
[[gnu::noinline]] void gradient_piece(const GradientPiece<V>& p) {
    constexpr int64_t kRows = GradientPanels<V>::kRows;
    const int64_t block_begin = p.keys.keys.begin;
    for (int64_t key = p.piece.keys.begin; key < p.piece.keys.end; key += V::tile_rows) {
        const int64_t first = key - p.piece.keys.begin, row = key - block_begin;
        const KeyRange left{row, p.piece.keys.end - block_begin};
        const bool modified = kModified || p.piece.keys.end - key < V::tile_rows;
        auto* weights = p.to.weights + row * kRows + p.column();
        Tile<V, V::tile_rows, vecs> tile;
        multiply_features<V, vecs>({p.block.parts[0].dim, p.block.parts[1].dim}, p.keys.key, left,
                                   p.queries.query_t + p.column(), kRows, p.panels.tree, tile);
        if (kModified) add_bias<V, vecs>(p.block, p.rows, p.piece, p.panels, first, tile);
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++) {
            const auto max = V::load(p.queries.max + p.column() + v * V::lanes);
            const auto minus_log_sum = V::load(p.queries.minus_log_sum + p.column() + v * V::lanes);
#pragma GCC unroll 16
            for (int r = 0; r < V::tile_rows; r++) {
                const auto below = V::sub(rounded(V::mul(tile.sum[r][v], V::set(p.scale))), max);
                tile.sum[r][v] = V::template exp2<V::exp_degree>(V::multiply_add(below, V::set(kLog2E), minus_log_sum));
            }
        }
        if (modified) hide_pairs<V, vecs>(p.piece, p.modifiers, p.panels, first, 0.0F, tile);
        float* exact = p.to.exact;
        int64_t exact_stride = int64_t{vecs} * V::lanes;
        if constexpr (GradientPanels<V>::kExactInPlace) {
            exact = weights;
            exact_stride = kRows;
        }
        tile.store(exact, exact_stride);

        multiply_features<V, vecs>({p.block.value_dim, 0}, p.keys.value, left, p.queries.dy_t + p.column(), kRows,
                                   p.panels.tree, tile);
        score_gradients<V, vecs, kModified>(p, first, exact, exact_stride, weights, tile);
        if (modified) hide_pairs<V, vecs>(p.piece, p.modifiers, p.panels, first, 0.0F, tile);
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++) {
            typename V::vec column[V::tile_rows];
#pragma GCC unroll 16
            for (int r = 0; r < V::tile_rows; r++) {
                column[r] = tile.sum[r][v];
                V::store_left(p.to.score_gradients + (row + r) * kRows + p.column() + v * V::lanes, column[r]);
            }
            if constexpr (V::depth > 1)
                V::store_weights(p.to.right + row / V::depth * kRows + p.column() + v * V::lanes, kRows, column);
        }
    }
}

// A bit for each row of a strip but those that count as rows without a visible key, although they may see some: they
// have no gradients, whatever bits their keys hold.
template <class V>
uint64_t rows_with_weights(const float* minus_log_sum, int64_t count) {
    uint64_t rows = 0;
    for (int64_t i = 0; i < count; i++) rows |= static_cast<uint64_t>(minus_log_sum[i] != -kInfinity) << i;
    return rows;
}

// Weights and gradients of a block of query rows for a block of keys. Calls use(piece) for each of their pieces, while
// what hides its pairs is still known.
template <class V, class Use>
void fill_gradients(const BackwardBlock& block, const GradientKeyBlock<V>& keys, const QueryPanels<V>& queries,
                    const Panels<V>& panels, const GradientPanels<V>& to, Use&& use) {
    constexpr int64_t kColumns = Softmax<V>::kColumns;
    const int64_t count = block.row_end - block.row_begin;
    const KeyRange common = all_visible(block.band, block.row_begin, block.row_end, block.kv_len);
    const bool all = common.begin <= keys.keys.begin && keys.keys.end <= common.end && block.mask == nullptr &&
                     !is_bias_tensor(block.bias.kind);
    to.clear(keys.keys.end - keys.keys.begin, all);
    for (int64_t i = 0; i < count; i += kColumns) {
        const StripRows strip{block.row_begin + i, std::min(kColumns, count - i)};
        const uint64_t with_weights = rows_with_weights<V>(queries.minus_log_sum + i, strip.count);
        KeyRange left = keys.keys;
        while (!left.empty()) {
            const Piece piece = first_piece<V>(block.band, strip, block.kv_len, left);
            left.begin = piece.keys.end;
            if (piece.vec_begin >= piece.vec_end) continue;
            PieceModifiers modifiers = load_modifiers<V>(block, strip, piece, panels);
            if (modifiers.nothing_seen) continue;
            if (with_weights != lowest_bits(kColumns)) {
                for (int64_t k = 0; k < piece.count(); k++)
                    panels.seen[k] = modifiers.hides ? panels.seen[k] & with_weights : with_weights;
                modifiers.hides = true;
            }
            const GradientPiece<V> p{
                block, keys, queries, panels, to, strip, piece, modifiers, score_scale(block).natural};
            with_constant<V::tile_vecs>(piece.vec_end - piece.vec_begin, [&](auto width) {
                if (modifiers.any())
                    gradient_piece<V, decltype(width)::value, true>(p);
                else
                    gradient_piece<V, decltype(width)::value, false>(p);
            });
            use(p);
        }
    }
}

}  // namespace flash_attention::FUSION_ISA
