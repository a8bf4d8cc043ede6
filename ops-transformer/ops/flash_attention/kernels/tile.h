// The matrix product that all others are made of, in the transposed orientation of the forward kernel: columns are
// query rows of the block, so one vector holds the same entry for kLanes query rows, and softmax needs no horizontal
// operation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/vec_portable.h"

namespace flash_attention::portable {

// Query rows of a block: the columns of every tile. A block shorter than this computes only the vectors it needs.
inline constexpr int64_t kQueryBlock = 64;

// No sum is a longer chain of additions than this. Rounding errors of one chain grow with its length, so longer sums
// are added up in levels: chains, groups of chains, total. One serial fp32 chain over 32768 keys can be off by 7e-4.
inline constexpr int64_t kChain = 64;

// The left operand: element (row, k) lies at data[row * row_stride + k * k_stride].
struct Left {
    const float* data;
    int64_t row_stride, k_stride;
};

// Four rows and two vectors: 8 accumulators, 2 vectors of b and the broadcast of a fit the 16 registers of SSE2.
inline constexpr int64_t kTileRows = 4;
inline constexpr int64_t kTileVecs = 2;

template <int64_t kRows>
inline void tile(Left a, const float* b, int64_t depth, bool add, float* out) {
    Vec acc[kRows][kTileVecs] = {};
    for (int64_t k = 0; k < depth; k++) {
        Vec row[kTileVecs];
        for (int64_t v = 0; v < kTileVecs; v++) row[v] = load(b + k * kQueryBlock + v * kLanes);
        for (int64_t r = 0; r < kRows; r++) {
            const Vec left = set(a.data[r * a.row_stride + k * a.k_stride]);
            for (int64_t v = 0; v < kTileVecs; v++) acc[r][v] += left * row[v];
        }
    }
    for (int64_t r = 0; r < kRows; r++) {
        for (int64_t v = 0; v < kTileVecs; v++) {
            float* to = out + r * kQueryBlock + v * kLanes;
            store(to, add ? load(to) + acc[r][v] : acc[r][v]);
        }
    }
}

// out[row][column] (+)= sum over k < depth of a(row, k) * b[k][column], the sum formed from zero. depth <= kChain.
// Columns run to `columns` rounded up to whole tiles; b and out have kQueryBlock columns.
inline void multiply(Left a, const float* b, int64_t rows, int64_t depth, int64_t columns, bool add, float* out) {
    for (int64_t c = 0; c < columns; c += kTileVecs * kLanes) {
        int64_t r = 0;
        for (; r + kTileRows <= rows; r += kTileRows) {
            const Left part{a.data + r * a.row_stride, a.row_stride, a.k_stride};
            tile<kTileRows>(part, b + c, depth, add, out + r * kQueryBlock + c);
        }
        for (; r < rows; r++) {
            const Left part{a.data + r * a.row_stride, a.row_stride, a.k_stride};
            tile<1>(part, b + c, depth, add, out + r * kQueryBlock + c);
        }
    }
}

// Sums of products of features go into exponents, and equal products round alike, so that their errors would add up
// along a chain. So chains are short, and they are added up as a binary tree: equal sums double without any rounding.
inline constexpr int64_t kFeatureChain = 4;

template <int64_t kRows>
class TileTree {
  public:
    using Sums = Vec[kRows][kTileVecs];

    // Joins the sums of the same number of chains as long as there are some, as a counter in binary carries.
    void add(Sums& sums) {
        int64_t level = 0;
        for (; (chains_ >> level & 1) != 0; level++) add_level(level, sums);
        std::memcpy(levels_[level], sums, sizeof(Sums));
        chains_++;
    }

    void total(Sums& sums) const {
        std::memset(sums, 0, sizeof(Sums));
        for (int64_t level = 0; chains_ >> level != 0; level++)
            if ((chains_ >> level & 1) != 0) add_level(level, sums);
    }

  private:
    void add_level(int64_t level, Sums& sums) const {
        for (int64_t r = 0; r < kRows; r++)
            for (int64_t v = 0; v < kTileVecs; v++) sums[r][v] += levels_[level][r][v];
    }

    static constexpr int64_t kLevels = 10;  // 2 * 768 features are fewer than 2^10 chains
    Sums levels_[kLevels];
    int64_t chains_ = 0;
};

// The left operand of one part of the features: element (row, d) lies at data[row * stride + d].
struct FeatureRows {
    const float* data;
    int64_t stride, dim;
};

// out[row][column] = sum over the features of all parts of key(row, d) * query[d][column] for one tile.
template <int64_t kRows>
inline void feature_tile(const FeatureRows (&parts)[2], int64_t row, const float* query, float* out) {
    TileTree<kRows> tree;
    for (const FeatureRows& part : parts) {
        const float* const left = part.data + row * part.stride;
        for (int64_t begin = 0; begin < part.dim; begin += kFeatureChain) {
            Vec acc[kRows][kTileVecs] = {};
            for (int64_t d = begin; d < std::min(begin + kFeatureChain, part.dim); d++, query += kQueryBlock) {
                Vec right[kTileVecs];
                for (int64_t v = 0; v < kTileVecs; v++) right[v] = load(query + v * kLanes);
                for (int64_t r = 0; r < kRows; r++)
                    for (int64_t v = 0; v < kTileVecs; v++) acc[r][v] += set(left[r * part.stride + d]) * right[v];
            }
            tree.add(acc);
        }
    }
    Vec sums[kRows][kTileVecs];
    tree.total(sums);
    for (int64_t r = 0; r < kRows; r++)
        for (int64_t v = 0; v < kTileVecs; v++) store(out + r * kQueryBlock + v * kLanes, sums[r][v]);
}

// The same for `rows` rows and all columns.
inline void multiply_features(const FeatureRows (&parts)[2], int64_t rows, const float* query, int64_t columns,
                              float* out) {
    for (int64_t c = 0; c < columns; c += kTileVecs * kLanes) {
        int64_t r = 0;
        for (; r + kTileRows <= rows; r += kTileRows)
            feature_tile<kTileRows>(parts, r, query + c, out + r * kQueryBlock + c);
        for (; r < rows; r++) feature_tile<1>(parts, r, query + c, out + r * kQueryBlock + c);
    }
}

// out += in for `rows` x kQueryBlock floats, columns as above.
inline void add_to(const float* in, int64_t rows, int64_t columns, float* out) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c += kLanes) {
            float* to = out + r * kQueryBlock + c;
            store(to, load(to) + load(in + r * kQueryBlock + c));
        }
}

inline void scale_columns(const float* factor, int64_t rows, int64_t columns, float* tile) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c += kLanes) {
            float* to = tile + r * kQueryBlock + c;
            store(to, load(to) * load(factor + c));
        }
}

}  // namespace flash_attention::portable
