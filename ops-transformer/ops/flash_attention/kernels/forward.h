// Forward attention of one block of query rows of one head, with any lengths and head dimensions.
//
//   for each block of keys that the band lets any row see:
//       K, V as elements: where they lie, or widened or packed once for all strips
//       for each strip of rows:
//           S^T = K Q^T                    [key][row], in registers; a sum over all parts of the features
//           add the bias, hide pairs, online softmax
//           O^T += V^T P^T                 [feature][row]
//   O = O^T / sum
//
// Lanes are query rows: softmax needs no horizontal operation, K is read as it lies, only Q is transposed. Blocks
// outside the band are never visited; only pieces that the band's edge or a modifier touches look at single pairs.
// Memory is that of a few tiles, whatever the lengths.
//
// Sums over keys have three levels: chains of at most 64 keys from zero, groups of 8 blocks, the total. Sums over
// features are binary trees (feature_tree.h).
//
// A hidden pair has weight exactly 0. That is not enough against a NaN or infinity in a hidden value row, since 0 * NaN
// is NaN: in blocks with hidden pairs such values are taken out of the product and added to the rows that see them.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <new>

#include "engine/problem.h"
#include "kernels/dispatch.h"
#include "kernels/strip.h"
#include "kernels/transpose_rows.h"

namespace flash_attention::FUSION_ISA {

inline constexpr int64_t kKeyGroup = 8 * kKeyBlock;

// Strips of a query block: each block of keys, once loaded, serves that many.
inline constexpr int64_t kStrips = 8;
template <class V>
inline constexpr int64_t kQueryBlock = kStrips * Softmax<V>::kColumns;

// The scratch memory of one block, cut into arrays that begin at cache lines.
template <class V>
class Scratch {
  public:
    using element = typename V::element;
    static constexpr int64_t kColumns = Softmax<V>::kColumns;

    // memory: nullptr to learn only how many bytes it takes.
    Scratch(void* memory, const FeatureShape& shape) : memory_(static_cast<std::byte*>(memory)) {
        constexpr int64_t kPanelKeys = kKeyBlock + V::tile_rows;  // tiles reach past the last key
        const int64_t features = feature_elements<V>(shape.dim[0]) + feature_elements<V>(shape.dim[1]);
        query_size_ = kColumns * features;
        sums_size_ = kColumns * round_up(shape.value_dim, V::tile_rows);
        strips_ = take<Strip<V>>(kStrips);
        queries_ = take<element>(kStrips * query_size_);
        sums_ = take<float>(kStrips * 2 * sums_size_);
        panels.weights = take<element>(kColumns * kPanelKeys / V::depth);
        panels.bias = take<float>(kColumns * kPanelKeys);
        panels.tree = take<float>(FeatureTree<V, V::tile_vecs>::kFloats);
        panels.seen = take<uint64_t>(kPanelKeys);
        panels.kept = take<uint64_t>(kPanelKeys);
        for (int p = 0; p < 2; p++) key[p] = take<element>(kKeyBlock * padded_row(feature_elements<V>(shape.dim[p])));
        value = take<element>(kKeyBlock / V::depth * padded_row(shape.value_dim));
    }

    Strip<V>& strip(int64_t i) const {
        Strip<V>& strip = strips_[i];
        strip.query = queries_ + i * query_size_;
        strip.group = sums_ + 2 * i * sums_size_;
        strip.total = strip.group + sums_size_;
        return strip;
    }

    int64_t sums_size() const { return sums_size_; }  // floats of Strip::group and Strip::total
    int64_t bytes() const { return bytes_; }

    Panels<V> panels;
    element *key[2], *value;  // copies of a block of keys

  private:
    template <class T>
    T* take(int64_t count) {
        T* const taken = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + bytes_);
        bytes_ += round_up(count * static_cast<int64_t>(sizeof(T)), 64);
        return taken;
    }

    std::byte* memory_;
    int64_t bytes_ = 0, query_size_, sums_size_;
    Strip<V>* strips_;
    element* queries_;
    float* sums_;
};

template <class V>
void begin_strip(const ForwardBlock& block, int64_t first, int64_t sums_size, Strip<V>& strip) {
    const int64_t row = block.row_begin + first;
    strip.rows = {row, std::min<int64_t>(Softmax<V>::kColumns, block.row_end - row)};
    strip.softmax.reset();
    strip.group_filled = strip.total_filled = false;
    std::fill_n(strip.group, sums_size, 0.0F);
    std::fill_n(strip.total, sums_size, 0.0F);
}

template <class V>
void load_queries(const ForwardBlock& block, Strip<V>& strip) {
    // A positive scale keeps the order of the scores, so the sign goes into the query, exactly.
    const float sign = sign_of(block.scale);
    auto* query = strip.query;
    for (const FeaturePart& part : block.parts) {
        if (part.dim == 0) continue;
        const auto* data = static_cast<const typename V::value*>(part.query.data) +
                           (strip.rows.begin - block.row_begin) * part.query.stride;
        transpose_rows<V>({data, part.query.stride}, strip.rows.count, part.dim, sign, query, Softmax<V>::kColumns);
        query += feature_elements<V>(part.dim) * Softmax<V>::kColumns;
    }
}

template <class V>
void end_group(int64_t value_dim, Strip<V>& strip) {
    strip.softmax.end_group();
    if (!strip.group_filled) return;
    for (int64_t i = 0; i < value_dim * Softmax<V>::kColumns; i += V::lanes) {
        V::store(strip.total + i, V::add(V::load(strip.total + i), V::load(strip.group + i)));
        V::store(strip.group + i, V::zero());
    }
    strip.group_filled = false;
    strip.total_filled = true;
}

// O = O^T divided by the divisor of each row; rows whose bit is not set in `filled` become 0, whatever they hold.
template <class V>
void write_rows(const ForwardBlock& block, const Strip<V>& strip, const float* divisor, uint64_t filled) {
    constexpr int64_t kColumns = Softmax<V>::kColumns;
    auto* out = static_cast<typename V::value*>(block.out) + (strip.rows.begin - block.row_begin) * block.out_stride;
    for (int64_t i = 0; i < strip.rows.count; i += V::lanes) {
        const auto divisors = V::load(divisor + i);
        for (int64_t d = 0; d < block.value_dim; d += V::lanes) {
            const int64_t width = std::min<int64_t>(V::lanes, block.value_dim - d);
            typename V::vec x[V::lanes];
            for (int c = 0; c < V::lanes; c++) {
                x[c] = V::zero();
                if (c < width)
                    x[c] = V::keep_bits(V::div(V::load(strip.total + (d + c) * kColumns + i), divisors), filled >> i,
                                        x[c]);
            }
            V::transpose(x);
            for (int64_t r = 0; r < std::min<int64_t>(V::lanes, strip.rows.count - i); r++)
                V::store_values(out + (i + r) * block.out_stride + d, width, x[r]);
        }
    }
}

template <class V>
void finish_strip(const ForwardBlock& block, const ScoreScale& scale, Strip<V>& strip) {
    end_group<V>(block.value_dim, strip);
    const float keep_prob = block.drops() ? block.keep_prob : 1.0F;
    alignas(64) float divisor[Softmax<V>::kColumns];
    std::fill_n(divisor, Softmax<V>::kColumns, 1.0F);
    uint64_t filled = 0;
    for (int64_t i = 0; i < strip.rows.count; i++) {
        const RowResult row = block.kv_len == 0 ? RowResult{0.0F, 0.0F, 1.0F, true}
                                                : strip.softmax.finish(i, scale, block.sink, keep_prob);
        const int64_t at = (strip.rows.begin - block.row_begin + i) * block.stats_stride;
        std::fill_n(block.max + at, kStatsCopies, row.max);
        std::fill_n(block.sum + at, kStatsCopies, row.sum);
        divisor[i] = row.divisor;
        filled |= static_cast<uint64_t>(!row.empty) << i;
    }
    write_rows<V>(block, strip, divisor, filled);
}

template <class V>
KeyBlock<V> load_block(const ForwardBlock& block, KeyRange keys, int64_t strips, const Scratch<V>& scratch) {
    KeyBlock<V> rows;
    rows.keys = keys;
    for (int p = 0; p < 2; p++)
        if (block.parts[p].dim > 0)
            rows.key[p] = load_keys<V>(block.parts[p].key, keys, block.parts[p].dim, strips, scratch.key[p]);
    const KeyRange common = all_visible(block.band, block.row_begin, block.row_end, block.kv_len);
    const bool hides =
        block.mask != nullptr || is_bias_tensor(block.bias.kind) || keys.begin < common.begin || keys.end > common.end;
    rows.has_special_values = hides && !all_finite<V>(block.value, keys, block.value_dim);
    rows.value = rows.has_special_values ? copy_finite_values<V>(block.value, keys, block.value_dim, scratch.value)
                                         : load_values<V>(block.value, keys, block.value_dim, strips, scratch.value);
    return rows;
}

// Blocks of keys [begin, end) in the order in which they are visited: upwards. Slopes let scores rise towards the
// diagonal, and a maximum that moves all the way costs time, so there it is downwards from the diagonal, then up from
// it.
class KeyBlockOrder {
  public:
    KeyBlockOrder(const ScoreBlock& block, KeyRange keys)
        : begin_(keys.begin / kKeyBlock), count_((keys.end + kKeyBlock - 1) / kKeyBlock - begin_) {
        if (!is_bias_slope(block.bias.kind) || !(block.bias.slope > 0)) return;
        const int64_t diagonal = block.row_end - 1 - block.bias.diagonal;
        start_ = std::clamp(diagonal, keys.begin, keys.end - 1) / kKeyBlock - begin_;
    }
    int64_t count() const { return count_; }
    int64_t operator[](int64_t n) const { return begin_ + (n <= start_ ? start_ - n : n); }

  private:
    int64_t begin_, count_, start_ = 0;
};

template <class V>
void forward(const ForwardBlock& block, void* memory) {
    const Scratch<V> scratch(memory, {{block.parts[0].dim, block.parts[1].dim}, block.value_dim});
    const ScoreScale scale = score_scale(block);
    constexpr int64_t kColumns = Softmax<V>::kColumns;
    const int64_t strips = (block.row_end - block.row_begin + kColumns - 1) / kColumns;
    const KeyRange all = any_visible(block.band, block.row_begin, block.row_end, block.kv_len);
    for (int64_t i = 0; i < strips; i++) {
        begin_strip<V>(block, i * kColumns, scratch.sums_size(), scratch.strip(i));
        if (!all.empty()) load_queries<V>(block, scratch.strip(i));
    }
    if (!all.empty()) {
        const KeyBlockOrder order(block, all);
        // Key blocks, and groups of them, start at multiples of their size, so that a row's sums are cut at the same
        // keys whatever other rows of the block see.
        for (int64_t n = 0; n < order.count(); n++) {
            const int64_t begin = order[n] * kKeyBlock;
            if (n > 0 && begin / kKeyGroup != order[n - 1] * kKeyBlock / kKeyGroup)
                for (int64_t i = 0; i < strips; i++) end_group<V>(block.value_dim, scratch.strip(i));
            const KeyRange keys{std::max(begin, all.begin & -int64_t{V::depth}), std::min(begin + kKeyBlock, all.end)};
            const KeyBlock<V> rows = load_block<V>(block, keys, strips, scratch);
            for (int64_t i = 0; i < strips; i++)
                attend<V>(block, rows, scratch.panels, scale.exponent, scratch.strip(i));
        }
    }
    for (int64_t i = 0; i < strips; i++) finish_strip<V>(block, scale, scratch.strip(i));
}

}  // namespace flash_attention::FUSION_ISA
