// Forward attention of few query rows against many keys ("decode"): all rows that share a head of keys and values at
// once, so that keys and values, whose reading is what takes the time, are read once.
//
//   for each chunk of keys, perhaps in different threads:
//       for each group of blocks, for each block of keys:
//           scores = Q K^T                 lanes = features
//           bias, hidden pairs, softmax    lanes = keys
//           out = P V                      lanes = features
//           merge into the group, the group into the chunk
//   merge the chunks in order; out / sum
//
// Every block starts from zero with its own maximum, and joins what came before it by the same step at all levels. What
// is cut where does not depend on what is hidden.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "engine/problem.h"
#include "kernels/decode_scores.h"
#include "kernels/decode_softmax.h"
#include "kernels/decode_values.h"
#include "kernels/dispatch.h"
#include "kernels/merge.h"
#include "kernels/score_tile.h"
#include "kernels/softmax.h"

namespace flash_attention::FUSION_ISA {

static_assert(kDecodeChunk % kDecodeBlock == 0);

// Partial results of all rows in the caller's memory, see decode_row_floats.
class PartialRows {
  public:
    PartialRows(float* memory, int64_t value_dim) : memory_(memory), stride_(decode_row_floats(value_dim)) {}
    SoftmaxPart& part(int64_t row) const { return *reinterpret_cast<SoftmaxPart*>(memory_ + row * stride_); }
    float* out(int64_t row) const { return memory_ + row * stride_ + kDecodeRowHead; }
    int64_t stride() const { return stride_; }

    void clear(int64_t rows) const {
        std::fill_n(memory_, rows * stride_, 0.0F);
        for (int64_t row = 0; row < rows; row++) part(row).max = -kInfinity;
    }

  private:
    float* memory_;
    int64_t stride_;
};

template <class V>
void merge_rows(const PartialRows& total, const PartialRows& more, int64_t rows, float exponent_scale) {
    for (int64_t row = 0; row < rows; row++) {
        const MergedParts merged = merge_parts(total.part(row), more.part(row), exponent_scale);
        total.part(row) = merged.both;
        merge_outputs<V>(merged, total.out(row), more.out(row), total.stride() - kDecodeRowHead);
    }
}

// The scratch memory of one chunk, cut into arrays that begin at cache lines.
struct DecodeScratch {
    // memory: nullptr to learn only how many bytes it takes.
    DecodeScratch(void* memory, const FeatureShape& shape)
        : query{take(memory, kDecodeRows * query_stride(shape)), query_stride(shape)},
          scores(take(memory, kDecodeRows * kScoreStride)),
          tree(take(memory, kScoreTreeFloats)),
          widened(take(memory, piece_rows(query_stride(shape)) * query_stride(shape))),
          sums(take(memory, kDecodeRows * decode_row_floats(shape.value_dim))),
          block(take(memory, kDecodeRows * decode_row_floats(shape.value_dim)), shape.value_dim),
          group(take(memory, kDecodeRows * decode_row_floats(shape.value_dim)), shape.value_dim),
          chunk(take(memory, kDecodeRows * decode_row_floats(shape.value_dim)), shape.value_dim) {}

    static int64_t query_stride(const FeatureShape& shape) {
        return padded_floats(shape.dim[0]) + padded_floats(shape.dim[1]);
    }

    int64_t bytes = 0;
    QueryRows query;
    float* scores;   // [row][key of the block], later weights
    float* tree;     // of score_keys
    float* widened;  // a piece of keys
    float* sums;     // of multiply_values
    PartialRows block, group;
    PartialRows chunk;  // for a caller that has no place for it

  private:
    float* take(void* memory, int64_t floats) {
        auto* taken = memory == nullptr ? nullptr : reinterpret_cast<float*>(static_cast<std::byte*>(memory) + bytes);
        bytes += round_up(floats * static_cast<int64_t>(sizeof(float)), 64);
        return taken;
    }
};

template <class V>
class DecodeChunk {
  public:
    DecodeChunk(const DecodeRows& rows, const DecodeScratch& scratch)
        : rows_(rows), first_(rows.heads[0]), scratch_(scratch), exponent_scale_(score_scale(first_).exponent) {}

    void attend(KeyRange keys, const PartialRows& chunk) const {
        chunk.clear(rows_.count());
        if (!keys.empty()) load_queries();
        for (int64_t begin = keys.begin / kDecodeChunk * kDecodeChunk; begin < keys.end; begin += kDecodeChunk) {
            attend_group({std::max(begin, keys.begin), std::min(begin + kDecodeChunk, keys.end)});
            merge_rows<V>(chunk, scratch_.group, rows_.count(), exponent_scale_);
        }
    }

  private:
    void load_queries() const {
        // A positive scale keeps the order of the scores, so the sign goes into the query, exactly.
        const auto sign = V::set(sign_of(first_.scale));
        for (int64_t row = 0; row < whole_groups(rows_.count()); row++) {
            float* to = scratch_.query.data + row * scratch_.query.stride;
            std::fill_n(to, scratch_.query.stride, 0.0F);
            if (row >= rows_.count()) continue;
            for (const FeaturePart& part : rows_.head(row).parts) {
                const auto* from =
                    static_cast<const typename V::value*>(part.query.data) + rows_.row_in_head(row) * part.query.stride;
                for (int64_t c = 0; c < part.dim; c += V::lanes)
                    V::store(to + c, V::mul(V::load_values(from + c, std::min<int64_t>(V::lanes, part.dim - c)), sign));
                to += padded_floats(part.dim);
            }
        }
    }

    void attend_group(KeyRange keys) const {
        scratch_.group.clear(rows_.count());
        for (int64_t begin = keys.begin / kDecodeBlock * kDecodeBlock; begin < keys.end; begin += kDecodeBlock) {
            attend_block(begin, {std::max(begin, keys.begin), std::min(begin + kDecodeBlock, keys.end)});
            merge_rows<V>(scratch_.group, scratch_.block, rows_.count(), exponent_scale_);
        }
    }

    // The block of keys that begins at key `begin`, of which `keys` are in hand.
    void attend_block(int64_t begin, KeyRange keys) const {
        const int64_t count = rows_.count();
        const KeyRange in_block{keys.begin - begin, keys.end - begin};
        const auto from_first = [&](const FeaturePart& part) {
            const auto* data = static_cast<const typename V::value*>(part.key.data);
            return RowsOf<V>{data, part.key.stride, part.dim}.from(keys.begin);
        };
        score_keys<V>({{from_first(first_.parts[0]), from_first(first_.parts[1])}, keys.end - keys.begin},
                      scratch_.query, count, scratch_.tree, scratch_.widened, scratch_.scores + in_block.begin);
        KeyBits seen[kDecodeRows];
        bool hidden[kDecodeRows];
        for (int64_t row = 0; row < count; row++)
            hidden[row] = weigh_row<V>({rows_.head(row), rows_.row_in_head(row), begin, keys}, exponent_scale_,
                                       scores(row), seen[row], scratch_.block.part(row));

        const RowsOf<V> values{static_cast<const typename V::value*>(first_.value.data) + begin * first_.value.stride,
                               first_.value.stride, first_.value_dim};
        multiply_values<V>(scratch_.scores, count, values, in_block, scratch_.sums, scratch_.block.out(0),
                           scratch_.block.stride());
        for (int64_t row = 0; row < count; row++)
            if (hidden[row] && !is_finite<V>(scratch_.block.out(row), values.dim))
                multiply_seen_values<V>(scores(row), seen[row], values, in_block, scratch_.block.out(row));
    }

    float* scores(int64_t row) const { return scratch_.scores + row * kScoreStride; }

    const DecodeRows& rows_;
    const ForwardBlock& first_;  // of what all heads share: keys, values, sizes, scale
    const DecodeScratch& scratch_;
    const float exponent_scale_;
};

template <class V>
void write_decoded_row(const ForwardBlock& block, int64_t row, const RowResult& result, const float* out) {
    std::fill_n(block.max + row * block.stats_stride, kStatsCopies, result.max);
    std::fill_n(block.sum + row * block.stats_stride, kStatsCopies, result.sum);
    auto* to = static_cast<typename V::value*>(block.out) + row * block.out_stride;
    for (int64_t c = 0; c < block.value_dim; c += V::lanes)
        V::store_values(to + c, std::min<int64_t>(V::lanes, block.value_dim - c),
                        result.empty ? V::zero() : V::div(V::load(out + c), V::set(result.divisor)));
}

template <class V>
void write_decoded_rows(const DecodeRows& rows, const PartialRows& total) {
    const ScoreScale scale = score_scale(rows.heads[0]);
    for (int64_t row = 0; row < rows.count(); row++) {
        const ForwardBlock& block = rows.head(row);
        const SoftmaxPart& part = total.part(row);
        const float keep_prob = block.drops() ? block.keep_prob : 1.0F;
        write_decoded_row<V>(block, rows.row_in_head(row),
                             row_result(part.sum, part.max, part.max, scale, block.sink, keep_prob), total.out(row));
    }
}

// DecodeKernel.
template <class V>
void decode(const DecodeRows& rows, KeyRange keys, float* partial, void* memory) {
    const int64_t value_dim = rows.heads[0].value_dim;
    const DecodeScratch scratch(memory, {{rows.heads[0].parts[0].dim, rows.heads[0].parts[1].dim}, value_dim});
    const PartialRows chunk = partial == nullptr ? scratch.chunk : PartialRows(partial, value_dim);
    DecodeChunk<V>(rows, scratch).attend(keys, chunk);
    if (partial == nullptr) write_decoded_rows<V>(rows, chunk);
}

// FinishDecodeKernel.
template <class V>
void finish_decode(const DecodeRows& rows, float* partials, int64_t chunks, int64_t chunk_floats) {
    const int64_t value_dim = rows.heads[0].value_dim;
    const float exponent_scale = score_scale(rows.heads[0]).exponent;
    const PartialRows total(partials, value_dim);
    for (int64_t chunk = 1; chunk < chunks; chunk++)
        merge_rows<V>(total, {partials + chunk * chunk_floats, value_dim}, rows.count(), exponent_scale);
    write_decoded_rows<V>(rows, total);
}

}  // namespace flash_attention::FUSION_ISA
