// A piece: a rectangle of the score matrix, some keys of a block x whole vectors of columns (query rows) of a strip.
// The band cuts the work of a strip into pieces; blocks and vectors outside the band are never produced. What hides or
// changes single pairs of a piece (the band's edge, an explicit mask, a bias, dropout) is gathered here too.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/visibility.h"
#include "kernels/bias_panel.h"
#include "kernels/dispatch.h"
#include "kernels/feature_tree.h"
#include "kernels/pair_bits.h"
#include "kernels/softmax.h"
#include "kernels/tile.h"

namespace flash_attention::FUSION_ISA {

// Query rows of a strip, as rows of their sequence.
struct StripRows {
    int64_t begin, count;
};

struct Piece {
    KeyRange keys;
    int vec_begin, vec_end;
    bool masked;  // the band may hide some pair inside
    int64_t count() const { return keys.end - keys.begin; }
};

// Scratch for one piece at a time, shared by the strips of a query block. Indices count from the piece's first key.
template <class V>
struct Panels {
    typename V::element* weights;  // [key / V::depth][column]
    float* bias;                   // [key][column]
    float* tree;                   // of FeatureTree
    uint64_t* seen;                // a word a key, a bit a column
    uint64_t* kept;                // likewise: what dropout keeps
};

// The keys that a vector of query rows starts to see, first some of its rows and then all, and ceases to see.
struct VectorBand {
    int64_t enter, inside, edge, leave;
};

// A vector counts as partly hidden for `lanes` keys at either end (one more than it is), so that the cuts of
// neighbouring vectors coincide; cuts are moved outwards to multiples of V::depth, so that elements are never split. An
// end that hides nothing is no cut: a window that no row feels must not change how sums are formed.
template <class V>
VectorBand vector_band(const Band& band, int64_t row, int64_t kv_len) {
    const auto down = [](int64_t key) { return key & -int64_t{V::depth}; };
    const auto up = [](int64_t key) { return (key + V::depth - 1) & -int64_t{V::depth}; };
    VectorBand v{-kUnlimited, -kUnlimited, kUnlimited, kUnlimited};
    const int64_t first = row + band.first, last = std::max(row + band.last, band.prefix - 1);
    if (first + V::lanes - 1 > 0) {
        v.enter = down(first);
        v.inside = up(first + V::lanes);
    }
    if (last < kv_len - 1) {
        v.edge = down(last);
        v.leave = up(std::max(row + band.last + V::lanes, band.prefix));
    }
    return v;
}

// The piece that starts at keys.begin, a multiple of V::depth. Pieces are cut where a vector of rows enters or leaves
// the band, so that edge tiles carry only the vectors that they need.
template <class V>
Piece first_piece(const Band& band, const StripRows& rows, int64_t kv_len, KeyRange keys) {
    Piece piece{keys, V::tile_vecs, 0, false};
    for (int v = 0; v < V::tile_vecs && v * V::lanes < rows.count; v++) {
        const VectorBand vector = vector_band<V>(band, rows.begin + v * V::lanes, kv_len);
        for (const int64_t cut : {vector.enter, vector.inside, vector.edge, vector.leave})
            if (cut > keys.begin) piece.keys.end = std::min(piece.keys.end, cut);
        if (vector.enter <= keys.begin && keys.begin < vector.leave) {
            piece.vec_begin = std::min(piece.vec_begin, v);
            piece.vec_end = v + 1;
            piece.masked |= keys.begin < vector.inside || keys.begin >= vector.edge;
        }
    }
    return piece;
}

// What single pairs of a piece need.
struct PieceModifiers {
    bool nothing_seen = false;  // then the piece is left out
    bool hides = false;         // some pair is hidden: `seen` has the others
    bool changes = false;       // a bias, or dropout: `bias` and `kept` are filled where the block has them

    bool any() const { return hides || changes; }
};

// Fills the panels with what the piece needs of them.
template <class V>
PieceModifiers load_modifiers(const ScoreBlock& block, const StripRows& rows, const Piece& piece,
                              const Panels<V>& panels) {
    const int64_t keys = piece.count(), key = piece.keys.begin;
    const int64_t in_block = rows.begin - block.row_begin;
    PieceModifiers modifiers;
    modifiers.changes = block.drops() || block.bias.kind != BiasKind::kNone;
    if (piece.masked || block.mask != nullptr || is_bias_tensor(block.bias.kind)) {
        const uint64_t everyone = lowest_bits(rows.count);
        std::fill_n(panels.seen, keys, everyone);
        if (piece.masked)
            for (int64_t k = 0; k < keys; k++)
                panels.seen[k] = columns_in_band(block.band, rows.begin, rows.count, key + k);
        if (block.mask != nullptr) {
            hide_masked(block.mask + in_block * block.mask_stride + key, block.mask_stride, keys, rows.count,
                        panels.seen);
        }
        if (is_bias_tensor(block.bias.kind)) {
            const float sign = bias_inside(block) ? sign_of(block.scale) : 1.0F;
            load_bias_tensor<V>(block.bias, rows.begin, rows.count, key, keys, sign, panels.bias, panels.seen);
        }
        uint64_t any = 0, all = everyone;
        for (int64_t k = 0; k < keys; k++) {
            any |= panels.seen[k];
            all &= panels.seen[k];
        }
        modifiers.nothing_seen = any == 0;
        modifiers.hides = all != everyone;
    }
    if (block.drops() && !modifiers.nothing_seen) {
        const int64_t first_bit = block.drop_first_bit + in_block * block.kv_len + key;
        load_kept(block, first_bit, keys, rows.count, panels.kept);
    }
    return modifiers;
}

}  // namespace flash_attention::FUSION_ISA
