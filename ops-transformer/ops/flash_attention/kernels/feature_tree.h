// Sums of products of features go into exponents, and equal products round alike, so that their errors would add up
// along a chain. So chains are short, and they are added up as a binary tree: equal sums double without any rounding.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/tile.h"

namespace flash_attention::FUSION_ISA {

template <class V, int vecs>
class FeatureTree {
  public:
    using Sums = Tile<V, V::tile_rows, vecs>;
    using Left = LeftRows<typename V::element, V::tile_rows>;

    // Room for the sums of each level; 2 * 768 features are fewer than 2^9 chains. It is the caller's, not a local
    // array, which compilers would take apart into single registers.
    static constexpr int64_t kFloats = 10 * Sums::kFloats;
    [[gnu::always_inline]] explicit FeatureTree(float* memory) : memory_(memory) {}

    // Adds the products of `elements` elements; after the last call of a tile `sums` is their total.
    [[gnu::always_inline]] void multiply(const Left& left, const typename V::element* right, int64_t right_stride,
                                         int64_t elements, bool last, Sums& sums) {
        int64_t at = 0;
        for (; at + kSubtree <= elements; at += kSubtree) {
            sum_subtree<kSubtree>(left, right + at * right_stride, right_stride, at, sums);
            join(last && at + kSubtree == elements, kSubtree / kChain, sums);
        }
        for (; at < elements; at += kChain) {
            sums.multiply(left, right + at * right_stride, right_stride, std::min(kChain, elements - at), at);
            join(last && at + kChain >= elements, 1, sums);
        }
    }

  private:
    static constexpr int64_t kChain = V::feature_chain / V::depth;
    // Elements of a subtree of fixed shape: all that most heads need.
    static constexpr int64_t kSubtree = 64 / V::depth;
    static constexpr int64_t kWidth = int64_t{vecs} * V::lanes;

    template <int64_t length>
    [[gnu::always_inline]] void sum_subtree(const Left& left, const typename V::element* right, int64_t right_stride,
                                            int64_t at, Sums& sums) {
        if constexpr (length == kChain) {
            sums.multiply(left, right, right_stride, kChain, at);
        } else {
            constexpr int64_t kHalf = length / 2;
            float* const half = level_sums(kHalf / kChain);
            sum_subtree<kHalf>(left, right, right_stride, at, sums);
            sums.store(half, kWidth);
            sum_subtree<kHalf>(left, right + kHalf * right_stride, right_stride, at + kHalf, sums);
            sums.add(half, kWidth);
        }
    }

    // Joins the sums of as many chains as these (a power of two) as long as there are some, as a counter in binary
    // carries; at the end, all that are left.
    [[gnu::always_inline]] void join(bool end, int64_t chains, Sums& sums) {
        int64_t level = chains;
        for (; level <= chains_; level *= 2) {
            if ((chains_ & level) != 0)
                sums.add(level_sums(level), kWidth);
            else if (!end)
                break;
        }
        if (!end) sums.store(level_sums(level), kWidth);
        chains_ += chains;
    }

    // Of a subtree of `chains` chains.
    [[gnu::always_inline]] float* level_sums(int64_t chains) const {
        return memory_ + __builtin_ctzll(static_cast<uint64_t>(chains)) * Sums::kFloats;
    }

    float* const memory_;
    int64_t chains_ = 0;
};

}  // namespace flash_attention::FUSION_ISA
