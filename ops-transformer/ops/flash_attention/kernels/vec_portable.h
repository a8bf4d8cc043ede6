// Vectors of four floats written with the compilers' vector extensions: SSE2 on x86-64, NEON on aarch64, scalar code
// elsewhere. Its interface is that of all vector headers (elements.h adds to it); nothing else in the kernels knows how
// a vector is made.
#pragma once

#include <cstdint>
#include <cstring>

#include "ascendcl/float16.h"
#include "kernels/elements.h"
#include "kernels/isa.h"

namespace flash_attention::portable {

struct Vectors {
    using vec = float __attribute__((vector_size(16)));
    using int_vec = int32_t __attribute__((vector_size(16)));  // comparisons: all bits or none, per lane
    static constexpr const char* name = "portable";
    static constexpr int lanes = 4;
    // Four rows and two vectors: 8 sums, 2 vectors of the right operand and a broadcast fit the 16 registers of SSE2.
    static constexpr int tile_rows = 4;
    static constexpr int tile_vecs = 2;
    // Products of features that are summed in one chain: without a fused instruction each product is rounded too.
    static constexpr int feature_chain = 8;

    KERNEL_INLINE vec zero() { return vec{}; }
    KERNEL_INLINE vec set(float x) { return vec{x, x, x, x}; }
    KERNEL_INLINE vec load(const float* p) {
        vec v;
        std::memcpy(&v, p, sizeof v);
        return v;
    }
    KERNEL_INLINE void store(float* p, vec x) { std::memcpy(p, &x, sizeof x); }
    KERNEL_INLINE vec broadcast_float(const float* p) { return set(*p); }

    KERNEL_INLINE vec add(vec a, vec b) { return a + b; }
    KERNEL_INLINE vec sub(vec a, vec b) { return a - b; }
    KERNEL_INLINE vec mul(vec a, vec b) { return a * b; }
    KERNEL_INLINE vec div(vec a, vec b) { return a / b; }
    KERNEL_INLINE vec multiply_add(vec a, vec b, vec sum) { return sum + a * b; }
    // The larger one; b when either is NaN.
    KERNEL_INLINE vec max(vec a, vec b) { return select(a > b, a, b); }
    KERNEL_INLINE vec abs(vec x) { return floats(bits(x) & 0x7FFFFFFF); }
    KERNEL_INLINE vec sqrt(vec x) {
        return vec{__builtin_sqrtf(x[0]), __builtin_sqrtf(x[1]), __builtin_sqrtf(x[2]), __builtin_sqrtf(x[3])};
    }
    KERNEL_INLINE vec lane_numbers() { return vec{0, 1, 2, 3}; }

    KERNEL_INLINE bool any_greater(vec a, vec b) { return any(a > b); }
    KERNEL_INLINE vec where_greater(vec a, vec b, vec yes, vec no) { return select(a > b, yes, no); }
    KERNEL_INLINE vec where_equal(vec a, vec b, vec yes, vec no) { return select(a == b, yes, no); }
    // A bit for each lane.
    KERNEL_INLINE uint32_t equal_lanes(vec a, vec b) {
        const int_vec equal = (a == b) & int_vec{1, 2, 4, 8};
        return static_cast<uint32_t>(equal[0] | equal[1] | equal[2] | equal[3]);
    }
    // Lanes whose bit is set keep x, the others get `other`.
    KERNEL_INLINE vec keep_bits(vec x, uint64_t keep, vec other) {
        const int_vec b = int_vec{} + static_cast<int32_t>(keep);
        return select((b & int_vec{1, 2, 4, 8}) != 0, x, other);
    }

    KERNEL_INLINE vec load_first(const float* p, int64_t n) {
        vec x{};
        std::memcpy(&x, p, static_cast<size_t>(n < lanes ? n : lanes) * sizeof(float));
        return x;
    }
    KERNEL_INLINE void store_first(float* p, int64_t n, vec x) {
        std::memcpy(p, &x, static_cast<size_t>(n < lanes ? n : lanes) * sizeof(float));
    }

    // 2^x for x <= 127: exactly 1 at 0, exactly 0 from -127 on down and for -infinity, NaN for NaN. With n the nearest
    // integer and |f| <= 1/2, 2^x = 2^n 2^f; the polynomial of degree 6 is within 0.9 units in the last place.
    template <int degree>
    KERNEL_INLINE vec exp2(vec x) {
        static_assert(degree == 6);
        constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
        const vec lowest = set(-127.0F);
        const vec clamped = select(x < lowest, lowest, x);  // a NaN compares false and stays
        const vec shifted = clamped + kRound;
        const vec f = clamped - (shifted - kRound);
        vec p = set(1.534581216e-4F);
        p = p * f + 1.339993118e-3F;
        p = p * f + 9.618488956e-3F;
        p = p * f + 5.550328777e-2F;
        p = p * f + 2.402264689e-1F;
        p = p * f + 6.931472057e-1F;
        p = p * f + 1.0F;
        const vec power = floats((bits(shifted) - bits(set(kRound - 127.0F))) << 23);
        return p * power;  // at the clamp the bits of power are those of 0
    }

    // Rows become columns.
    KERNEL_INLINE void transpose(vec (&x)[lanes]) {
        vec t[lanes];
        for (int i = 0; i < lanes; i++) t[i] = vec{x[0][i], x[1][i], x[2][i], x[3][i]};
        for (int i = 0; i < lanes; i++) x[i] = t[i];
    }
    KERNEL_INLINE float sum_lanes(vec x) { return (x[0] + x[1]) + (x[2] + x[3]); }
    // Lane i is the sum of all lanes of x[i].
    KERNEL_INLINE vec sum_each(const vec (&x)[lanes]) {
        vec t[lanes] = {x[0], x[1], x[2], x[3]};
        transpose(t);
        return (t[0] + t[1]) + (t[2] + t[3]);
    }

  protected:
    KERNEL_INLINE int_vec bits(vec x) { return reinterpret_cast<int_vec>(x); }
    KERNEL_INLINE vec floats(int_vec x) { return reinterpret_cast<vec>(x); }
    KERNEL_INLINE vec select(int_vec condition, vec yes, vec no) {
        return floats((condition & bits(yes)) | (~condition & bits(no)));
    }
    KERNEL_INLINE bool any(int_vec c) { return (c[0] | c[1] | c[2] | c[3]) != 0; }
};

// 16-bit storage, a value at a time.
template <float (*widen)(uint16_t), uint16_t (*narrow)(float)>
struct Format {
    using vec = Vectors::vec;
    KERNEL_INLINE float one(uint16_t x) { return widen(x); }
    KERNEL_INLINE vec load(const uint16_t* p) { return vec{widen(p[0]), widen(p[1]), widen(p[2]), widen(p[3])}; }
    KERNEL_INLINE vec load_first(const uint16_t* p, int64_t n) {
        vec x{};
        for (int i = 0; i < Vectors::lanes; i++) x[i] = i < n ? widen(p[i]) : 0.0F;
        return x;
    }
    KERNEL_INLINE void store_first(uint16_t* p, int64_t n, vec x) {
        for (int i = 0; i < Vectors::lanes && i < n; i++) p[i] = narrow(x[i]);
    }
};

using F32 = Plain<Vectors>;
using F16 = Widened<Vectors, Format<ascendcl::fp16_to_float, ascendcl::float_to_fp16>>;
using Bf16 = Widened<Vectors, Format<ascendcl::bf16_to_float, ascendcl::float_to_bf16>>;

}  // namespace flash_attention::portable
