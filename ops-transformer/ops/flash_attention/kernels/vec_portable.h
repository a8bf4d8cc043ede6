// Vectors of four floats written with the compilers' vector extensions: SSE2 on x86-64, NEON on aarch64, scalar code
// elsewhere. The only file of the kernels that knows how a vector is made.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

namespace flash_attention::portable {

using Vec = float __attribute__((vector_size(16)));
using IntVec = int32_t __attribute__((vector_size(16)));  // comparison results: all bits or none, per lane

inline constexpr int kLanes = 4;
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline Vec load(const float* p) {
    Vec v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
inline void store(float* p, Vec v) {
    std::memcpy(p, &v, sizeof v);
}
inline Vec set(float x) {
    return Vec{x, x, x, x};
}
inline Vec zero() {
    return Vec{};
}

inline Vec select(IntVec condition, Vec yes, Vec no) {
    return reinterpret_cast<Vec>((condition & reinterpret_cast<IntVec>(yes)) |
                                 (~condition & reinterpret_cast<IntVec>(no)));
}
// The larger one; `a` when either is NaN, so that a maximum over scores drops a NaN score.
inline Vec max_or_first(Vec a, Vec b) {
    return select(b > a, b, a);
}

inline bool any(IntVec condition) {
    return (condition[0] | condition[1] | condition[2] | condition[3]) != 0;
}

// The four lowest bits of `bits` as a lane mask.
inline IntVec lanes_of(uint64_t bits) {
    const IntVec b = IntVec{} + static_cast<int32_t>(bits);
    return (b & IntVec{1, 2, 4, 8}) != 0;
}

// e^x for x <= 0: exactly 1 at 0, exactly 0 below about -87.3 and for -infinity, NaN for NaN.
// e^x = 2^n * 2^f with n = round(x log2 e) and |f| <= 1/2; the polynomial is the minimax one of degree 6 with constant
// term 1, relative error 2^-28.9 before rounding (1.7 * 2^-24 measured over [-1/2, 1/2]).
inline Vec exp_nonpositive(Vec x) {
    constexpr float kLog2E = 1.44269504088896341F;
    constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves the nearest integer in the low mantissa bits
    const Vec y = x * set(kLog2E);
    const Vec low = set(-127.0F);
    const Vec clamped = select(y < low, low, y);  // a NaN compares false and stays
    const Vec shifted = clamped + set(kRound);
    const Vec f = clamped - (shifted - set(kRound));
    Vec p = set(0x1.41fbbcp-13F);
    p = p * f + set(0x1.5f3e54p-10F);
    p = p * f + set(0x1.3b2d4cp-7F);
    p = p * f + set(0x1.c6aee8p-5F);
    p = p * f + set(0x1.ebfbdcp-3F);
    p = p * f + set(0x1.62e430p-1F);
    p = p * f + set(1.0F);
    // n + 127 as exponent bits; -127 gives the bits of 0.
    const IntVec exponent = (reinterpret_cast<IntVec>(shifted) - reinterpret_cast<IntVec>(set(kRound - 127.0F))) << 23;
    return p * reinterpret_cast<Vec>(exponent);
}

}  // namespace flash_attention::portable
