// From products to weights for one query row and a block of keys; lanes are keys. What hides or changes single pairs
// lies along the keys in memory too, so that nothing is transposed here.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/bias_panel.h"
#include "kernels/decode_scores.h"
#include "kernels/dispatch.h"
#include "kernels/merge.h"
#include "kernels/pair_bits.h"
#include "kernels/softmax.h"

namespace flash_attention::FUSION_ISA {

// A bit for each key of a block.
struct KeyBits {
    uint64_t words[kDecodeBlock / 64];

    uint64_t from(int64_t at) const { return words[at / 64] >> (at % 64); }  // bits of the same word
    bool operator[](int64_t at) const { return (from(at) & 1) != 0; }
    void clear(int64_t at) { words[at / 64] &= ~(uint64_t{1} << (at % 64)); }

    // Sets the bits of `keys` of the block that begins at key `block`, and no others: bits_of(key, n) gives those of
    // n <= 8 keys.
    template <class BitsOf>
    void set(int64_t block, KeyRange keys, BitsOf&& bits_of) {
        std::fill_n(words, kDecodeBlock / 64, uint64_t{0});
        for (int64_t key = keys.begin; key < keys.end;) {
            const int64_t at = key - block, n = std::min(8 - at % 8, keys.end - key);
            words[at / 64] |= bits_of(key, n) << (at % 64);
            key += n;
        }
    }
};

// One query row of a head, `row` as position in its block, and the keys in hand of the block of keys that begins at
// key `begin`.
struct BlockRow {
    const ScoreBlock& block;
    int64_t row;
    int64_t begin;
    KeyRange keys;
};

inline void load_seen(const BlockRow& r, KeyBits& seen) {
    const KeyRange visible = visible_keys(r.block.band, r.block.row_begin + r.row, r.block.kv_len);
    const KeyRange keys{std::max(r.keys.begin, visible.begin), std::min(r.keys.end, visible.end)};
    const uint8_t* mask = r.block.mask == nullptr ? nullptr : r.block.mask + r.row * r.block.mask_stride;
    seen.set(r.begin, keys, [=](int64_t key, int64_t n) {
        if (mask == nullptr) return lowest_bits(n);
        uint64_t bytes = 0;
        std::memcpy(&bytes, mask + key, static_cast<size_t>(n));
        return lowest_bits(n) & ~nonzero_bytes(bytes);
    });
}

// The bias joins the products; -infinity hides its key, where a compressed bias has no entry the score becomes NaN.
template <class V>
void add_bias_tensor(const BlockRow& r, float* scores, KeyBits& seen) {
    const ScoreBlock& block = r.block;
    const bool inside = bias_inside(block);
    const auto factor = V::set(inside ? 1.0F : std::fabs(block.scale));
    const auto sign = V::set(inside ? sign_of(block.scale) : 1.0F);
    const int64_t count = r.keys.end - r.keys.begin, at = r.keys.begin - r.begin;
    const BiasRow<V> bias = bias_row<V>(block.bias, block.row_begin + r.row, r.keys.begin, count);
    for (int64_t j = 0; j < bias.there; j += V::lanes) {
        const int64_t n = std::min<int64_t>(V::lanes, bias.there - j);
        const auto x = n < V::lanes ? V::load_values(bias.values + j, n) : V::load_values(bias.values + j);
        const uint32_t hidden = V::equal_lanes(x, V::set(-kInfinity));
        for (int64_t k = 0; hidden >> k != 0; k++)
            if ((hidden >> k & 1) != 0) seen.clear(at + j + k);
        float* score = scores + at + j;
        V::store(score, V::multiply_add(V::load(score), factor, V::mul(x, sign)));
    }
    for (int64_t j = bias.there; j < count; j++) scores[at + j] = std::numeric_limits<float>::quiet_NaN();
}

// score * |scale| - slope * |distance|, or its square root. Distances are exact as floats up to 2^24.
template <class V>
void add_bias_slope(const BlockRow& r, float* scores) {
    const auto factor = V::set(std::fabs(r.block.scale)), slope = V::set(-r.block.bias.slope);
    for (float *score = scores + (r.keys.begin - r.begin), *end = scores + (r.keys.end - r.begin); score < end;
         score += V::lanes) {
        const int64_t distance = r.begin + (score - scores) - (r.block.row_begin + r.row) + r.block.bias.diagonal;
        const auto apart = V::abs(V::add(V::set(static_cast<float>(distance)), V::lane_numbers()));
        const auto length = r.block.bias.kind == BiasKind::kSquareRoot ? V::sqrt(apart) : apart;
        V::store(score, V::multiply_add(V::load(score), factor, V::mul(slope, length)));
    }
}

// Scores [begin, end) of a row become weights against their own maximum, the rest of the first and the last vector too:
// 0. hidden: some bits of `seen` are not set; else nobody looks at them.
template <class V>
SoftmaxPart weigh_scores(float* scores, int64_t begin, int64_t end, bool hidden, const KeyBits& seen,
                         float exponent_scale) {
    const int64_t first = begin & -int64_t{V::lanes}, last = round_up(end, V::lanes);
    std::fill(scores + first, scores + begin, -kInfinity);
    std::fill(scores + end, scores + last, -kInfinity);
    auto largest = V::set(-kInfinity);
    for (int64_t i = first; i < last; i += V::lanes) {
        auto x = V::load(scores + i);
        if (hidden) {
            x = V::keep_bits(x, seen.from(i), V::set(-kInfinity));
            V::store(scores + i, x);
        }
        largest = V::max(x, largest);  // drops NaN, which stays in the scores
    }
    alignas(64) float lanes[V::lanes];
    V::store(lanes, largest);
    float max = lanes[0];
    for (int i = 1; i < V::lanes; i++) max = std::max(max, lanes[i]);

    // Without a score above -infinity all weights are 0, or NaN.
    const auto against = V::set(max == -kInfinity ? 0.0F : max);
    auto sum = V::zero();
    for (int64_t i = first; i < last; i += V::lanes) {
        const auto weight = V::template exp2<6>(V::mul(V::sub(V::load(scores + i), against), V::set(exponent_scale)));
        V::store(scores + i, weight);
        sum = V::add(sum, weight);
    }
    return {max, V::sum_lanes(sum)};
}

template <class V>
void drop_weights(const BlockRow& r, float* weights) {
    KeyBits kept;
    const int64_t first_bit = r.block.drop_first_bit + r.row * r.block.kv_len;
    alignas(64) uint8_t made[kDecodeBlock / 8 + 64];  // room to write whole vectors
    if (r.block.drop_stream != nullptr) {
        const dropout_gen_mask::FUSION_ISA::MaskBits mask(*r.block.drop_stream);
        mask.fill(first_bit + r.keys.begin, r.keys.end - r.keys.begin, made);
        kept.set(r.begin, r.keys, [&](int64_t key, int64_t n) { return packed_bits(made, key - r.keys.begin, n); });
    } else {
        kept.set(r.begin, r.keys,
                 [&](int64_t key, int64_t n) { return packed_bits(r.block.drop_mask, first_bit + key, n); });
    }
    for (int64_t i = (r.keys.begin - r.begin) & -int64_t{V::lanes}; i < r.keys.end - r.begin; i += V::lanes)
        V::store(weights + i, V::keep_bits(V::load(weights + i), kept.from(i), V::zero()));
}

// Products to weights, with everything that may happen between. Returns whether some pair may be hidden: only then
// `seen` is filled.
template <class V>
bool weigh_row(const BlockRow& r, float exponent_scale, float* scores, KeyBits& seen, SoftmaxPart& part) {
    const KeyRange visible = visible_keys(r.block.band, r.block.row_begin + r.row, r.block.kv_len);
    const bool hidden = r.block.mask != nullptr || is_bias_tensor(r.block.bias.kind) || r.keys.begin < visible.begin ||
                        r.keys.end > visible.end;
    if (hidden) load_seen(r, seen);
    if (is_bias_tensor(r.block.bias.kind)) add_bias_tensor<V>(r, scores, seen);
    if (is_bias_slope(r.block.bias.kind)) add_bias_slope<V>(r, scores);
    part = weigh_scores<V>(scores, r.keys.begin - r.begin, r.keys.end - r.begin, hidden, seen, exponent_scale);
    if (r.block.drops()) drop_weights<V>(r, scores);
    return hidden;
}

}  // namespace flash_attention::FUSION_ISA
