// Vectors of 64-bit lanes for the generator, as wide as the file that includes this is compiled for. Written with the
// compilers' vector extensions; only the product needs an instruction by name, because compilers do not see that the
// upper halves of the factors do not count.
#pragma once

#include <cstdint>

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "kernels/isa.h"

namespace dropout_gen_mask::FUSION_ISA {

#if defined(__AVX512F__)
inline constexpr int kLaneCount = 8;
#elif defined(__AVX2__)
inline constexpr int kLaneCount = 4;
#else
inline constexpr int kLaneCount = 2;
#endif

using Words = uint64_t __attribute__((vector_size(8 * kLaneCount)));

KERNEL_INLINE Words all_lanes(uint64_t x) {
    return Words{} + x;
}

KERNEL_INLINE bool any_lane(Words x) {
    uint64_t all = 0;
    for (int lane = 0; lane < kLaneCount; lane++) all |= x[lane];
    return all != 0;
}

// Of the low halves of the lanes.
KERNEL_INLINE Words multiply_low_halves(Words a, Words b) {
#if defined(__AVX512F__)
    return reinterpret_cast<Words>(_mm512_mul_epu32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
    return reinterpret_cast<Words>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif defined(__SSE2__)
    return reinterpret_cast<Words>(_mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
    return (a & 0xFFFFFFFFU) * (b & 0xFFFFFFFFU);
#endif
}

}  // namespace dropout_gen_mask::FUSION_ISA
