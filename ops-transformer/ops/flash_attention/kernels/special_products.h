// Products over pairs that are seen, with rows whose NaN and infinities the usual products take as 0, so that they
// cannot spread to what does not see them.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/gradient_panels.h"

namespace flash_attention::FUSION_ISA {

// Visits the pairs of a piece that are seen: use(key of the block, row of the block).
template <class V, class Use>
void for_each_seen(const GradientPiece<V>& p, Use&& use) {
    const int64_t strip = p.rows.begin - p.block.row_begin;
    for (int64_t k = 0; k < p.piece.count(); k++) {
        const uint64_t seen = p.modifiers.hides ? p.panels.seen[k] : ~uint64_t{0};
        for (int64_t c = p.piece.vec_begin * V::lanes; c < p.piece.vec_end * V::lanes; c++)
            if (((seen >> c) & 1) != 0) use(p.piece.keys.begin - p.keys.keys.begin + k, strip + c);
    }
}

// to[f] += factor * row[f] where row[f] is NaN or infinite.
template <class V>
void add_special(const typename V::value* row, int64_t dim, float factor, float* to, int64_t stride) {
    for (int64_t f = 0; f < dim; f++) {
        const float x = V::one_value(row + f);
        if (!std::isfinite(x)) to[f * stride] += factor * x;
    }
}

}  // namespace flash_attention::FUSION_ISA
