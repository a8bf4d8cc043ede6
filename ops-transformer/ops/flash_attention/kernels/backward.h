// Gradients of some keys of one head of keys and values, and what they add to those of the query rows.
//
//   for each block of query rows of each head that shares the keys:          (the engine's loop)
//       query and dy, transposed and as rows; statistics and delta of each row
//       for each block of keys that the band lets any row see:
//           P^T  = exp(scale K Q^T - max)/sum  lanes = query rows
//           dS^T = P^T * (V dY^T - delta)      lanes = query rows
//           dQ^T += K^T dS^T                   lanes = query rows
//           dV   += P^T dY                     lanes = features
//           dK   += dS^T Q                     lanes = features
//       dQ is written, or added to that of other keys
//   dK, dV are written
//
// Five products, each once: nothing is recomputed, and nothing is added by two threads, so that results are the same
// bits for any number of them. Memory is that of a few blocks, and of the sums for at most kBackwardKeys keys.
//
// Sums over query rows (dk, dv) have three levels: chains of at most 64 rows from zero, groups of 8 blocks of rows, the
// total. Sums over keys (dq): chains of at most 64 keys, the keys in hand, the keys before them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/dispatch.h"
#include "kernels/gradient_panels.h"
#include "kernels/query_panels.h"
#include "kernels/special_products.h"

namespace flash_attention::FUSION_ISA {

// Columns of a row of sums: the features of all parts of keys, then those of values, each padded to whole vectors.
template <class V>
struct GradientColumns {
    int64_t key[2], value, all;
    explicit GradientColumns(const FeatureShape& shape) {
        key[0] = 0;
        key[1] = round_up(shape.dim[0], V::lanes);
        value = key[1] + round_up(shape.dim[1], V::lanes);
        all = value + round_up(shape.value_dim, V::lanes);
    }
};

// Features of dq, padded to whole tiles, of each part.
template <class V>
int64_t dq_features(int64_t dim) {
    return round_up(dim, V::tile_rows);
}
template <class V>
int64_t dq_floats(const FeatureShape& shape) {
    return (dq_features<V>(shape.dim[0]) + dq_features<V>(shape.dim[1])) * kBackwardRows<V>;
}

// The scratch memory, cut into arrays that begin at cache lines.
template <class V>
class BackwardScratch {
  public:
    using element = typename V::element;
    // memory: nullptr to learn only how many bytes it takes.
    BackwardScratch(void* memory, const FeatureShape& shape, int64_t key_count)
        : columns(shape), memory_(static_cast<std::byte*>(memory)) {
        constexpr int64_t kRows = kBackwardRows<V>, kKeys = kGradientKeys + V::tile_rows;
        blocks_added = take<int64_t>(1);
        queries.query_t =
            take<element>((feature_elements<V>(shape.dim[0]) + feature_elements<V>(shape.dim[1])) * kRows);
        queries.dy_t = take<element>(feature_elements<V>(shape.value_dim) * kRows);
        for (int p = 0; p < 2; p++) {
            queries.query_rows[p] = take<element>(kRows / V::depth * padded_row(shape.dim[p]));
            key[p] = take<element>(kGradientKeys * padded_row(feature_elements<V>(shape.dim[p])));
            key_columns[p] = take<element>(kGradientKeys / V::depth * padded_row(shape.dim[p]));
        }
        queries.dy_rows = take<element>(kRows / V::depth * padded_row(shape.value_dim));
        queries.max = take<float>(kRows);
        queries.minus_log_sum = take<float>(kRows);
        queries.delta = take<float>(kRows);
        value = take<element>(kGradientKeys * padded_row(feature_elements<V>(shape.value_dim)));
        panels.weights = nullptr;
        panels.bias = take<float>(Softmax<V>::kColumns * kKeys);
        panels.tree = take<float>(FeatureTree<V, V::tile_vecs>::kFloats);
        panels.seen = take<uint64_t>(kKeys);
        panels.kept = take<uint64_t>(kKeys);
        gradients.weights = take<typename V::left_value>(kRows * kKeys);
        gradients.score_gradients = take<typename V::left_value>(kRows * kKeys);
        if constexpr (V::depth > 1)
            gradients.right = take<element>(kRows * kKeys / V::depth);
        else
            gradients.right = gradients.score_gradients;
        gradients.exact = take<float>(GradientPanels<V>::kExactFloats);
        gradients.rows_of_tile = take<VecRange>(GradientPanels<V>::kTiles);
        dq = take<float>(dq_floats<V>(shape));
        const int64_t sums = round_up(key_count, V::tile_rows) * columns.all;
        group = take<float>(sums);
        total = take<float>(sums);
    }
    int64_t bytes() const { return bytes_; }

    const GradientColumns<V> columns;
    int64_t* blocks_added;  // to `group`
    QueryPanels<V> queries;
    element *key[2], *key_columns[2], *value;  // copies of a block of keys
    Panels<V> panels;
    GradientPanels<V> gradients;
    float* dq;             // [feature of all parts][row]
    float *group, *total;  // [key][column] of dk and dv: of the present group of blocks of query rows, of those before

  private:
    template <class T>
    T* take(int64_t count) {
        T* const taken = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + bytes_);
        bytes_ += round_up(count * static_cast<int64_t>(sizeof(T)), 64);
        return taken;
    }
    std::byte* memory_;
    int64_t bytes_ = 0;
};

template <class V>
GradientKeyBlock<V> load_key_block(const BackwardBlock& block, KeyRange keys, const BackwardScratch<V>& scratch) {
    GradientKeyBlock<V> rows;
    rows.keys = keys;
    const int64_t strips = (block.row_end - block.row_begin + Softmax<V>::kColumns - 1) / Softmax<V>::kColumns;
    for (int p = 0; p < 2; p++) {
        const FeaturePart& part = block.parts[p];
        if (part.dim == 0) continue;
        rows.key[p] = load_keys<V>(part.key, keys, part.dim, strips, scratch.key[p]);
        if (!all_finite<V>(part.key, keys, part.dim)) {
            rows.special_keys = true;
            rows.columns[p] = copy_finite_values<V>(part.key, keys, part.dim, scratch.key_columns[p]);
        } else if constexpr (V::depth == 1) {
            rows.columns[p] = rows.key[p];
        } else {
            rows.columns[p] = load_values<V>(part.key, keys, part.dim, strips, scratch.key_columns[p]);
        }
    }
    rows.value[0] = load_keys<V>(block.value, keys, block.value_dim, strips, scratch.value);
    return rows;
}

// One block of query rows and the keys in hand.
template <class V>
class QueryBlock {
  public:
    using element = typename V::element;
    static constexpr int64_t kRows = kBackwardRows<V>, kColumns = Softmax<V>::kColumns;
    QueryBlock(const BackwardBlock& block, BackwardScratch<V>& scratch) : block_(block), scratch_(scratch) {}

    // The keys of one block. `sums`: of its first key.
    void attend(KeyRange keys, float* sums) const {
        const GradientKeyBlock<V> rows = load_key_block<V>(block_, keys, scratch_);
        fill_gradients<V>(block_, rows, scratch_.queries, scratch_.panels, scratch_.gradients,
                          [&](const GradientPiece<V>& p) { attend_piece(p, sums); });
        const int64_t key_count = keys.end - keys.begin;
        add_over_rows(scratch_.gradients.weights, scratch_.queries.dy_rows, block_.value_dim, key_count,
                      sums + scratch_.columns.value);
        for (int p = 0; p < 2; p++)
            add_over_rows(scratch_.gradients.score_gradients, scratch_.queries.query_rows[p], block_.parts[p].dim,
                          key_count, sums + scratch_.columns.key[p]);
    }

  private:
    void attend_piece(const GradientPiece<V>& p, float* sums) const {
        const int64_t first = p.piece.keys.begin - p.keys.keys.begin, last = first + p.piece.count() - 1;
        const int width = p.piece.vec_end - p.piece.vec_begin, vec = static_cast<int>(p.column() / V::lanes);
        with_constant<V::tile_vecs>(width, [&](auto vecs) { add_over_keys<decltype(vecs)::value>(p); });
        for (int64_t tile = first / V::tile_rows; tile <= last / V::tile_rows; tile++)
            p.to.rows_of_tile[tile].include(vec, vec + width);
        if (p.keys.special_keys || p.queries.special_query || p.queries.special_dy) add_specials(p, sums);
    }

    // dQ^T += K^T dS^T. Not inlined, so that the tile does not share registers with that of the scores.
    template <int vecs>
    [[gnu::noinline]] void add_over_keys(const GradientPiece<V>& p) const {
        const int64_t first = (p.piece.keys.begin - p.keys.keys.begin) / V::depth;
        const int64_t elements = (p.piece.count() + V::depth - 1) / V::depth;
        float* to = scratch_.dq + p.column();
        for (int part = 0; part < 2; part++) {
            const int64_t dim = block_.parts[part].dim;
            const Elements<V>& columns = p.keys.columns[part];
            for (int64_t f = 0; f < dim; f += V::tile_rows) {
                const LeftRows<element, V::tile_rows> left(columns.data + first * columns.stride, 1, columns.stride, f,
                                                           dim);
                Tile<V, V::tile_rows, vecs>::add_product(left, p.to.right + first * kRows + p.column(), kRows, elements,
                                                         to + f * kRows, kRows);
            }
            to += dq_features<V>(dim) * kRows;
        }
    }

    // sums[key][feature] += left[key][row] right[row][feature] over the rows that each tile of keys is seen by.
    void add_over_rows(const typename V::left_value* left, const element* right, int64_t dim, int64_t keys,
                       float* sums) const {
        for_each_pass<V>(dim, [&](const FeaturePass& pass) {
            with_constant<V::tile_vecs>(static_cast<int>(pass.vecs), [&](auto vecs) {
                add_pass<decltype(vecs)::value>(left, right + kRows / V::depth * pass.column, keys, sums + pass.column);
            });
        });
    }
    template <int vecs>
    [[gnu::noinline]] void add_pass(const typename V::left_value* left, const element* right, int64_t keys,
                                    float* sums) const {
        constexpr int64_t kWidth = int64_t{vecs} * V::lanes;
        const int64_t count = block_.row_end - block_.row_begin, stride = scratch_.columns.all;
        for (int64_t key = 0; key < keys; key += V::tile_rows) {
            const VecRange& rows = scratch_.gradients.rows_of_tile[key / V::tile_rows];
            if (rows.empty()) continue;
            const int64_t begin = rows.begin * V::lanes, end = std::min<int64_t>(rows.end * V::lanes, count);
            const LeftRows<element, V::tile_rows> left_rows(reinterpret_cast<const element*>(left + begin),
                                                            kRows / V::depth, 1, key, keys);
            Tile<V, V::tile_rows, vecs>::add_product(left_rows, right + begin / V::depth * kWidth, kWidth,
                                                     (end - begin + V::depth - 1) / V::depth, sums + key * stride,
                                                     stride);
        }
    }

    [[gnu::noinline]] void add_specials(const GradientPiece<V>& p, float* sums) const {
        const auto row_of = [](const Rows& rows, int64_t i) {
            return static_cast<const typename V::value*>(rows.data) + i * rows.stride;
        };
        for_each_seen<V>(p, [&](int64_t key, int64_t row) {
            const float weight = V::one_left(p.to.weights + key * kRows + row);
            const float gradient = V::one_left(p.to.score_gradients + key * kRows + row);
            float* of_key = sums + key * scratch_.columns.all;
            if (p.queries.special_dy)
                add_special<V>(row_of(block_.dy, row), block_.value_dim, weight, of_key + scratch_.columns.value, 1);
            float* dq = scratch_.dq + row;
            for (int part = 0; part < 2; part++) {
                const FeaturePart& features = block_.parts[part];
                if (p.queries.special_query)
                    add_special<V>(row_of(features.query, row), features.dim, gradient,
                                   of_key + scratch_.columns.key[part], 1);
                if (p.keys.special_keys)
                    add_special<V>(row_of(features.key, p.keys.keys.begin + key), features.dim, gradient, dq, kRows);
                dq += dq_features<V>(features.dim) * kRows;
            }
        });
    }

    const BackwardBlock& block_;
    BackwardScratch<V>& scratch_;
};

// dq = scale dQ^T^T.
template <class V>
void write_dq(const BackwardBlock& block, const float* sums) {
    constexpr int64_t kRows = kBackwardRows<V>;
    const auto scale = V::set(block.scale);
    const int64_t count = block.row_end - block.row_begin;
    for (int p = 0; p < 2; p++) {
        const int64_t dim = block.parts[p].dim;
        auto* to = static_cast<typename V::value*>(block.dq[p]);
        for (int64_t i = 0; i < count; i += V::lanes)
            for (int64_t f = 0; f < dim; f += V::lanes) {
                const int64_t width = std::min<int64_t>(V::lanes, dim - f);
                typename V::vec x[V::lanes];
                for (int c = 0; c < V::lanes; c++)
                    x[c] = c < width ? V::mul(scale, V::load(sums + (f + c) * kRows + i)) : V::zero();
                V::transpose(x);
                for (int64_t r = 0; r < std::min<int64_t>(V::lanes, count - i); r++)
                    V::store_values(to + (i + r) * block.dq_stride[p] + f, width, x[r]);
            }
        sums += dq_features<V>(dim) * kRows;
    }
}

template <class V>
void end_row_group(const BackwardKeys& keys, BackwardScratch<V>& scratch) {
    const int64_t count = (keys.keys.end - keys.keys.begin) * scratch.columns.all;
    for (int64_t i = 0; i < count; i += V::lanes) {
        V::store(scratch.total + i, V::add(V::load(scratch.total + i), V::load(scratch.group + i)));
        V::store(scratch.group + i, V::zero());
    }
    *scratch.blocks_added = 0;
}

template <class V>
BackwardScratch<V> backward_scratch(const BackwardKeys& keys, void* memory) {
    return BackwardScratch<V>(memory, keys.shape, keys.keys.end - keys.keys.begin);
}

template <class V>
void begin_backward(const BackwardKeys& keys, void* memory) {
    const BackwardScratch<V> scratch = backward_scratch<V>(keys, memory);
    const int64_t count = round_up(keys.keys.end - keys.keys.begin, V::tile_rows) * scratch.columns.all;
    *scratch.blocks_added = 0;
    std::fill_n(scratch.group, count, 0.0F);
    std::fill_n(scratch.total, count, 0.0F);
}

template <class V>
void add_backward(const BackwardBlock& block, const BackwardKeys& keys, void* memory) {
    constexpr int64_t kGroup = 8;
    BackwardScratch<V> scratch = backward_scratch<V>(keys, memory);
    const KeyRange visible = any_visible(block.band, block.row_begin, block.row_end, block.kv_len);
    const KeyRange all{std::max(visible.begin, keys.keys.begin), std::min(visible.end, keys.keys.end)};
    const int64_t dq_count = dq_floats<V>(keys.shape);
    std::fill_n(scratch.dq, dq_count, 0.0F);
    if (!all.empty()) {
        load_query_panels<V>(block, scratch.queries);
        const QueryBlock<V> queries(block, scratch);
        const int64_t before = (all.begin - keys.keys.begin) / kGradientKeys * kGradientKeys;
        for (int64_t begin = keys.keys.begin + before; begin < all.end; begin += kGradientKeys) {
            // Whole blocks, whatever is seen of them: tiles must not reach into the sums of other keys.
            queries.attend({begin, std::min(begin + kGradientKeys, keys.keys.end)},
                           scratch.group + (begin - keys.keys.begin) * scratch.columns.all);
        }
        if (++*scratch.blocks_added == kGroup) end_row_group<V>(keys, scratch);
    }
    if (block.dq_sum == nullptr) return write_dq<V>(block, scratch.dq);
    for (int64_t i = 0; i < dq_count; i += V::lanes) {
        const auto x = V::load(scratch.dq + i);
        V::store(block.dq_sum + i, block.dq_started ? V::add(V::load(block.dq_sum + i), x) : x);
    }
}

template <class V>
void end_backward(const BackwardKeys& keys, void* memory) {
    BackwardScratch<V> scratch = backward_scratch<V>(keys, memory);
    end_row_group<V>(keys, scratch);
    const auto write = [&](void* base, int64_t stride, int64_t dim, int64_t column, float factor) {
        for (int64_t key = keys.keys.begin; key < keys.keys.end; key++) {
            auto* to = static_cast<typename V::value*>(base) + key * stride;
            const float* from = scratch.total + (key - keys.keys.begin) * scratch.columns.all + column;
            for (int64_t f = 0; f < dim; f += V::lanes)
                V::store_values(to + f, std::min<int64_t>(V::lanes, dim - f),
                                V::mul(V::load(from + f), V::set(factor)));
        }
    };
    for (int p = 0; p < 2; p++)
        write(keys.dk[p], keys.dk_stride[p], keys.shape.dim[p], scratch.columns.key[p], keys.scale);
    write(keys.dv, keys.dv_stride, keys.shape.value_dim, scratch.columns.value, 1.0F);
}

template <class V>
int64_t backward_scratch_bytes(const FeatureShape& shape, int64_t keys) {
    return BackwardScratch<V>(nullptr, shape, keys).bytes();
}

}  // namespace flash_attention::FUSION_ISA
