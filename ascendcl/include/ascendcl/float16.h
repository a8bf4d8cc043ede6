// Conversions between float and the two 16-bit types, on their bits. Narrowing rounds to nearest, ties to even;
// overflow becomes infinity, subnormals are exact, a NaN stays a NaN (made quiet, upper payload bits kept) as the
// processors' own instructions do. The default rounding mode of the processor is assumed.
//
// Loops over these functions vectorise, with SSE2 alone too. Where one side of a choice comes from a float operation,
// the choice is made with masks: g++ 12 turns a ?: into a jump around such an operation, because the operation might
// set an exception flag, and then gives up on the loop.
//
// They are inlined always: kernel files are compiled with different instruction sets, and a shared out-of-line copy
// could carry the instructions of one into a process that lacks them.
#pragma once

#include <cstdint>

namespace ascendcl {

// `yes` when a < b, else `no`, without a jump. Pre: a and b are below 2^31; SSE2 compares signed numbers only.
[[gnu::always_inline]] inline uint32_t choose_if_less(uint32_t a, uint32_t b, uint32_t yes, uint32_t no) {
    const uint32_t mask = -static_cast<uint32_t>(static_cast<int32_t>(a) < static_cast<int32_t>(b));
    return no ^ ((yes ^ no) & mask);
}

[[gnu::always_inline]] inline float fp16_to_float(uint16_t half) {
    // Half and float differ in the place of the exponent field (10 or 23 bits of fraction) and its bias (15 or 127).
    constexpr uint32_t kRebias = (127U - 15U) << 23;
    constexpr uint32_t kSmallestNormal = 1U << 23;  // of `shifted`, as the infinity
    constexpr uint32_t kInfinity = 31U << 23;
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000U) << 16;
    const uint32_t shifted = static_cast<uint32_t>(half & 0x7FFFU) << 13;
    const uint32_t normal = shifted + kRebias;
    const uint32_t special = (shifted + 2 * kRebias) | (shifted > kInfinity ? 0x00400000U : 0U);
    // A subnormal half is fraction * 2^-24, which is the spacing of floats in [0.5, 1): put it there and take 0.5 away.
    const float difference = __builtin_bit_cast(float, 0x3F000000U + (half & 0x03FFU)) - 0.5F;
    const auto subnormal = __builtin_bit_cast(uint32_t, difference);
    const uint32_t finite = choose_if_less(shifted, kSmallestNormal, subnormal, normal);
    return __builtin_bit_cast(float, choose_if_less(shifted, kInfinity, finite, special) | sign);
}

[[gnu::always_inline]] inline uint16_t float_to_fp16(float value) {
    constexpr uint32_t kInfinity = 0x7F800000U;
    constexpr uint32_t kSmallestNormal = (127U - 14U) << 23;  // 2^-14
    const auto bits = __builtin_bit_cast(uint32_t, value);
    const uint32_t sign = (bits >> 16) & 0x8000U;
    const uint32_t magnitude = bits & 0x7FFFFFFFU;
    // Adding just under half a unit, and one more when the kept part is odd, carries into the exponent where it must.
    const uint32_t rounded = (magnitude + 0x0FFFU + ((magnitude >> 13) & 1U) - ((127U - 15U) << 23)) >> 13;
    const uint32_t normal = rounded < 0x7C00U ? rounded : 0x7C00U;
    // Below 2^-14 the result is a multiple of 2^-24: the addition to 0.5 rounds to that spacing.
    const float sum = __builtin_bit_cast(float, magnitude) + 0.5F;
    const uint32_t subnormal = __builtin_bit_cast(uint32_t, sum) - 0x3F000000U;
    const uint32_t nan = 0x7E00U | ((magnitude >> 13) & 0x03FFU);
    const uint32_t number = choose_if_less(magnitude, kSmallestNormal, subnormal, normal);
    return static_cast<uint16_t>(choose_if_less(kInfinity, magnitude, nan, number) | sign);
}

[[gnu::always_inline]] inline float bf16_to_float(uint16_t value) {
    const uint32_t bits = static_cast<uint32_t>(value) << 16;
    const uint32_t quiet = (bits & 0x7FFFFFFFU) > 0x7F800000U ? 0x00400000U : 0U;
    return __builtin_bit_cast(float, bits | quiet);
}

[[gnu::always_inline]] inline uint16_t float_to_bf16(float value) {
    const auto bits = __builtin_bit_cast(uint32_t, value);
    const uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
    const uint32_t nan = (bits >> 16) | 0x0040U;
    return static_cast<uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? nan : rounded);
}

}  // namespace ascendcl
