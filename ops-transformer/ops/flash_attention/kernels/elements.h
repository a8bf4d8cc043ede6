// The storage of operands over the vectors of an instruction set: what a kernel calls V. An element is what a product
// takes from an operand at a time: one fp32 value here; vec_avx512.h adds pairs of bf16.
#pragma once

#include <cstdint>

#include "kernels/isa.h"

namespace flash_attention::FUSION_ISA {

template <class Vectors>
struct Plain;

// Products of fp32 elements.
template <class Vectors>
struct FloatElements : Vectors {
    using vec = typename Vectors::vec;
    using Floats = Plain<Vectors>;  // fp32 storage over the same vectors
    using element = float;
    static constexpr int depth = 1;       // values along the summed dimension in an element
    static constexpr int exp_degree = 6;  // of the polynomial for weights: within one unit in the last place

    KERNEL_INLINE vec broadcast(const element* p) { return Vectors::broadcast_float(p); }
    KERNEL_INLINE vec load_elements(const element* p) { return Vectors::load(p); }
    KERNEL_INLINE void store_elements(element* p, vec x) { Vectors::store(p, x); }
    KERNEL_INLINE vec add_product(vec a, vec b, vec sum) { return Vectors::multiply_add(a, b, sum); }
    KERNEL_INLINE vec product(vec a, vec b) { return Vectors::mul(a, b); }
    KERNEL_INLINE vec multiply_elements(vec x, float sign) { return Vectors::mul(x, Vectors::set(sign)); }

    // A matrix [key][query row] as left operand of a product over query rows.
    using left_value = float;
    KERNEL_INLINE void store_left(left_value* p, vec x) { Vectors::store(p, x); }
    KERNEL_INLINE vec load_left(const left_value* p) { return Vectors::load(p); }
    KERNEL_INLINE float one_left(const left_value* p) { return *p; }

    // The same as right operand of a product over keys, such as weights.
    template <int rows>
    KERNEL_INLINE void store_weights(element* p, int64_t stride, const vec (&x)[rows]) {
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) Vectors::store(p + r * stride, x[r]);
    }
    KERNEL_INLINE vec load_weights(const element* p, int64_t /*part of the element*/) {
        return Vectors::load(p);
    }
    KERNEL_INLINE void clear_part(element* p, int64_t /*part*/) {
        *p = 0.0F;
    }
    KERNEL_INLINE void scale_weights(element* p, vec factor) {
        Vectors::store(p, Vectors::mul(Vectors::load(p), factor));
    }
};

// fp32: keys and values are used where they lie.
template <class Vectors>
struct Plain : FloatElements<Vectors> {
    using vec = typename Vectors::vec;
    using value = float;  // storage of query, key, value and output
    static constexpr bool copies = false;

    KERNEL_INLINE vec load_values(const value* p) { return Vectors::load(p); }
    KERNEL_INLINE vec load_values(const value* p, int64_t n) { return Vectors::load_first(p, n); }
    KERNEL_INLINE void store_values(value* p, int64_t n, vec x) { Vectors::store_first(p, n, x); }
    KERNEL_INLINE float one_value(const value* p) { return *p; }
    // Elements of one row along the features; n values are left.
    KERNEL_INLINE vec load_features(const value* p, int64_t n) { return load_values(p, n); }
    // Elements of V::depth rows, one below the other; `rows` are left, n values of each.
    KERNEL_INLINE vec load_rows(const value* p, int64_t /*stride*/, int64_t /*rows*/, int64_t n) {
        return load_values(p, n);
    }
};

// 16-bit storage, fp32 arithmetic: values are widened as they are loaded.
template <class Vectors, class Format>
struct Widened : FloatElements<Vectors> {
    using vec = typename Vectors::vec;
    using value = uint16_t;
    static constexpr bool copies = true;

    KERNEL_INLINE vec load_values(const value* p) { return Format::load(p); }
    KERNEL_INLINE vec load_values(const value* p, int64_t n) { return Format::load_first(p, n); }
    KERNEL_INLINE void store_values(value* p, int64_t n, vec x) { Format::store_first(p, n, x); }
    KERNEL_INLINE float one_value(const value* p) { return Format::one(*p); }
    KERNEL_INLINE vec load_features(const value* p, int64_t n) { return load_values(p, n); }
    // Elements of V::depth rows, one below the other; `rows` are left, n values of each.
    KERNEL_INLINE vec load_rows(const value* p, int64_t /*stride*/, int64_t /*rows*/, int64_t n) {
        return load_values(p, n);
    }
};

}  // namespace flash_attention::FUSION_ISA
