// AVX-512 (F, BW, DQ, VL), and pairs of bf16 with the dot product of AVX512_BF16: the only place that names an
// intrinsic for these instruction sets. Same interface as vec_portable.h.
#pragma once

#ifdef FUSION_EMULATE_AVX512
#include "kernels/emulate_avx512.h"
#else
#include <immintrin.h>
#endif

#include <cstdint>
#include <cstring>

#include "kernels/elements.h"
#include "kernels/isa.h"

namespace flash_attention::FUSION_ISA {

struct Vectors {
    using vec = __m512;
    static constexpr int lanes = 16;
    // 32 registers: 24 sums, 3 vectors of the right operand; left operands are broadcast from memory.
    static constexpr int tile_rows = 8;
    static constexpr int tile_vecs = 3;
    // Products of features that are summed in one chain (feature_tree.h).
    static constexpr int feature_chain = 16;

    KERNEL_INLINE vec zero() { return _mm512_setzero_ps(); }
    KERNEL_INLINE vec set(float x) { return _mm512_set1_ps(x); }
    KERNEL_INLINE vec load(const float* p) { return _mm512_loadu_ps(p); }
    KERNEL_INLINE void store(float* p, vec x) { _mm512_storeu_ps(p, x); }
    KERNEL_INLINE vec load_first(const float* p, int64_t n) { return _mm512_maskz_loadu_ps(first(n), p); }
    KERNEL_INLINE void store_first(float* p, int64_t n, vec x) { _mm512_mask_storeu_ps(p, first(n), x); }
    KERNEL_INLINE vec broadcast_float(const float* p) { return _mm512_set1_ps(*p); }

    KERNEL_INLINE vec add(vec a, vec b) { return _mm512_add_ps(a, b); }
    KERNEL_INLINE vec sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
    KERNEL_INLINE vec mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
    KERNEL_INLINE vec div(vec a, vec b) { return _mm512_div_ps(a, b); }
    KERNEL_INLINE vec multiply_add(vec a, vec b, vec sum) { return _mm512_fmadd_ps(a, b, sum); }
    KERNEL_INLINE vec max(vec a, vec b) { return _mm512_max_ps(a, b); }  // the instruction gives b for NaN
    KERNEL_INLINE vec abs(vec x) { return floats(_mm512_and_si512(bits(x), _mm512_set1_epi32(0x7FFFFFFF))); }
    KERNEL_INLINE vec sqrt(vec x) { return _mm512_sqrt_ps(x); }
    KERNEL_INLINE vec lane_numbers() { return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }

    KERNEL_INLINE bool any_greater(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) != 0; }
    KERNEL_INLINE vec where_greater(vec a, vec b, vec yes, vec no) {
        return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), no, yes);
    }
    KERNEL_INLINE uint32_t equal_lanes(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
    KERNEL_INLINE vec keep_bits(vec x, uint64_t keep, vec other) {
        return _mm512_mask_blend_ps(static_cast<__mmask16>(keep), other, x);
    }

    // 2^x. Degree 6: 0.9 units in the last place, exactly 1 at 0. Degree 4: relative 2^-18.4, exactly 1 at 0 too.
    // vscalef gives 0 for -infinity, also where the polynomial is NaN, and subnormal results: no clamp.
    template <int degree>
    KERNEL_INLINE vec exp2(vec x) {
        static_assert(degree == 6 || degree == 4);
        const vec n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        const vec f = sub(x, n);
        vec p;
        if constexpr (degree == 6) {
            p = multiply_add(set(1.534581216e-4F), f, set(1.339993118e-3F));
            p = multiply_add(p, f, set(9.618488956e-3F));
            p = multiply_add(p, f, set(5.550328777e-2F));
            p = multiply_add(p, f, set(2.402264689e-1F));
            p = multiply_add(p, f, set(6.931472057e-1F));
            p = multiply_add(p, f, set(1.0F));
        } else {
            p = multiply_add(set(9.582855738e-3F), f, set(5.590642989e-2F));
            p = multiply_add(p, f, set(2.402409911e-1F));
            p = multiply_add(p, f, set(6.931241751e-1F));
            p = multiply_add(p, f, set(1.0F));
        }
        return _mm512_scalef_ps(p, n);
    }

    // Rows become columns: 16 x 16 in registers.
    KERNEL_INLINE void transpose(vec (&x)[lanes]) {
        vec t[lanes];
#pragma GCC unroll 16
        for (int i = 0; i < 16; i += 2) {
            t[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
            t[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < 16; i += 4) {
            x[i] = low_pairs(t[i], t[i + 2]);
            x[i + 1] = high_pairs(t[i], t[i + 2]);
            x[i + 2] = low_pairs(t[i + 1], t[i + 3]);
            x[i + 3] = high_pairs(t[i + 1], t[i + 3]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < 4; i++) {
            const vec a = _mm512_shuffle_f32x4(x[i], x[i + 4], 0x88);
            const vec b = _mm512_shuffle_f32x4(x[i], x[i + 4], 0xDD);
            const vec c = _mm512_shuffle_f32x4(x[i + 8], x[i + 12], 0x88);
            const vec d = _mm512_shuffle_f32x4(x[i + 8], x[i + 12], 0xDD);
            x[i] = _mm512_shuffle_f32x4(a, c, 0x88);
            x[i + 8] = _mm512_shuffle_f32x4(a, c, 0xDD);
            x[i + 4] = _mm512_shuffle_f32x4(b, d, 0x88);
            x[i + 12] = _mm512_shuffle_f32x4(b, d, 0xDD);
        }
    }
    KERNEL_INLINE float sum_lanes(vec x) {
        return _mm512_reduce_add_ps(x);
    }
    // As in vec_portable.h.
    KERNEL_INLINE vec sum_each(const vec (&x)[lanes]) {
        vec four[4];  // in each quarter, the sums over that quarter's lanes of four vectors
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            const vec* a = x + 4 * i;
            const vec low = add(_mm512_unpacklo_ps(a[0], a[1]), _mm512_unpackhi_ps(a[0], a[1]));
            const vec high = add(_mm512_unpacklo_ps(a[2], a[3]), _mm512_unpackhi_ps(a[2], a[3]));
            four[i] = add(low_pairs(low, high), high_pairs(low, high));
        }
        return add_quarters(add_quarters(four[0], four[1]), add_quarters(four[2], four[3]));
    }

    KERNEL_INLINE __mmask16 first(int64_t n) {
        return static_cast<__mmask16>(n <= 0 ? 0U : n >= lanes ? 0xFFFFU : (1U << n) - 1U);
    }
    KERNEL_INLINE __m512i bits(vec x) {
        return _mm512_castps_si512(x);
    }
    KERNEL_INLINE vec floats(__m512i x) {
        return _mm512_castsi512_ps(x);
    }

  private:
    KERNEL_INLINE vec add_quarters(vec a, vec b) {  // the first with the second and the third with the fourth, of each
        return add(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
    }
    KERNEL_INLINE vec low_pairs(vec a, vec b) {
        return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
    }
    KERNEL_INLINE vec high_pairs(vec a, vec b) {
        return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
    }
};

// 16-bit storage.
template <class Conversion>
struct Format {
    using vec = __m512;
    KERNEL_INLINE vec load(const uint16_t* p) {
        return Conversion::widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    }
    KERNEL_INLINE vec load_first(const uint16_t* p, int64_t n) {
        return Conversion::widen(_mm256_maskz_loadu_epi16(Vectors::first(n), p));
    }
    KERNEL_INLINE void store_first(uint16_t* p, int64_t n, vec x) {
        _mm256_mask_storeu_epi16(p, Vectors::first(n), Conversion::narrow(x));
    }
    KERNEL_INLINE float one(uint16_t x) {
        return _mm512_cvtss_f32(Conversion::widen(_mm256_set1_epi16(static_cast<int16_t>(x))));
    }
};
struct Fp16 {
    KERNEL_INLINE __m512 widen(__m256i x) { return _mm512_cvtph_ps(x); }
    KERNEL_INLINE __m256i narrow(__m512 x) { return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT); }
};
struct Bfloat16 {
    KERNEL_INLINE __m512 widen(__m256i x) {
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
    }
    KERNEL_INLINE __m256i narrow(__m512 x) { return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded(x), 16)); }
    // To nearest even, in the upper half of each lane; a NaN must not round to infinity. Unlike the instruction this
    // keeps subnormal numbers.
    KERNEL_INLINE __m512i rounded(__m512 x) {
        const __m512i bits = _mm512_castps_si512(x);
        const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
        const __m512i nearest = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
        const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
        return _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), nearest, quiet);
    }
};

using F32 = Plain<Vectors>;
using F16 = Widened<Vectors, Format<Fp16>>;

#ifndef FUSION_BF16_PAIRS

using Bf16 = Widened<Vectors, Format<Bfloat16>>;

#else

// bf16: an element is a pair of neighbours along the summed dimension; vdpbf16ps multiplies and adds both. Keys are
// read where they lie (pairs of features are neighbours), values are packed in pairs of keys, weights are rounded to
// bf16.
struct Bf16 : Widened<Vectors, Format<Bfloat16>> {
    struct element {
        uint16_t first, second;
    };
    static constexpr int depth = 2;
    static constexpr bool copies = false;
    static constexpr int exp_degree = 4;  // weights are rounded to 8 bits anyway

    KERNEL_INLINE vec broadcast(const element* p) {
        int32_t both;
        std::memcpy(&both, p, sizeof both);
        return floats(_mm512_set1_epi32(both));
    }
    KERNEL_INLINE vec load_elements(const element* p) { return floats(_mm512_loadu_si512(p)); }
    KERNEL_INLINE void store_elements(element* p, vec x) { _mm512_storeu_si512(p, bits(x)); }
    KERNEL_INLINE vec add_product(vec a, vec b, vec sum) { return _mm512_dpbf16_ps(sum, pairs(a), pairs(b)); }

    KERNEL_INLINE vec product(vec a, vec b) { return add_product(a, b, zero()); }

    KERNEL_INLINE vec load_features(const value* p, int64_t n) {
        return floats(_mm512_maskz_loadu_epi16(n >= 32 ? ~__mmask32{0} : (__mmask32{1} << n) - 1, p));
    }
    KERNEL_INLINE vec load_rows(const value* p, int64_t stride, int64_t rows, int64_t n) {
        const __m512i upper = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first(n), p));
        const __m512i lower = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first(rows > 1 ? n : 0), p + stride));
        return join(upper, _mm512_slli_epi32(lower, 16));
    }
    KERNEL_INLINE vec multiply_elements(vec x, float sign) {  // by 1, -1 or 0: exact
        return join(_mm512_srli_epi32(bits(mul(one_of(x, 0), set(sign))), 16), bits(mul(one_of(x, 1), set(sign))));
    }

    using left_value = uint16_t;
    KERNEL_INLINE void store_left(left_value* p, vec x) {
        const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(x, x));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_castsi512_si256(both));
    }
    KERNEL_INLINE vec load_left(const left_value* p) { return load_values(p); }
    KERNEL_INLINE float one_left(const left_value* p) { return one_value(p); }

    template <int rows>
    KERNEL_INLINE void store_weights(element* p, int64_t stride, const vec (&x)[rows]) {
        const __m512i interleave = _mm512_or_si512(
            lane_numbers_int(), _mm512_slli_epi32(_mm512_add_epi32(lane_numbers_int(), _mm512_set1_epi32(16)), 16));
#pragma GCC unroll 16
        for (int r = 0; r < rows; r += 2) {
            const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(x[r + 1], x[r]));
            _mm512_storeu_si512(p + r / 2 * stride, _mm512_permutexvar_epi16(interleave, both));
        }
    }
    KERNEL_INLINE vec load_weights(const element* p, int64_t part) {
        return one_of(load_elements(p), part);
    }
    KERNEL_INLINE void clear_part(element* p, int64_t part) {
        (part == 0 ? p->first : p->second) = 0;
    }
    KERNEL_INLINE void scale_weights(element* p, vec factor) {
        const vec x = load_elements(p);
        const __m512i lower = Bfloat16::rounded(mul(one_of(x, 0), factor));
        store_elements(p, join(_mm512_srli_epi32(lower, 16), Bfloat16::rounded(mul(one_of(x, 1), factor))));
    }

  private:
    // The first or the second value of every element, widened.
    KERNEL_INLINE vec one_of(vec x, int64_t part) {
        return floats(part == 0 ? _mm512_slli_epi32(bits(x), 16) : upper_half(bits(x)));
    }
    KERNEL_INLINE __m512i upper_half(__m512i x) {
        return _mm512_and_si512(x, _mm512_set1_epi32(-0x10000));
    }
    KERNEL_INLINE vec join(__m512i first, __m512i second) {
        return floats(_mm512_or_si512(first, upper_half(second)));
    }
    KERNEL_INLINE __m512bh pairs(vec x) {
        return reinterpret_cast<__m512bh>(bits(x));
    }
    KERNEL_INLINE __m512i lane_numbers_int() {
        return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    }
};

#endif

}  // namespace flash_attention::FUSION_ISA
