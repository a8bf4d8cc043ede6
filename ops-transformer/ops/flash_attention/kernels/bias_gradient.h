// The gradient of a bias tensor: dS, or scale dS where the bias stands inside the bracket, summed over all query rows
// and sequences that share an entry. A pass of its own, only when it is wanted: each part of the result has one owner,
// which goes through what it sums and makes dS anew, so that results do not depend on threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/backward.h"

namespace flash_attention::FUSION_ISA {

// Scratch memory: that of a backward without sums of keys, and behind it those of the bias.
template <class V>
struct BiasScratch {
    static constexpr int64_t kFloats = kBiasKeys * kBackwardRows<V>;
    BiasScratch(void* memory, const FeatureShape& shape) : backward(memory, shape, 0) {
        bytes = backward.bytes() + 2 * kFloats * static_cast<int64_t>(sizeof(float)) + 64;
        if (memory == nullptr) return;
        blocks_added = reinterpret_cast<int64_t*>(static_cast<std::byte*>(memory) + backward.bytes());
        group = reinterpret_cast<float*>(blocks_added + 8);
        total = group + kFloats;
    }
    BackwardScratch<V> backward;
    int64_t* blocks_added = nullptr;           // to `group`
    float *group = nullptr, *total = nullptr;  // [key][row], as the sums of BackwardScratch
    int64_t bytes;

    void end_group() const {
        for (int64_t i = 0; i < kFloats; i += V::lanes) {
            V::store(total + i, V::add(V::load(total + i), V::load(group + i)));
            V::store(group + i, V::zero());
        }
        *blocks_added = 0;
    }
};

template <class V>
int64_t bias_scratch_bytes(const FeatureShape& shape) {
    return BiasScratch<V>(nullptr, shape).bytes;
}

template <class V>
void begin_bias(const FeatureShape& shape, void* memory) {
    const BiasScratch<V> scratch(memory, shape);
    *scratch.blocks_added = 0;
    std::fill_n(scratch.group, 2 * BiasScratch<V>::kFloats, 0.0F);
}

template <class V>
void add_bias_gradient(const BackwardBlock& block, KeyRange keys, void* memory) {
    constexpr int64_t kRows = kBackwardRows<V>, kGroup = 8;
    BiasScratch<V> scratch(memory, {{block.parts[0].dim, block.parts[1].dim}, block.value_dim});
    const KeyRange visible = any_visible(block.band, block.row_begin, block.row_end, block.kv_len);
    if (std::max(keys.begin, visible.begin) >= std::min(keys.end, visible.end)) return;
    BackwardScratch<V>& work = scratch.backward;
    load_query_panels<V>(block, work.queries);
    for (int64_t begin = keys.begin; begin < keys.end; begin += kGradientKeys) {
        const KeyRange in_block{begin, std::min(begin + kGradientKeys, keys.end)};
        const GradientKeyBlock<V> rows = load_key_block<V>(block, in_block, work);
        fill_gradients<V>(block, rows, work.queries, work.panels, work.gradients, [](const GradientPiece<V>&) {});
        const int64_t count = (in_block.end - begin) * kRows;
        float* to = scratch.group + (begin - keys.begin) * kRows;
        for (int64_t i = 0; i < count; i += V::lanes)
            V::store(to + i, V::add(V::load(to + i), V::load_left(work.gradients.score_gradients + i)));
    }
    if (++*scratch.blocks_added == kGroup) scratch.end_group();
}

// Writes `rows` rows of `keys` entries, or, when they are one row, its sum.
template <class V>
void end_bias(const BiasResult& result, const FeatureShape& shape, void* memory) {
    constexpr int64_t kRows = kBackwardRows<V>;
    const BiasScratch<V> scratch(memory, shape);
    scratch.end_group();
    const int64_t rows = result.one_row ? 1 : result.rows;
    for (int64_t key = 0; key < result.keys; key += V::lanes) {
        const int64_t width = std::min<int64_t>(V::lanes, result.keys - key);
        for (int64_t i = 0; i < rows; i += V::lanes) {
            typename V::vec x[V::lanes];
            for (int c = 0; c < V::lanes; c++) {
                x[c] = V::zero();
                if (c >= width) continue;
                const float* from = scratch.total + (key + c) * kRows;
                if (result.one_row)
                    for (int64_t r = 0; r < kRows; r += V::lanes) x[c] = V::add(x[c], V::load(from + r));
                else
                    x[c] = V::load(from + i);
            }
            if (result.one_row)
                x[0] = V::sum_each(x);
            else
                V::transpose(x);
            for (int64_t r = 0; r < std::min<int64_t>(V::lanes, rows - i); r++)
                V::store_values(static_cast<typename V::value*>(result.first) + (i + r) * result.stride + key, width,
                                V::mul(x[r], V::set(result.factor)));
        }
    }
}

// Of each row of a block: dy . out.
template <class V>
void row_deltas(const BackwardBlock& block, float* deltas) {
    for (int64_t i = 0; i < block.row_end - block.row_begin; i++) deltas[i] = row_delta<V>(block, i);
}

}  // namespace flash_attention::FUSION_ISA
