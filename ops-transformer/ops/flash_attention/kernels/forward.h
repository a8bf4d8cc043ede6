// Forward attention of one block of query rows, with any lengths and head dimensions.
//
//   for each block of keys that the band lets any row see:
//       S^T = K Q^T                    [key][row], columns are query rows; a sum over all parts of the features
//       add the bias
//       hide pairs, online softmax     S^T becomes the weights
//       drop weights
//       O^T += V^T S^T                 [feature][row]
//   O = O^T / sum
//
// Q is transposed once; K and V are read as they lie (16-bit types widened once per block). Blocks outside the band are
// never visited, and only tiles that the band's edge or an explicit mask cuts are masked. Memory is that of a few
// tiles, whatever the lengths.
//
// Sums over keys have three levels: a chain of at most 64 keys from zero, groups of 8 such chains, the total. Sums over
// features are binary trees (tile.h).
//
// A hidden pair has weight exactly 0. That is not enough against a NaN or infinity in a hidden value row, since 0 * NaN
// is NaN: such tiles leave hidden pairs out one by one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/problem.h"
#include "kernels/bias_tile.h"
#include "kernels/dispatch.h"
#include "kernels/dropout_tile.h"
#include "kernels/rows.h"
#include "kernels/softmax.h"
#include "kernels/tile.h"
#include "kernels/visible_tile.h"

namespace flash_attention::portable {

inline constexpr int64_t kBlocksPerGroup = 8;

// The scratch memory of one block, in floats.
struct Scratch {
    float *query, *key, *value, *scores, *group, *total;

    // `features`: of all parts together.
    static int64_t floats(int64_t features, int64_t value_dim) {
        return kQueryBlock * (2 * features + 3 * value_dim + kKeyBlock);
    }

    Scratch(float* memory, int64_t features, int64_t value_dim) {
        query = memory;                            // [feature][row]
        key = query + kQueryBlock * features;      // [key][feature] for 16-bit types, part after part
        value = key + kKeyBlock * features;        // [key][value_dim], likewise
        scores = value + kKeyBlock * value_dim;    // [key][row]
        group = scores + kKeyBlock * kQueryBlock;  // [value_dim][row], second level of the sum
        total = group + kQueryBlock * value_dim;   // third level
    }
};
static_assert(kKeyBlock == kQueryBlock, "Scratch::floats counts both as one");

template <class Type>
void transpose_query(const ForwardBlock& block, int64_t columns, float* query) {
    const int64_t count = block.row_end - block.row_begin;
    for (const FeaturePart& part : block.parts) {
        const auto* rows = static_cast<const typename Type::Element*>(part.query.data);
        for (int64_t d = 0; d < part.dim; d++, query += kQueryBlock) {
            for (int64_t i = 0; i < count; i++) query[i] = Type::widen(rows[i * part.query.stride + d]);
            for (int64_t i = count; i < columns; i++) query[i] = 0.0F;
        }
    }
}

// S^T = K Q^T for the keys [begin, end), over all parts of the features.
template <class Type>
void multiply_keys(const ForwardBlock& block, const Scratch& scratch, int64_t begin, int64_t end, int64_t columns) {
    FeatureRows parts[2];
    float* widened = scratch.key;
    for (int p = 0; p < 2; p++) {
        const FeaturePart& part = block.parts[p];
        const FloatRows rows = widen_rows<Type>(part.key, begin, end, part.dim, widened);
        parts[p] = {rows.data, rows.stride, part.dim};
        widened += kKeyBlock * part.dim;
    }
    multiply_features(parts, end - begin, scratch.query, columns, scratch.scores);
}

inline bool all_finite(FloatRows rows, int64_t count, int64_t cols) {
    for (int64_t r = 0; r < count; r++)
        for (int64_t c = 0; c < cols; c++)
            if (!std::isfinite(rows.data[r * rows.stride + c])) return false;
    return true;
}

// O^T += V^T P over visible pairs only.
inline void add_visible_products(FloatRows value, const VisibleTile& visible, const float* weights, int64_t keys,
                                 int64_t value_dim, int64_t rows, float* out) {
    for (int64_t f = 0; f < value_dim; f++) {
        for (int64_t i = 0; i < rows; i++) {
            float chain = 0.0F;
            for (int64_t j = 0; j < keys; j++)
                if (visible[j] >> i & 1) chain += weights[j * kQueryBlock + i] * value.data[j * value.stride + f];
            out[f * kQueryBlock + i] += chain;
        }
    }
}

template <class Type>
void write_results(const ForwardBlock& block, const Softmax& softmax, const float* total) {
    auto* out = static_cast<typename Type::Element*>(block.out);
    const float keep_prob = block.drop_mask != nullptr ? block.keep_prob : 1.0F;
    for (int64_t i = 0; i < block.row_end - block.row_begin; i++) {
        const Softmax::Row row =
            block.kv_len == 0 ? Softmax::Row{0.0F, 0.0F, 1.0F, true} : softmax.finish(i, block.sink);
        const float divisor = row.divisor * keep_prob;
        for (int64_t f = 0; f < block.value_dim; f++)
            out[i * block.out_stride + f] = Type::narrow(row.empty ? 0.0F : total[f * kQueryBlock + i] / divisor);
        std::fill_n(block.max + i * block.stats_stride, kStatsCopies, row.max);
        std::fill_n(block.sum + i * block.stats_stride, kStatsCopies, row.sum);
    }
}

template <class Type>
void forward(const ForwardBlock& block, void* memory) {
    const int64_t rows = block.row_end - block.row_begin;
    const int64_t columns = (rows + kTileVecs * kLanes - 1) / (kTileVecs * kLanes) * (kTileVecs * kLanes);
    const int64_t features = block.parts[0].dim + block.parts[1].dim, value_dim = block.value_dim;
    const Scratch scratch(static_cast<float*>(memory), features, value_dim);
    std::fill_n(scratch.group, kQueryBlock * value_dim, 0.0F);
    std::fill_n(scratch.total, kQueryBlock * value_dim, 0.0F);
    Softmax softmax;

    const auto close_group = [&] {
        softmax.close_group(columns);
        add_to(scratch.group, value_dim, columns, scratch.total);
        std::fill_n(scratch.group, kQueryBlock * value_dim, 0.0F);
    };

    const KeyRange keys = any_visible(block.band, block.row_begin, block.row_end, block.kv_len);
    if (!keys.empty()) transpose_query<Type>(block, columns, scratch.query);
    VisibleTile visible;
    // Key blocks, and groups of them, start at multiples of their size, so that a row's sums are cut at the same keys
    // whatever the band and whatever other rows of the block see.
    int64_t group = 0;
    for (int64_t begin = keys.begin / kKeyBlock * kKeyBlock; begin < keys.end; begin += kKeyBlock) {
        const int64_t end = std::min(begin + kKeyBlock, block.kv_len);
        const int64_t count = end - begin;
        bool full = visible.fill(block, begin, end);
        if (!full && visible.nothing_visible(count)) continue;
        if (begin / (kBlocksPerGroup * kKeyBlock) != group) {
            close_group();
            group = begin / (kBlocksPerGroup * kKeyBlock);
        }

        multiply_keys<Type>(block, scratch, begin, end, columns);
        if (add_bias<Type>(block, begin, count, scratch.scores, visible)) full = false;
        if (softmax.weigh(full ? nullptr : &visible, count, columns, remaining_scale(block), scratch.scores)) {
            scale_columns(softmax.shrink(), value_dim, columns, scratch.group);
            scale_columns(softmax.shrink(), value_dim, columns, scratch.total);
        }
        if (block.drop_mask != nullptr) drop_weights(block, begin, count, scratch.scores);
        const FloatRows value = widen_rows<Type>(block.value, begin, end, value_dim, scratch.value);
        if (full || all_finite(value, count, value_dim))
            multiply({value.data, 1, value.stride}, scratch.scores, value_dim, count, columns, true, scratch.group);
        else
            add_visible_products(value, visible, scratch.scores, count, value_dim, rows, scratch.group);
    }
    close_group();
    write_results<Type>(block, softmax, scratch.total);
}

}  // namespace flash_attention::portable
