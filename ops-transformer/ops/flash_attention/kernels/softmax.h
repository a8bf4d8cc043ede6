// The online softmax of a block of query rows, columns = query rows. Scores arrive a key block at a time; what was
// summed against an older maximum is scaled to the new one, so that at any time sum = sum of e^(score - max) over the
// keys seen.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "kernels/tile.h"
#include "kernels/vec_portable.h"
#include "kernels/visible_tile.h"

namespace flash_attention::portable {

class Softmax {
  public:
    Softmax() {
        for (int64_t c = 0; c < kQueryBlock; c++) {
            max_[c] = -kInfinity;
            block_sum_[c] = group_sum_[c] = total_sum_[c] = 0.0F;
            shrink_[c] = 1.0F;
        }
    }

    // Turns a tile of products into weights: scores[key][row] = e^(product * scale - max), exactly 0 for hidden pairs.
    // `visible` is nullptr when every pair is. Returns true when an older maximum moved: then everything that was
    // summed so far must be multiplied by shrink().
    bool weigh(const VisibleTile* visible, int64_t keys, int64_t columns, float scale, float* scores) {
        IntVec moved{};
        for (int64_t c = 0; c < columns; c += kLanes) {
            const Vec old_max = load(max_ + c);
            Vec max = old_max;
            for (int64_t j = 0; j < keys; j++) {
                float* at = scores + j * kQueryBlock + c;
                Vec x = load(at) * set(scale);
                if (visible != nullptr) x = select(lanes_of((*visible)[j] >> c), x, set(-kInfinity));
                store(at, x);
                max = max_or_first(max, x);  // a NaN score goes into the sum below, not into the maximum
            }
            // While a row has only seen -infinity, weights are taken against 0: they are 0, not NaN.
            const Vec base = select(max == set(-kInfinity), zero(), max);
            const Vec shrink = exp_nonpositive(old_max - base);
            Vec sum = zero();
            for (int64_t j = 0; j < keys; j++) {
                float* at = scores + j * kQueryBlock + c;
                const Vec weight = exp_nonpositive(load(at) - base);
                store(at, weight);
                sum += weight;
            }
            store(max_ + c, max);
            store(block_sum_ + c, sum);
            store(shrink_ + c, shrink);
            moved |= (shrink != set(1.0F));
        }
        if (any(moved)) {
            scale_columns(shrink_, 1, columns, group_sum_);
            scale_columns(shrink_, 1, columns, total_sum_);
        }
        add_to(block_sum_, 1, columns, group_sum_);
        return any(moved);
    }

    // Ends a group of key blocks: the second level of the sum joins the third.
    void close_group(int64_t columns) {
        add_to(group_sum_, 1, columns, total_sum_);
        for (float& sum : group_sum_) sum = 0.0F;
    }

    const float* shrink() const { return shrink_; }

    // What a row's statistics become after the last close_group, and what its output is divided by, before dropout.
    struct Row {
        float max, sum, divisor;
        bool empty = false;  // the output is 0, also where visible values with a weight of 0 are NaN
    };

    // A sink is one more score, without a value; -infinity when there is none. It joins at the end, so that a row that
    // saw no key is known whatever the sink is: its output is 0. A row is empty when it has seen no key or only scores
    // of -infinity: its maximum has not moved, and its sum is 0 because no NaN came by either.
    Row finish(int64_t row, float sink) const {
        const float max = max_[row], sum = total_sum_[row];
        const bool empty = max == -kInfinity && sum == 0.0F;
        if (empty && sink == -kInfinity) return {-FLT_MAX, FLT_MAX, 1.0F, true};
        if (empty) return {sink, 1.0F + (sink - sink), 1.0F, true};  // the sum is NaN unless the sink is finite
        if (sink == -kInfinity) return {with_nan(max, sum), sum, sum};
        const float both = sink > max ? sink : max;
        const float shrink = std::exp(max - both);
        const float total = sum * shrink + std::exp(sink - both);
        return {with_nan(both, total), total, total / shrink};
    }

  private:
    // A NaN score goes into the sum; the maximum shows it too, unless it is infinite anyway.
    static float with_nan(float max, float sum) { return std::isnan(sum) && max != kInfinity ? sum : max; }

    float max_[kQueryBlock];
    float block_sum_[kQueryBlock];
    float group_sum_[kQueryBlock];
    float total_sum_[kQueryBlock];
    float shrink_[kQueryBlock];
};

}  // namespace flash_attention::portable
