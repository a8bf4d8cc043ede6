// AVX2 + FMA + F16C: the only place that names an intrinsic for this instruction set. Same interface as vec_portable.h.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/elements.h"
#include "kernels/isa.h"

namespace flash_attention::avx2 {

struct Vectors {
    using vec = __m256;
    static constexpr const char* name = "avx2";
    static constexpr int lanes = 8;
    // 16 registers: 12 sums, 3 vectors of the right operand, a broadcast.
    static constexpr int tile_rows = 4;
    static constexpr int tile_vecs = 3;
    // Products of features that are summed in one chain (feature_tree.h).
    static constexpr int feature_chain = 16;

    KERNEL_INLINE vec zero() { return _mm256_setzero_ps(); }
    KERNEL_INLINE vec set(float x) { return _mm256_set1_ps(x); }
    KERNEL_INLINE vec load(const float* p) { return _mm256_loadu_ps(p); }
    KERNEL_INLINE void store(float* p, vec x) { _mm256_storeu_ps(p, x); }
    KERNEL_INLINE vec broadcast_float(const float* p) { return _mm256_broadcast_ss(p); }

    KERNEL_INLINE vec add(vec a, vec b) { return _mm256_add_ps(a, b); }
    KERNEL_INLINE vec sub(vec a, vec b) { return _mm256_sub_ps(a, b); }
    KERNEL_INLINE vec mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
    KERNEL_INLINE vec div(vec a, vec b) { return _mm256_div_ps(a, b); }
    KERNEL_INLINE vec multiply_add(vec a, vec b, vec sum) { return _mm256_fmadd_ps(a, b, sum); }
    KERNEL_INLINE vec max(vec a, vec b) { return _mm256_max_ps(a, b); }  // the instruction gives b for NaN
    KERNEL_INLINE vec abs(vec x) { return _mm256_andnot_ps(set(-0.0F), x); }
    KERNEL_INLINE vec sqrt(vec x) { return _mm256_sqrt_ps(x); }
    KERNEL_INLINE vec lane_numbers() { return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7); }

    KERNEL_INLINE bool any_greater(vec a, vec b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)) != 0; }
    KERNEL_INLINE vec where_greater(vec a, vec b, vec yes, vec no) {
        return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_GT_OQ));
    }
    KERNEL_INLINE vec where_equal(vec a, vec b, vec yes, vec no) {
        return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_EQ_OQ));
    }
    KERNEL_INLINE uint32_t equal_lanes(vec a, vec b) {
        return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)));
    }
    KERNEL_INLINE vec keep_bits(vec x, uint64_t keep, vec other) {
        const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        const __m256i all = _mm256_set1_epi32(static_cast<int>(keep));
        const __m256i kept = _mm256_cmpeq_epi32(_mm256_and_si256(all, lane), lane);
        return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(kept));
    }

    KERNEL_INLINE vec load_first(const float* p, int64_t n) { return _mm256_maskload_ps(p, first(n)); }
    KERNEL_INLINE void store_first(float* p, int64_t n, vec x) { _mm256_maskstore_ps(p, first(n), x); }

    // As in vec_portable.h. vmaxps gives its second operand for NaN. At the clamp the exponent becomes 0 and the
    // polynomial is 1, whose fraction is 0: the result is 0 without another selection.
    template <int degree>
    KERNEL_INLINE vec exp2(vec x) {
        static_assert(degree == 6);
        const vec clamped = _mm256_max_ps(set(-127.0F), x);
        const vec n = _mm256_round_ps(clamped, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        const vec f = sub(clamped, n);
        vec p = multiply_add(set(1.534581216e-4F), f, set(1.339993118e-3F));
        p = multiply_add(p, f, set(9.618488956e-3F));
        p = multiply_add(p, f, set(5.550328777e-2F));
        p = multiply_add(p, f, set(2.402264689e-1F));
        p = multiply_add(p, f, set(6.931472057e-1F));
        p = multiply_add(p, f, set(1.0F));
        // A NaN converts to the smallest integer, whose shift is 0.
        const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
        return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
    }

    // Rows become columns: 8 x 8 in registers.
    KERNEL_INLINE void transpose(vec (&x)[lanes]) {
        vec t[lanes];
        for (int i = 0; i < 8; i += 2) {
            t[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
            t[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
        }
        for (int i = 0; i < 8; i += 4) {
            x[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
            x[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
            x[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
            x[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
        }
        for (int i = 0; i < 4; i++) {
            const vec low = _mm256_permute2f128_ps(x[i], x[i + 4], 0x20);
            x[i + 4] = _mm256_permute2f128_ps(x[i], x[i + 4], 0x31);
            x[i] = low;
        }
    }
    KERNEL_INLINE float sum_lanes(vec x) {
        const __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
        const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
    }
    // As in vec_portable.h.
    KERNEL_INLINE vec sum_each(const vec (&x)[lanes]) {
        vec four[2];  // in each half, the sums over that half's lanes of four vectors
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            const vec* a = x + 4 * i;
            const vec low = add(_mm256_unpacklo_ps(a[0], a[1]), _mm256_unpackhi_ps(a[0], a[1]));
            const vec high = add(_mm256_unpacklo_ps(a[2], a[3]), _mm256_unpackhi_ps(a[2], a[3]));
            four[i] = add(_mm256_shuffle_ps(low, high, 0x44), _mm256_shuffle_ps(low, high, 0xee));
        }
        return add(_mm256_permute2f128_ps(four[0], four[1], 0x20), _mm256_permute2f128_ps(four[0], four[1], 0x31));
    }

  protected:
    KERNEL_INLINE __m256i first(int64_t n) {
        const int count = static_cast<int>(n < lanes ? n : lanes);
        return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    }
};

// 16-bit storage.
template <class Conversion>
struct Format {
    using vec = __m256;
    KERNEL_INLINE vec load(const uint16_t* p) {
        return Conversion::widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    }
    KERNEL_INLINE vec load_first(const uint16_t* p, int64_t n) {
        if (n >= Vectors::lanes) return load(p);
        alignas(16) uint16_t all[Vectors::lanes] = {};
        for (int64_t i = 0; i < n; i++) all[i] = p[i];
        return load(all);
    }
    KERNEL_INLINE void store_first(uint16_t* p, int64_t n, vec x) {
        const __m128i narrow = Conversion::narrow(x);
        if (n >= Vectors::lanes) return _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrow);
        alignas(16) uint16_t all[Vectors::lanes];
        _mm_store_si128(reinterpret_cast<__m128i*>(all), narrow);
        for (int64_t i = 0; i < n; i++) p[i] = all[i];
    }
    KERNEL_INLINE float one(uint16_t x) { return _mm256_cvtss_f32(Conversion::widen(_mm_cvtsi32_si128(x))); }
};
struct Fp16 {
    KERNEL_INLINE __m256 widen(__m128i x) { return _mm256_cvtph_ps(x); }
    KERNEL_INLINE __m128i narrow(__m256 x) { return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT); }
};
struct Bfloat16 {
    KERNEL_INLINE __m256 widen(__m128i x) {
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
    }
    KERNEL_INLINE __m128i narrow(__m256 x) {  // to nearest even; a NaN must not round to infinity
        const __m256i bits = _mm256_castps_si256(x);
        const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
        const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
        const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
        const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
        const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
        return _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
    }
};

using F32 = Plain<Vectors>;
using F16 = Widened<Vectors, Format<Fp16>>;
using Bf16 = Widened<Vectors, Format<Bfloat16>>;

}  // namespace flash_attention::avx2
