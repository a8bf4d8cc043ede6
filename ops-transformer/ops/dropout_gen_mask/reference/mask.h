// Mask bits as their description says, one at a time, with nothing of the code that is tested.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "acl/acl.h"

namespace dropout_gen_mask::reference {

inline std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
    for (int round = 0; round < 10; round++) {
        const uint64_t a = uint64_t{0xD2511F53U} * counter[0], b = uint64_t{0xCD9E8D57U} * counter[2];
        counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
                   static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
        key[0] += 0x9E3779B9U;
        key[1] += 0xBB67AE85U;
    }
    return counter;
}

inline uint32_t random_word(uint64_t seed, uint64_t offset, uint64_t number) {
    const uint64_t block = number / 4;
    const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
    const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
    return philox({low(block), high(block), low(offset), high(offset)}, {low(seed), high(seed)})[number % 4];
}

inline float from_bits(uint32_t bits) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

// The number from 1 to 2 whose fraction is the low bits of the word, less 1. A difference of two such numbers is exact.
inline float uniform(uint32_t word, aclDataType dtype) {
    if (dtype == ACL_FLOAT) return from_bits(127U << 23 | (word & 0x7FFFFFU)) - 1.0F;
    if (dtype == ACL_FLOAT16) return aclFloat16ToFloat(static_cast<uint16_t>(15U << 10 | (word & 0x3FFU))) - 1.0F;
    return from_bits((127U << 7 | (word & 0x7FU)) << 16) - 1.0F;
}

inline float round_prob(double prob, aclDataType dtype) {
    const auto x = static_cast<float>(prob);
    if (dtype == ACL_FLOAT) return x;
    if (dtype == ACL_FLOAT16) return aclFloat16ToFloat(aclFloatToFloat16(x));
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return from_bits((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16 << 16);
}

inline bool mask_bit(uint64_t seed, uint64_t offset, double prob, aclDataType dtype, uint64_t number) {
    return uniform(random_word(seed, offset, number), dtype) >= round_prob(prob, dtype);
}

// `bytes` bytes whose first bit is number `first`.
inline std::vector<uint8_t> mask(uint64_t seed, uint64_t offset, double prob, aclDataType dtype, uint64_t first,
                                 int64_t bytes) {
    std::vector<uint8_t> result(bytes, 0);
    for (int64_t i = 0; i < 8 * bytes; i++)
        result[i / 8] |= static_cast<uint8_t>(mask_bit(seed, offset, prob, dtype, first + i) << (i % 8));
    return result;
}

}  // namespace dropout_gen_mask::reference
