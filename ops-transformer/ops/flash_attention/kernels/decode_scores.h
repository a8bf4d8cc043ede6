// Products of few query rows with many keys. Lanes are features: with lanes = query rows, as in strip.h, a single row
// would cost as much as a vector of them. K is read once, in place; 16 bits are widened in registers, or, when several
// groups of query rows take a piece of keys in turn, once for all of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

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

    RowsOf from(int64_t row) const { return {data + row * stride, stride, dim}; }
};

// Rows that are read later, of which a part is asked for at each of many steps: memory works best at an even pace and
// in the order of addresses. (In the order in which products read it is slower than without.)
class LinesAhead {
  public:
    // Of `count` rows from row `first` on, in `steps` steps. What lies past the end of an operand is not asked for by
    // the processor, and its address is never formed as a pointer.
    template <class V>
    LinesAhead(const RowsOf<V>& rows, int64_t first, int64_t count, int64_t steps)
        : width_(rows.dim * static_cast<int64_t>(sizeof(typename V::value))),
          stride_(rows.stride * static_cast<int64_t>(sizeof(typename V::value))),
          row_(reinterpret_cast<uintptr_t>(rows.data) + static_cast<uintptr_t>(first * stride_)),
          left_((width_ + kPart - 1) / kPart * count),
          of_step_((left_ + steps - 1) / steps) {}

    [[gnu::always_inline]] void ask() {
        for (int64_t i = 0; i < of_step_ && left_ > 0; i++, left_--) {
            if (width_ - at_ >= kPart) {
#pragma GCC unroll 4
                for (int64_t line = 0; line < kPart; line += kLine) prefetch(at_ + line);
            } else {
                for (int64_t at = at_; at < width_; at += kLine) prefetch(at);
            }
            at_ += kPart;
            if (at_ >= width_) {
                at_ = 0;
                row_ += static_cast<uintptr_t>(stride_);
            }
        }
    }

  private:
    static constexpr int64_t kLine = 64, kPart = 4 * kLine;
    [[gnu::always_inline]] void prefetch(int64_t at) const {
        __builtin_prefetch(reinterpret_cast<const void*>(row_ + static_cast<uintptr_t>(at)));
    }

    int64_t width_, stride_;  // of a row, in bytes
    uintptr_t row_;
    int64_t at_ = 0;          // in the row
    int64_t left_, of_step_;  // parts of rows
};

// Floats of a row in scratch memory: whole cache lines.
KERNEL_INLINE int64_t padded_floats(int64_t count) {
    return round_up(count, 16);
}

// Keys of so many floats that are in hand at a time: they stay in L1 from one group of query rows to the next.
inline constexpr int64_t kMostPiece = 32;
constexpr int64_t piece_rows(int64_t floats) {
    return std::clamp<int64_t>(2048 / std::max<int64_t>(floats, 1), 16, kMostPiece) & -16;
}

// The same rows as floats: `count` of them are widened into `memory` if they are not floats already.
template <class V>
RowsOf<typename V::Floats> as_floats(const RowsOf<V>& rows, int64_t count, float* memory) {
    if constexpr (std::is_same_v<typename V::value, float>) {
        return {rows.data, rows.stride, rows.dim};
    } else {
        const int64_t stride = padded_floats(rows.dim);
        const int64_t part = rows.dim % V::lanes, whole = rows.dim - part;
        for (int64_t c = 0; c < whole; c += 4 * V::lanes) {
            with_constant<4>(static_cast<int>((whole - c) / V::lanes), [&](auto most) {  // four or what is left
                const auto* from = rows.data + c;
                float* to = memory + c;
                for (int64_t r = 0; r < count; r++, from += rows.stride, to += stride)
#pragma GCC unroll 4
                    for (int v = 0; v < decltype(most)::value; v++)
                        V::store(to + v * V::lanes, V::load_values(from + v * V::lanes));
            });
        }
        if (part != 0)
            for (int64_t r = 0; r < count; r++)
                V::store(memory + r * stride + whole, V::load_values(rows.data + r * rows.stride + whole, part));
        return {memory, stride, rows.dim};
    }
}

// x, loaded once: else compilers make the load an operand of every instruction that takes x, and it is loads that the
// core runs out of.
template <class Vec>
[[gnu::always_inline]] inline Vec in_register(Vec x) {
#if defined(__x86_64__) && !defined(FUSION_EMULATE_AVX512)
    asm("" : "+v"(x));
#elif defined(__aarch64__)
    asm("" : "+w"(x));
#endif
    return x;
}

// Products of `rows` query rows with `keys` rows of K, features [begin, end). At least eight sums, so that one need not
// wait for the other: those of each product are as many as that leaves.
template <class V, int rows, int keys>
class Dots {
  public:
    static constexpr int kSums = std::max(8 / rows / keys, 1);  // of a product: of every kSums-th vector of features

    // sums[row * row_step + key] = vectors whose lanes add up to the product.
    [[gnu::always_inline]] static void multiply(const float* query, int64_t query_stride,
                                                const LeftRows<typename V::value, keys>& key, int64_t begin,
                                                int64_t end, typename V::vec* sums, int row_step) {
        typename V::vec sum[rows][keys][kSums];
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
            for (int j = 0; j < keys; j++)
#pragma GCC unroll 8
                for (int i = 0; i < kSums; i++) sum[r][j][i] = V::zero();
        int64_t c = begin;
#pragma GCC unroll 1
        for (; c + 4 * V::lanes <= end; c += 4 * V::lanes) {
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) step(query, query_stride, key, c + i * V::lanes, i % kSums, sum);
        }
        if (__builtin_expect(c < end, 0)) {
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++, c += V::lanes) {  // the last vector may not be whole
                if (c + V::lanes <= end)
                    step(query, query_stride, key, c, i % kSums, sum);
                else if (c < end)
                    step<false>(query, query_stride, key, c, i % kSums, sum, end - c);
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
            for (int j = 0; j < keys; j++) sums[r * row_step + j] = total(sum[r][j]);
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
            const auto q = in_register(V::load(query + r * query_stride + c));
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
    const float* row(int64_t row) const { return data + row * stride; }
};

// Keys that are multiplied with some query rows, the parts of their features.
template <class V>
struct KeyRows {
    RowsOf<V> parts[2];
    int64_t count;

    KeyRows piece(int64_t begin, int64_t n) const { return {{parts[0].from(begin), parts[1].from(begin)}, n}; }
};

// Floats of the sums in ScoreTiles: two parts of 768 features are fewer than 2^7 segments of at least 32.
inline constexpr int64_t kScoreTreeFloats = 7 * kMostPiece * 4;

// Scores of `rows` query rows with a piece of keys, in tiles of V::lanes sums. Sums of segments of features are added
// up as a binary tree (feature_tree.h tells why), in the order in which they come; most heads have one segment.
template <class V, int rows>
class ScoreTiles {
  public:
    static constexpr int kKeys = V::lanes / rows;  // of a tile

    ScoreTiles(float* memory, const KeyRows<V>& k) : memory_(memory), k_(k) {
        for (const RowsOf<V>& part : k.parts) left_ += (part.dim + kSegment - 1) / kSegment;
    }

    // Adds the products over one part of the features; with the last one scores are complete. Past the last key they
    // are those of the last one. lines: of what is read later.
    void add(const RowsOf<V>& part, const float* query, int64_t query_stride, LinesAhead& lines, float* scores) {
        LinesAhead ahead = lines;  // in registers
        const int64_t count = k_.count, dim = part.dim, stride = part.stride;
        for (int64_t c = 0; c < dim; c += kSegment) {
            const int64_t end = std::min(dim, c + kSegment);
            const auto* k = part.data;
            const int segments = segments_++;
            const bool last = --left_ == 0, joins = segments > 0 || !last;
            for (int64_t key = 0; key < count; key += kKeys) {
                if (c == 0) ahead.ask();
                auto x = products({k, stride, dim}, count - key, query, query_stride, c, end);
                k += kKeys * stride;
                if (__builtin_expect(joins, 0)) {
                    float* level = memory_ + key / kKeys * V::lanes;
                    int bits = segments;
                    for (; (bits & 1) != 0; bits >>= 1, level += kLevel) x = V::add(V::load(level), x);
                    if (!last) {
                        V::store(level, x);
                        continue;
                    }
                    for (; bits != 0; bits >>= 1, level += kLevel)
                        if ((bits & 1) != 0) x = V::add(V::load(level), x);
                }
                alignas(64) float all[V::lanes];
                V::store(all, x);
#pragma GCC unroll 4
                for (int r = 0; r < rows; r++)
                    std::memcpy(scores + r * kScoreStride + key, all + r * kKeys, kKeys * sizeof(float));
            }
        }
        lines = ahead;
    }

  private:
    // All sums of four rows stay in registers; fewer rows take a few keys after the other.
    static constexpr int kStep = rows == 4 ? kKeys : std::min(kKeys, 2);
    using Product = Dots<V, rows, kStep>;
    static constexpr int64_t kSegment = int64_t{V::feature_chain} * Product::kSums * V::lanes;  // a chain of each lane
    static constexpr int64_t kLevel = kMostPiece * rows;

    // [row][key] of a tile, features [c, end).
    [[gnu::always_inline]] static typename V::vec products(const RowsOf<V>& k, int64_t keys, const float* query,
                                                           int64_t query_stride, int64_t c, int64_t end) {
        typename V::vec sum[V::lanes];
        const auto multiply = [&](int j) __attribute__((always_inline)) {
            const int64_t first = kKeys == kStep ? 0 : std::min<int64_t>(j, keys - 1);
            const LeftRows<typename V::value, kStep> left(k.data, k.stride, 1, first, keys);
            Product::multiply(query, query_stride, left, c, end, sum + j, kKeys);
        };
        if constexpr (kKeys == kStep) {
            multiply(0);
        } else {
#pragma GCC unroll 1
            for (int j = 0; j < kKeys; j += kStep) multiply(j);
        }
        return V::sum_each(sum);
    }

    float* const memory_;  // [level][tile]: the sums of 2^level segments
    const KeyRows<V>& k_;
    int segments_ = 0;
    int64_t left_ = 0;  // of the segments
};

// Rows are taken in groups of 1, 2 or 4: four rows load two operands for three multiply-adds, with two keys at a time.
// QueryRows and scores need room for whole groups.
constexpr int64_t whole_groups(int64_t rows) {
    return rows <= 2 ? rows : (rows + 3) / 4 * 4;
}

// Scores of a piece of keys for all rows. stored: the keys where they lie, of which as many are asked for from key
// `ahead` on.
template <class V, int group, class Stored>
void score_groups(const KeyRows<V>& k, const QueryRows& query, int64_t rows, const KeyRows<Stored>& stored,
                  int64_t ahead, float* tree_memory, float* scores) {
    constexpr int kKeys = ScoreTiles<V, group>::kKeys;
    const int64_t steps = (rows + group - 1) / group * ((k.count + kKeys - 1) / kKeys);
    LinesAhead lines[2] = {{stored.parts[0], ahead, k.count, steps}, {stored.parts[1], ahead, k.count, steps}};
    for (int64_t row = 0; row < rows; row += group) {
        ScoreTiles<V, group> tiles(tree_memory, k);
        const float* q = query.row(row);
        for (int p = 0; p < 2; p++) {
            tiles.add(k.parts[p], q, query.stride, lines[p], scores + row * kScoreStride);
            q += padded_floats(k.parts[p].dim);
        }
    }
}

// Calls f with the rows of a group.
template <class F>
void with_group(int64_t rows, F&& f) {
    if (rows == 1)
        f(std::integral_constant<int, 1>{});
    else if (rows == 2)
        f(std::integral_constant<int, 2>{});
    else
        f(std::integral_constant<int, 4>{});
}

// scores[row][key] = products of all query rows with the keys. tree_memory: kScoreTreeFloats; widened: room for a piece
// of keys as floats.
template <class V>
void score_keys(const KeyRows<V>& k, const QueryRows& query, int64_t rows, float* tree_memory, float* widened,
                float* scores) {
    using Floats = typename V::Floats;
    const int64_t ahead = piece_rows(query.stride);
    const int64_t most = rows <= 4 ? piece_rows(query.stride / 2) : ahead;  // a single group does not come back to them
    for (int64_t key = 0; key < k.count; key += most) {
        const KeyRows<V> piece = k.piece(key, std::min(most, k.count - key));
        if (rows <= 4) {
            with_group(rows, [&](auto group) {
                score_groups<V, decltype(group)::value>(piece, query, rows, piece, ahead, tree_memory, scores + key);
            });
        } else {
            const RowsOf<Floats> first = as_floats(piece.parts[0], piece.count, widened);
            const RowsOf<Floats> second =
                as_floats(piece.parts[1], piece.count, widened + most * padded_floats(first.dim));
            score_groups<Floats, 4>({{first, second}, piece.count}, query, rows, piece, most, tree_memory,
                                    scores + key);
        }
    }
}

}  // namespace flash_attention::FUSION_ISA
