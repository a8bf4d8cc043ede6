// Keys and values of a block of keys as the products want them: where they lie when the storage suits, else widened or
// packed once for all strips of the query block. In front of 4 to 8 strips that costs about a hundredth of the time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/visibility.h"
#include "kernels/dispatch.h"
#include "kernels/softmax.h"
#include "kernels/tile.h"

namespace flash_attention::FUSION_ISA {

// Keys of a block: the weights of a strip for them stay in L1.
inline constexpr int64_t kKeyBlock = 192;

template <class V>
struct Elements {
    const typename V::element* data = nullptr;  // of the first key of the block
    int64_t stride = 0;                         // between keys, or between groups of V::depth keys
};

template <class V>
struct KeyBlock {
    KeyRange keys;                    // begin is a multiple of V::depth
    Elements<V> key[2];               // [key][feature / V::depth], for each part of the features
    Elements<V> value;                // [key / V::depth][feature]
    bool has_special_values = false;  // NaN or infinities that some row may not see: `value` has 0 instead
};

// Elements of a row of `dim` features along the features; and of a row of any elements, begun at a cache line.
template <class V>
int64_t feature_elements(int64_t dim) {
    return (dim + V::depth - 1) / V::depth;
}
inline int64_t padded_row(int64_t elements) {
    return round_up(elements, 16);
}

// Whether rows lie so far apart, as those of one head in BSH do, that each has a page of its own, and with a power of
// two between them all share a few sets of the cache. To read them for one strip after another takes longer than to
// copy them once.
constexpr bool lie_apart(int64_t dim, int64_t stride) {
    return stride >= 2 * dim;
}

// Whether rows of keys are copied for that many strips: always when they are widened, and when pairs of features are
// not whole.
template <class V>
bool copies_keys(int64_t dim, int64_t stride, int64_t strips) {
    if constexpr (V::copies) return true;
    return dim % V::depth != 0 || stride % V::depth != 0 || (strips > 1 && lie_apart(dim, stride));
}

// The same for values, which are also copied when pairs of keys are packed.
template <class V>
bool copies_values(int64_t dim, int64_t stride, int64_t strips) {
    if constexpr (V::copies || V::depth > 1) return true;
    return strips > 1 && lie_apart(dim, stride);
}

// Rows lie anywhere, and the hardware does not foresee the next one: asks for the row that is copied a little later.
template <class V>
void prefetch_row(const typename V::value* row, int64_t stride, int64_t dim) {
    constexpr int64_t kAhead = 8;
    const auto at = reinterpret_cast<uintptr_t>(row) + static_cast<uintptr_t>(kAhead * stride) * sizeof(*row);
    for (int64_t byte = 0; byte < dim * static_cast<int64_t>(sizeof(*row)); byte += 64)
        __builtin_prefetch(reinterpret_cast<const void*>(at + byte));
}

template <class V>
Elements<V> load_keys(const Rows& from, KeyRange keys, int64_t dim, int64_t strips, typename V::element* copy) {
    const auto* rows = static_cast<const typename V::value*>(from.data) + keys.begin * from.stride;
    if (!copies_keys<V>(dim, from.stride, strips))
        return {reinterpret_cast<const typename V::element*>(rows), from.stride / V::depth};
    const int64_t stride = padded_row(feature_elements<V>(dim));
    constexpr int64_t kStep = V::lanes * V::depth;  // values of a vector of elements
    for (int64_t r = 0; r < keys.end - keys.begin; r++) {
        prefetch_row<V>(rows + r * from.stride, from.stride, dim);
        for (int64_t c = 0; c < dim; c += kStep)
            V::store_elements(copy + r * stride + c / V::depth, V::load_features(rows + r * from.stride + c, dim - c));
    }
    return {copy, stride};
}

template <class V>
Elements<V> copy_values(const Rows& from, KeyRange keys, int64_t dim, typename V::element* copy) {
    const auto* rows = static_cast<const typename V::value*>(from.data) + keys.begin * from.stride;
    const int64_t stride = padded_row(dim), count = keys.end - keys.begin;
    for (int64_t r = 0; r < count; r += V::depth) {
        for (int64_t i = 0; i < V::depth; i++) prefetch_row<V>(rows + (r + i) * from.stride, from.stride, dim);
        for (int64_t c = 0; c < dim; c += V::lanes)
            V::store_elements(copy + r / V::depth * stride + c,
                              V::load_rows(rows + r * from.stride + c, from.stride, count - r, dim - c));
    }
    return {copy, stride};
}

template <class V>
Elements<V> load_values(const Rows& from, KeyRange keys, int64_t dim, int64_t strips, typename V::element* copy) {
    if (copies_values<V>(dim, from.stride, strips)) return copy_values<V>(from, keys, dim, copy);
    const auto* rows = static_cast<const typename V::value*>(from.data) + keys.begin * from.stride;
    return {reinterpret_cast<const typename V::element*>(rows), from.stride};
}

// The same with 0 for NaN and infinities.
template <class V>
Elements<V> copy_finite_values(const Rows& from, KeyRange keys, int64_t dim, typename V::element* copy) {
    const Elements<V> copied = copy_values<V>(from, keys, dim, copy);
    for (int64_t r = 0; r < keys.end - keys.begin; r++) {
        const auto* row = static_cast<const typename V::value*>(from.data) + (keys.begin + r) * from.stride;
        for (int64_t c = 0; c < dim; c++)
            if (!std::isfinite(V::one_value(row + c)))
                V::clear_part(copy + r / V::depth * copied.stride + c, r % V::depth);
    }
    return copied;
}

template <class V>
bool all_finite(const Rows& from, KeyRange keys, int64_t dim) {
    auto sum = V::zero();  // x - x is 0, or NaN for what is not finite
    for (int64_t key = keys.begin; key < keys.end; key++) {
        const auto* row = static_cast<const typename V::value*>(from.data) + key * from.stride;
        int64_t c = 0;
        for (; c + V::lanes <= dim; c += V::lanes) {
            const auto x = V::load_values(row + c);
            sum = V::add(sum, V::sub(x, x));
        }
        if (c < dim) {
            const auto x = V::load_values(row + c, dim - c);
            sum = V::add(sum, V::sub(x, x));
        }
    }
    return V::sum_lanes(sum) == 0.0F;
}

}  // namespace flash_attention::FUSION_ISA
