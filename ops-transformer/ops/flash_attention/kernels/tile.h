// The register tile that every product of the kernels goes through:
//   sum[row][lane] += left[row][k] * right[k][lane]   for k < depth
// An element of an operand is one value, or V::depth neighbours along k that one instruction multiplies and adds.
// Loops over a tile are unrolled by name: indexing it at run time would push it out of the registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/isa.h"

namespace flash_attention::FUSION_ISA {

// The left operand: one pointer per row, so that a row past the end can repeat the last real one instead of needing a
// kernel for every number of rows.
template <class Element, int rows>
struct LeftRows {
    const Element* row[rows];
    int64_t step;  // between successive k

    // Rows first .. first + rows - 1 of a matrix, the last real one (end - 1) repeated.
    [[gnu::always_inline]] LeftRows(const Element* base, int64_t row_stride, int64_t k_step, int64_t first, int64_t end)
        : step(k_step) {
        const Element* at = base + first * row_stride;
        int64_t left = end - 1 - first;
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++, left--) {
            row[r] = at;
            at += left > 0 ? row_stride : 0;
        }
    }
};

template <class V, int rows, int vecs>
struct Tile {
    static constexpr int64_t kFloats = int64_t{rows} * vecs * V::lanes;
    typename V::vec sum[rows][vecs];

    [[gnu::always_inline]] void start_from_zero() {
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int v = 0; v < vecs; v++) sum[r][v] = V::zero();
    }
    [[gnu::always_inline]] void store(float* p, int64_t stride) const {
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int v = 0; v < vecs; v++) V::store(p + r * stride + v * V::lanes, sum[r][v]);
    }
    [[gnu::always_inline]] void add(const float* p, int64_t stride) {
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int v = 0; v < vecs; v++) sum[r][v] = V::add(V::load(p + r * stride + v * V::lanes), sum[r][v]);
    }
    // Becomes the product over `depth` >= 1 elements, from the at-th of each left row on, summed in one chain.
    [[gnu::always_inline]] void multiply(const LeftRows<typename V::element, rows>& left,
                                         const typename V::element* right, int64_t right_stride, int64_t depth,
                                         int64_t at = 0) {
        step<true>(left, right, at);
#pragma GCC unroll 1
        for (int64_t k = 1; k < depth; k++) {
            at += left.step;
            right += right_stride;
            step<false>(left, right, at);
        }
    }
    // sums += left right over any depth. The terms are summed in chains of at most 64, and each chain is
    // added: in one chain over thousands of keys the later terms would be rounded away.
    [[gnu::always_inline]] static void add_product(const LeftRows<typename V::element, rows>& left,
                                                   const typename V::element* right, int64_t right_stride,
                                                   int64_t depth, float* sums, int64_t sums_stride) {
        constexpr int64_t kChain = 64 / V::depth;
        for (int64_t k = 0; k < depth; k += kChain) {
            Tile tile;
            tile.multiply(left, right + k * right_stride, right_stride, depth - k < kChain ? depth - k : kChain,
                          k * left.step);
            tile.add(sums, sums_stride);
            tile.store(sums, sums_stride);
        }
    }

  private:
    template <bool first>
    [[gnu::always_inline]] void step(const LeftRows<typename V::element, rows>& left, const typename V::element* right,
                                     int64_t at) {
        typename V::vec b[vecs];
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++) b[v] = V::load_elements(right + v * V::lanes);
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            const auto a = V::broadcast(left.row[r] + at);
#pragma GCC unroll 4
            for (int v = 0; v < vecs; v++) sum[r][v] = first ? V::product(a, b[v]) : V::add_product(a, b[v], sum[r][v]);
        }
    }
};

// Calls f with n (1 .. limit) as a compile-time constant.
template <int limit, class F>
void with_constant(int n, F&& f) {
    if constexpr (limit > 1)
        if (n < limit) return with_constant<limit - 1>(n, f);
    f(std::integral_constant<int, limit>{});
}

KERNEL_INLINE int64_t round_up(int64_t n, int64_t unit) {
    return (n + unit - 1) / unit * unit;
}

}  // namespace flash_attention::FUSION_ISA
