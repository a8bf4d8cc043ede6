// What forward and backward do alike with a tile of scores, [key][query row], while it is in registers.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/bias_panel.h"
#include "kernels/dispatch.h"
#include "kernels/feature_tree.h"
#include "kernels/key_block.h"
#include "kernels/piece.h"
#include "kernels/softmax.h"
#include "kernels/tile.h"

namespace flash_attention::FUSION_ISA {

inline ScoreScale score_scale(const ScoreBlock& block) {
    // A bias outside the bracket joins scores that have their scale already.
    return ScoreScale(bias_inside(block) ? std::fabs(block.scale) : 1.0F);
}

// Products of rows [rows.begin, ...) of the left operand, which ends at rows.end, with transposed rows, over both parts
// of the features.
template <class V, int vecs>
[[gnu::always_inline]] inline void multiply_features(const int64_t (&dim)[2], const Elements<V> (&left)[2],
                                                     KeyRange rows, const typename V::element* right,
                                                     int64_t right_stride, float* tree_memory,
                                                     Tile<V, V::tile_rows, vecs>& tile) {
    FeatureTree<V, vecs> tree(tree_memory);
    tile.start_from_zero();
    for (int p = 0; p < 2; p++) {
        const int64_t elements = feature_elements<V>(dim[p]);
        if (elements == 0) continue;
        const LeftRows<typename V::element, V::tile_rows> left_rows(left[p].data, left[p].stride, 1, rows.begin,
                                                                    rows.end);
        tree.multiply(left_rows, right, right_stride, elements, p == 1 || dim[1] == 0, tile);
        right += elements * right_stride;
    }
}

// `first`: the tile's first key, counted from the piece's.
template <class V, int vecs>
[[gnu::always_inline]] inline void add_bias(const ScoreBlock& block, const StripRows& rows, const Piece& piece,
                                            const Panels<V>& panels, int64_t first, Tile<V, V::tile_rows, vecs>& tile) {
    constexpr int64_t kColumns = Softmax<V>::kColumns;
    const int lane = piece.vec_begin * V::lanes;
    const auto factor = V::set(bias_inside(block) ? 1.0F : std::fabs(block.scale));
    if (is_bias_tensor(block.bias.kind)) {
        const float* bias = panels.bias + first * kColumns + lane;
#pragma GCC unroll 16
        for (int r = 0; r < V::tile_rows; r++)
#pragma GCC unroll 4
            for (int v = 0; v < vecs; v++)
                tile.sum[r][v] = V::multiply_add(tile.sum[r][v], factor, V::load(bias + r * kColumns + v * V::lanes));
    } else if (is_bias_slope(block.bias.kind)) {
        const int64_t distance = piece.keys.begin + first - rows.begin - lane + block.bias.diagonal;
        add_bias_slope<V>(block.bias, distance, factor, tile);
    }
}

// Hidden pairs become `value`, whatever they are; so do those from the piece's end on.
template <class V, int vecs>
[[gnu::always_inline]] inline void hide_pairs(const Piece& piece, const PieceModifiers& modifiers,
                                              const Panels<V>& panels, int64_t first, float value,
                                              Tile<V, V::tile_rows, vecs>& tile) {
    const int64_t keys = piece.count() - first;
    const int lane = piece.vec_begin * V::lanes;
#pragma GCC unroll 16
    for (int r = 0; r < V::tile_rows; r++) {
        const uint64_t all = modifiers.hides ? panels.seen[first + r] >> lane : ~uint64_t{0};
        const uint64_t seen = r < keys ? all : 0;
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++)
            tile.sum[r][v] = V::keep_bits(tile.sum[r][v], seen >> (v * V::lanes), V::set(value));
    }
}

}  // namespace flash_attention::FUSION_ISA
