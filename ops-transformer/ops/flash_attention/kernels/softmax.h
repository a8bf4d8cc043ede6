// Online softmax with lazy rescale, in base 2, lanes = query rows. A row's "used maximum" is what its scores are taken
// against: weight = exp2((score - used maximum) * exponent_scale). It moves only when a score rises more than
// kRiseLimit above it, so that what was summed already is almost never rescaled; the true maximum is tracked on the
// side.
//
// Scores arrive as raw products; `exponent_scale`, positive, takes them to exponents of 2. (The sign of the operator's
// scale is in the query, so that the largest product is the largest score.) The used maximum is one of them as it is,
// so that a row with one key has weight 1 and gives its value exactly.
//
// NaN: a maximum drops it, exp2 keeps it, so that a NaN score ends up in the sum and stays there. +infinity moves the
// maximum to +infinity and gives NaN by infinity - infinity.
#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/tile.h"

namespace flash_attention::FUSION_ISA {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kLog2E = 1.44269504088896341F;

// Weights stay below 2^kRiseLimit.
inline constexpr float kRiseLimit = 12.0F;

// The operator's scale as the softmax uses it: products * natural = scores in units of e, products * exponent = in
// units of 2. With a scale of 0 all products are 0 already. The exponent stays finite, so that equal products have
// weight 1 at any scale; that changes weights only for scales above 2.3e38 and products that differ by less than 1e-36.
struct ScoreScale {
    float natural, exponent;
    explicit ScoreScale(float magnitude)
        : natural(magnitude), exponent(std::min((magnitude == 0.0F ? 1.0F : magnitude) * kLog2E, FLT_MAX)) {}
};

// What a row's statistics become, and what its output is divided by: a division, unlike a multiplication by the
// inverse, gives equal values back exactly.
struct RowResult {
    float max, sum, divisor;
    bool empty = false;  // the output is 0, also where visible values with a weight of 0 are NaN
};

// A NaN score is only in the sum; the maximum shows it too, unless it is infinite anyway.
inline float with_nan(float max, float sum) {
    return std::isnan(sum) && max != kInfinity ? sum : max;
}

// The result of a row whose weights against used_max add up to `sum` and whose largest product is true_max. A sink is
// one more score, without a value; -infinity when there is none. It joins here, so that a row that saw no key is known
// whatever the sink is. A row is empty when all its pairs are hidden or have a score of -infinity: their weights, and
// no others, are exactly 0; any other sum is at least 1 or NaN.
inline RowResult row_result(float sum, float used_max, float true_max, const ScoreScale& scale, float sink,
                            float keep_prob) {
    const bool has_sink = sink != -kInfinity;
    if (sum == 0.0F) {
        if (!has_sink) return {-FLT_MAX, FLT_MAX, 1.0F, true};
        return {sink, 1.0F + (sink - sink), 1.0F, true};  // the sum is NaN unless the sink is finite
    }
    const float max = true_max * scale.natural;
    // Takes weights from the used to the true maximum.
    const float own = std::exp2((used_max - true_max) * scale.exponent);
    if (!has_sink) return {with_nan(max, sum), sum * own, sum * keep_prob};
    const float both = sink > max ? sink : max;
    const float shrink = std::exp(max - both) * own;
    const float total = sum * shrink + std::exp(sink - both);
    return {with_nan(both, total), total, total * keep_prob / shrink};
}

template <class V>
struct Softmax {
    static constexpr int kColumns = V::lanes * V::tile_vecs;
    alignas(64) float used_max[kColumns];   // a product
    alignas(64) float limit[kColumns];      // products above it raise used_max; -infinity before the first key
    alignas(64) float true_max[kColumns];   // products
    alignas(64) float block_sum[kColumns];  // of weights against used_max: the block of keys in hand,
    alignas(64) float group_sum[kColumns];  // the group of blocks before it,
    alignas(64) float sum[kColumns];        // the groups before that

    void reset() {
        for (int i = 0; i < kColumns; i++) {
            used_max[i] = block_sum[i] = group_sum[i] = sum[i] = 0.0F;
            limit[i] = true_max[i] = -kInfinity;
        }
    }

    // Takes note of new products; true if a lane has left its allowed range.
    [[gnu::always_inline]] bool must_raise(int lane, typename V::vec largest) {
        V::store(true_max + lane, V::max(largest, V::load(true_max + lane)));
        return __builtin_expect(V::any_greater(largest, V::load(limit + lane)), 0);
    }

    // Moves the used maximum of the lanes that left their range. Returns the factor for everything that the lanes have
    // accumulated so far (1 where unmoved).
    typename V::vec raise(int lane, typename V::vec largest, float exponent_scale) {
        const auto old_limit = V::load(limit + lane), old_max = V::load(used_max + lane);
        const auto new_max = V::where_greater(largest, old_limit, largest, old_max);
        const auto new_limit = V::add(new_max, V::set(kRiseLimit / exponent_scale));
        V::store(used_max + lane, new_max);
        V::store(limit + lane, V::where_greater(largest, old_limit, new_limit, old_limit));
        // A row that has seen nothing has nothing to shrink (and exp2 may be infinite).
        const auto shrink = V::template exp2<6>(V::mul(V::sub(old_max, new_max), V::set(exponent_scale)));
        const auto factor = V::where_greater(old_limit, V::set(-kInfinity), shrink, V::zero());
        for (float* part : {block_sum + lane, group_sum + lane, sum + lane})
            V::store(part, V::mul(V::load(part), factor));
        return factor;
    }

    void end_block() { move(block_sum, group_sum); }
    void end_group() { move(group_sum, sum); }

    // After the last end_group.
    RowResult finish(int64_t row, const ScoreScale& scale, float sink, float keep_prob) const {
        return row_result(sum[row], used_max[row], true_max[row], scale, sink, keep_prob);
    }

  private:
    static void move(float* from, float* to) {
        for (int i = 0; i < kColumns; i += V::lanes) {
            V::store(to + i, V::add(V::load(to + i), V::load(from + i)));
            V::store(from + i, V::zero());
        }
    }
};

}  // namespace flash_attention::FUSION_ISA
