// Products of few query rows with many keys. Lanes are features: with lanes = query rows, as in strip.h, a single row
// would cost as much as a vector of them. K is read once, in place; 16 bits are widened in registers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/dispatch.h"
#include "kernels/softmax.h"
#include "kernels/tile.h"

namespace flash_attention::FUSION_ISA {

// Keys between two merges. Their weights, added in a chain a lane, are 64 terms for vectors of four.
inline constexpr int64_t kDecodeBlock = 256;
// Floats between the scores of two rows; vectors and tiles reach past the last key.
inline constexpr int64_t kScoreStride = kDecodeBlock + 16;

// Some rows of keys or values, `dim` features of each.
template <class V>
struct RowsOf {
    const typename V::value* data;
    int64_t stride, dim;

    // So many rows as fill a part of L1.
    int64_t rows_ahead() const {
        constexpr int64_t kAhead = 4096 / sizeof(typename V::value);
        return std::clamp<int64_t>(kAhead / std::max<int64_t>(dim, 1), 2, 32);
    }
    // Asks for rows `begin` to `end`, whole and one after the other; asking by the line, in the order in which products
    // read, gained nothing. What lies past the end is not asked for by the processor, and its address is never formed
    // as a pointer.
    [[gnu::always_inline]] void prefetch(int64_t begin, int64_t end) const {
        constexpr int64_t kLine = 64, kSize = sizeof(typename V::value);
        for (int64_t row = begin; row < end; row++)
            for (int64_t at = 0; at < dim * kSize; at += kLine)
                __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(data) +
                                                                 static_cast<uintptr_t>(row * stride * kSize + at)));
    }
};

// Adds up vectors as a binary tree (feature_tree.h tells why), in the order in which they come.
template <class V>
class VectorTree {
  public:
    // Two parts of 768 features are fewer than 2^7 segments of at least 32.
    static constexpr int64_t kFloats = 7 * V::lanes;
    explicit VectorTree(float* memory) : memory_(memory) {}

    [[gnu::always_inline]] void add(typename V::vec x) {
        float* level = memory_;
        for (int bits = count_; (bits & 1) != 0; bits >>= 1, level += V::lanes) x = V::add(V::load(level), x);
        V::store(level, x);
        count_++;
    }
    [[gnu::always_inline]] typename V::vec total() const {
        auto sum = V::zero();
        const float* level = memory_;
        for (int bits = count_; bits != 0; bits >>= 1, level += V::lanes)
            if ((bits & 1) != 0) sum = V::add(V::load(level), sum);
        return sum;
    }

  private:
    float* const memory_;  // of each level the sum of 2^level vectors
    int count_ = 0;
};

// Products of `rows` query rows with `keys` rows of K, features [begin, end). Eight sums, so that one need not wait for
// the other: those of each product are as many as that leaves.
template <class V, int rows, int keys>
class Dots {
  public:
    static constexpr int kSums = 8 / rows / keys;  // of a product: of every kSums-th vector of features

    // sums[row * row_step + key] = vectors whose lanes add up to the product.
    [[gnu::always_inline]] static void multiply(const float* query, int64_t query_stride,
                                                const LeftRows<typename V::value, keys>& key, int64_t begin,
                                                int64_t end, float* sums, int64_t row_step) {
        constexpr int64_t kStep = int64_t{kSums} * V::lanes;
        typename V::vec sum[rows][keys][kSums];
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
            for (int j = 0; j < keys; j++)
#pragma GCC unroll 8
                for (int i = 0; i < kSums; i++) sum[r][j][i] = V::zero();
        int64_t c = begin;
#pragma GCC unroll 1
        for (; c + kStep <= end; c += kStep) {
#pragma GCC unroll 8
            for (int i = 0; i < kSums; i++) step(query, query_stride, key, c + i * V::lanes, i, sum);
        }
        // The last vector may not be whole.
#pragma GCC unroll 8
        for (int i = 0; i < kSums; i++, c += V::lanes) {
            if (c + V::lanes <= end)
                step(query, query_stride, key, c, i, sum);
            else if (c < end)
                step<false>(query, query_stride, key, c, i, sum, end - c);
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
            for (int j = 0; j < keys; j++) V::store(sums + (r * row_step + j) * V::lanes, total(sum[r][j]));
    }

  private:
    template <bool whole = true>
    [[gnu::always_inline]] static void step(const float* query, int64_t query_stride,
                                            const LeftRows<typename V::value, keys>& key, int64_t c, int i,
                                            typename V::vec (&sum)[rows][keys][kSums], int64_t left = 0) {
        typename V::vec x[keys];
#pragma GCC unroll 8
        for (int j = 0; j < keys; j++)
            x[j] = whole ? V::load_values(key.row[j] + c) : V::load_values(key.row[j] + c, left);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            const auto q = V::load(query + r * query_stride + c);
#pragma GCC unroll 8
            for (int j = 0; j < keys; j++) sum[r][j][i] = V::multiply_add(q, x[j], sum[r][j][i]);
        }
    }
    [[gnu::always_inline]] static typename V::vec total(typename V::vec (&sum)[kSums]) {
#pragma GCC unroll 4
        for (int half = kSums / 2; half > 0; half /= 2)
#pragma GCC unroll 4
            for (int i = 0; i < half; i++) sum[i] = V::add(sum[i], sum[i + half]);
        return sum[0];
    }
};

// Query rows as floats, [row][feature]: the parts one behind the other, each padded to whole cache lines.
struct QueryRows {
    float* data;
    int64_t stride;
};
KERNEL_INLINE int64_t padded_floats(int64_t count) {
    return round_up(count, 16);
}

// Memory of a tile of scores.
template <class V>
struct ScoreScratch {
    static constexpr int64_t kSums = V::lanes * V::lanes;
    static constexpr int64_t kFloats = kSums + VectorTree<V>::kFloats;
    float *sums, *tree;
    explicit ScoreScratch(float* memory) : sums(memory), tree(memory + kSums) {}
};

// Scores of `rows` query rows from `query` on with V::lanes / rows keys from the first of `range` on; past the last key
// they are those of the last one.
template <class V, int rows>
[[gnu::always_inline]] inline void score_tile(const FeaturePart (&parts)[2], const float* query, int64_t query_stride,
                                              KeyRange range, const ScoreScratch<V>& scratch, float* scores) {
    constexpr int kKeys = V::lanes / rows, kStep = std::min(kKeys, 2);
    using Product = Dots<V, rows, kStep>;
    constexpr int64_t kSegment = int64_t{V::feature_chain} * Product::kSums * V::lanes;  // a chain of each lane
    VectorTree<V> tree(scratch.tree);
    for (const FeaturePart& part : parts) {
        const auto* rows_of_k = static_cast<const typename V::value*>(part.key.data);
        for (int64_t c = 0; c < part.dim; c += kSegment) {
            for (int j = 0; j < kKeys; j += kStep) {
                const int64_t key = std::min(range.begin + j, range.end - 1);
                const LeftRows<typename V::value, kStep> k(rows_of_k, part.key.stride, 1, key, range.end);
                Product::multiply(query, query_stride, k, c, std::min(part.dim, c + kSegment),
                                  scratch.sums + j * V::lanes, kKeys);
            }
            typename V::vec sum[V::lanes];
#pragma GCC unroll 16
            for (int i = 0; i < V::lanes; i++) sum[i] = V::load(scratch.sums + i * V::lanes);
            tree.add(V::sum_each(sum));
        }
        query += padded_floats(part.dim);
    }
    alignas(64) float all[V::lanes];
    V::store(all, tree.total());
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (int j = 0; j < kKeys; j++) scores[r * kScoreStride + j] = all[r * kKeys + j];
}

// Rows are taken in groups of 1, 2 or 4; QueryRows and scores need room for whole groups.
constexpr int64_t whole_groups(int64_t rows) {
    return rows <= 2 ? rows : (rows + 3) / 4 * 4;
}

template <class V, int group>
void score_groups(const FeaturePart (&parts)[2], const QueryRows& query, int64_t rows, KeyRange keys,
                  const ScoreScratch<V>& scratch, float* scores) {
    constexpr int64_t kKeys = V::lanes / group;
    const auto rows_of = [](const FeaturePart& part) {
        return RowsOf<V>{static_cast<const typename V::value*>(part.key.data), part.key.stride, part.dim};
    };
    const RowsOf<V> k[2] = {rows_of(parts[0]), rows_of(parts[1])};
    const int64_t ahead[2] = {k[0].rows_ahead(), k[1].rows_ahead()};
    for (int64_t key = keys.begin; key < keys.end; key += kKeys) {
        for (int p = 0; p < 2; p++) k[p].prefetch(key + ahead[p], key + ahead[p] + kKeys);
        for (int64_t row = 0; row < rows; row += group)
            score_tile<V, group>(parts, query.data + row * query.stride, query.stride, {key, keys.end}, scratch,
                                 scores + row * kScoreStride + key - keys.begin);
    }
}

// scores[row][key - keys.begin] = products of all query rows with the keys.
template <class V>
void score_keys(const FeaturePart (&parts)[2], const QueryRows& query, int64_t rows, KeyRange keys,
                const ScoreScratch<V>& scratch, float* scores) {
    if (rows == 1)
        score_groups<V, 1>(parts, query, rows, keys, scratch, scores);
    else if (rows == 2)
        score_groups<V, 2>(parts, query, rows, keys, scratch, scores);
    else
        score_groups<V, 4>(parts, query, rows, keys, scratch, scores);
}

}  // namespace flash_attention::FUSION_ISA
