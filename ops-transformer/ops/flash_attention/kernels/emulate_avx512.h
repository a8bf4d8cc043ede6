// The intrinsics of vec_avx512.h on processors without AVX-512, for tests only: SIMDe has most of them; what it lacks,
// or rounds in another way than the processor, is written out here in plain loops.
#pragma once

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/isa.h"

namespace flash_attention::FUSION_ISA::emulated {

using Floats = __m512;
using Words = __m512i;

template <class To, class From>
[[gnu::always_inline]] inline To bits_as(const From& from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

struct F16Lanes {
    float x[16];
};
struct U16Lanes {
    uint16_t x[32];
};
struct U16Half {
    uint16_t x[16];
};
struct U32Lanes {
    uint32_t x[16];
};

KERNEL_INLINE Floats maskz_loadu(uint32_t mask, const float* p) {
    F16Lanes r;
    for (int i = 0; i < 16; i++) r.x[i] = mask >> i & 1 ? p[i] : 0.0F;
    return bits_as<Floats>(r);
}
KERNEL_INLINE void mask_storeu(float* p, uint32_t mask, Floats v) {
    const auto x = bits_as<F16Lanes>(v);
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) p[i] = x.x[i];
}
KERNEL_INLINE __m256i maskz_loadu_half(uint32_t mask, const uint16_t* p) {
    U16Half r;
    for (int i = 0; i < 16; i++) r.x[i] = mask >> i & 1 ? p[i] : uint16_t{0};
    return bits_as<__m256i>(r);
}
KERNEL_INLINE void mask_storeu_half(uint16_t* p, uint32_t mask, __m256i v) {
    const auto x = bits_as<U16Half>(v);
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) p[i] = x.x[i];
}
KERNEL_INLINE Words maskz_loadu_words(uint32_t mask, const uint16_t* p) {
    U16Lanes r;
    for (int i = 0; i < 32; i++) r.x[i] = mask >> i & 1 ? p[i] : uint16_t{0};
    return bits_as<Words>(r);
}
KERNEL_INLINE Words widen_words(__m256i v) {
    const auto x = bits_as<U16Half>(v);
    U32Lanes r;
    for (int i = 0; i < 16; i++) r.x[i] = x.x[i];
    return bits_as<Words>(r);
}
KERNEL_INLINE __m256i narrow_words(Words v) {
    const auto x = bits_as<U32Lanes>(v);
    U16Half r;
    for (int i = 0; i < 16; i++) r.x[i] = static_cast<uint16_t>(x.x[i]);
    return bits_as<__m256i>(r);
}
KERNEL_INLINE Floats widen_fp16(__m256i v) {
    const auto x = bits_as<U16Half>(v);
    F16Lanes r;
    for (int i = 0; i < 16; i++) r.x[i] = _cvtsh_ss(x.x[i]);
    return bits_as<Floats>(r);
}
KERNEL_INLINE __m256i narrow_fp16(Floats v) {
    const auto x = bits_as<F16Lanes>(v);
    U16Half r;
    for (int i = 0; i < 16; i++) r.x[i] = _cvtss_sh(x.x[i], _MM_FROUND_TO_NEAREST_INT);
    return bits_as<__m256i>(r);
}
KERNEL_INLINE float first_lane(Floats v) {
    return bits_as<F16Lanes>(v).x[0];
}
KERNEL_INLINE float add_lanes(Floats v) {
    auto x = bits_as<F16Lanes>(v);
    for (int width = 8; width > 0; width /= 2)
        for (int i = 0; i < width; i++) x.x[i] += x.x[i + width];
    return x.x[0];
}

template <int order>
KERNEL_INLINE Floats shuffle_quarters(Floats a, Floats b) {
    const auto x = bits_as<F16Lanes>(a), y = bits_as<F16Lanes>(b);
    F16Lanes r;
    for (int i = 0; i < 16; i++) r.x[i] = (i < 8 ? x : y).x[(order >> (i / 4 * 2) & 3) * 4 + i % 4];
    return bits_as<Floats>(r);
}

// p * 2^floor(n). An n of -infinity gives 0 also for a NaN.
KERNEL_INLINE Floats scalef(Floats p, Floats n) {
    const auto a = bits_as<F16Lanes>(p), b = bits_as<F16Lanes>(n);
    F16Lanes r;
    for (int i = 0; i < 16; i++) {
        const float power = b.x[i] < -300.0F ? -300.0F : b.x[i] > 300.0F ? 300.0F : b.x[i];
        if (b.x[i] == -__builtin_inff()) {
            r.x[i] = 0.0F;
        } else if (b.x[i] != b.x[i]) {
            r.x[i] = b.x[i];
        } else {
            r.x[i] = std::ldexp(a.x[i], static_cast<int>(std::floor(power)));
        }
    }
    return bits_as<Floats>(r);
}

// The bf16 instructions take subnormal inputs as 0 and give 0 for subnormal results.
KERNEL_INLINE float flush(float x) {
    return __builtin_fabsf(x) < 0x1p-126F ? 0.0F * x : x;
}
KERNEL_INLINE uint16_t narrow_bf16(float x) {
    uint32_t bits = bits_as<uint32_t>(flush(x));
    if (x != x) return static_cast<uint16_t>(bits >> 16 | 0x40U);
    bits += 0x7FFFU + (bits >> 16 & 1U);
    return static_cast<uint16_t>(bits >> 16);
}
KERNEL_INLINE Words narrow_bf16(Floats high, Floats low) {
    const auto h = bits_as<F16Lanes>(high), l = bits_as<F16Lanes>(low);
    U16Lanes r;
    for (int i = 0; i < 16; i++) {
        r.x[i] = narrow_bf16(l.x[i]);
        r.x[i + 16] = narrow_bf16(h.x[i]);
    }
    return bits_as<Words>(r);
}
// Two fused multiply-adds, the upper halves first.
KERNEL_INLINE Floats add_products(Floats sum, __m512bh a, __m512bh b) {
    const auto x = bits_as<U32Lanes>(a), y = bits_as<U32Lanes>(b);
    auto r = bits_as<F16Lanes>(sum);
    for (int i = 0; i < 16; i++) {
        const auto upper = [](uint32_t v) { return flush(bits_as<float>(v & 0xFFFF0000U)); };
        const auto lower = [](uint32_t v) { return flush(bits_as<float>(v << 16)); };
        r.x[i] = flush(__builtin_fmaf(upper(x.x[i]), upper(y.x[i]), flush(r.x[i])));
        r.x[i] = flush(__builtin_fmaf(lower(x.x[i]), lower(y.x[i]), r.x[i]));
    }
    return bits_as<Floats>(r);
}

}  // namespace flash_attention::FUSION_ISA::emulated

#undef _mm512_shuffle_f32x4
#define _mm512_shuffle_f32x4(a, b, order) emulated::shuffle_quarters<order>(a, b)
#undef _mm512_scalef_ps
#undef _mm512_dpbf16_ps
#define _mm512_maskz_loadu_ps emulated::maskz_loadu
#define _mm512_mask_storeu_ps emulated::mask_storeu
#define _mm256_maskz_loadu_epi16 emulated::maskz_loadu_half
#define _mm256_mask_storeu_epi16 emulated::mask_storeu_half
#define _mm512_maskz_loadu_epi16 emulated::maskz_loadu_words
#define _mm512_cvtepu16_epi32 emulated::widen_words
#define _mm512_cvtepi32_epi16 emulated::narrow_words
#define _mm512_cvtph_ps emulated::widen_fp16
#define _mm512_cvtps_ph(x, rounding) emulated::narrow_fp16(x)
#define _mm512_cvtss_f32 emulated::first_lane
#define _mm512_reduce_add_ps emulated::add_lanes
#define _mm512_scalef_ps emulated::scalef
#define _mm512_cvtne2ps_pbh emulated::narrow_bf16
#define _mm512_dpbf16_ps emulated::add_products
