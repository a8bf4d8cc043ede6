// Adds the positional bias to a tile of products; the tile leaves as scores that still need `remaining_scale`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "engine/bias.h"
#include "kernels/dispatch.h"
#include "kernels/rows.h"
#include "kernels/tile.h"
#include "kernels/visible_tile.h"

namespace flash_attention::portable {

// What is left to multiply after add_bias: the scale where the bias stands inside its bracket.
inline float remaining_scale(const ForwardBlock& block) {
    const BiasKind kind = block.bias.kind;
    return kind == BiasKind::kNone || kind == BiasKind::kInside ? block.scale : 1.0F;
}

// scores[key][row] for keys [key_begin, key_begin + keys) and all rows of the block. -infinity hides its pair in
// `visible`; a pair for which a compressed bias has no entry gets NaN. Returns true when it hid any.
template <class Type>
bool add_bias_tensor(const ForwardBlock& block, int64_t key_begin, int64_t keys, float* scores, VisibleTile& visible) {
    const BlockBias& bias = block.bias;
    const float scale = bias.kind == BiasKind::kOutside ? block.scale : 1.0F;
    bool hid = false;
    for (int64_t i = 0; i < block.row_end - block.row_begin; i++) {
        const int64_t row = bias.first_row + block.row_begin + i;
        const StoredBiasRow stored = bias.full_rows > 0 ? stored_bias_row(row, bias.full_rows) : StoredBiasRow{row, 0};
        const int64_t column = bias.first_column + stored.shift + key_begin;
        const int64_t there = std::clamp(bias.columns - column, int64_t{0}, keys);
        const auto* values = static_cast<const typename Type::Element*>(bias.rows.data) + stored.row * bias.rows.stride;
        float* const score = scores + i;
        for (int64_t j = 0; j < there; j++) {
            const float value = Type::widen(values[column + j]);
            score[j * kQueryBlock] = score[j * kQueryBlock] * scale + value;
            if (value == -kInfinity) {
                visible.hide(j, i);
                hid = true;
            }
        }
        for (int64_t j = there; j < keys; j++) score[j * kQueryBlock] = std::numeric_limits<float>::quiet_NaN();
    }
    return hid;
}

inline void add_bias_slope(const ForwardBlock& block, int64_t key_begin, int64_t keys, float* scores) {
    const bool root = block.bias.kind == BiasKind::kSquareRoot;
    for (int64_t j = 0; j < keys; j++) {
        for (int64_t i = 0; i < block.row_end - block.row_begin; i++) {
            const int64_t distance = std::abs(key_begin + j - block.row_begin - i + block.bias.diagonal);
            const float length = root ? std::sqrt(static_cast<float>(distance)) : static_cast<float>(distance);
            float& score = scores[j * kQueryBlock + i];
            score = score * block.scale - block.bias.slope * length;
        }
    }
}

template <class Type>
bool add_bias(const ForwardBlock& block, int64_t key_begin, int64_t keys, float* scores, VisibleTile& visible) {
    if (is_bias_tensor(block.bias.kind)) return add_bias_tensor<Type>(block, key_begin, keys, scores, visible);
    if (is_bias_slope(block.bias.kind)) add_bias_slope(block, key_begin, keys, scores);
    return false;
}

}  // namespace flash_attention::portable
