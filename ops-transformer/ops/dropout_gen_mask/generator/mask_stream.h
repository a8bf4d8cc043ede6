// A stream of random mask bits: what the bits of a dropout mask are. The generator over it is mask_bits.h.
//
// Bit number w belongs to the random word number w of Philox4x32-10 with the key `seed` and the counter (block,
// offset), where block = w / 4 gives four words that are used in order. The bit is 1, the element is kept, when u >=
// prob, where u in [0, 1) has the precision of a number type: as many low bits of the word as the type has fraction
// bits, divided by 2 to the power of that number. So everything is a comparison of integers.
#pragma once

#include <cstdint>

namespace dropout_gen_mask {

// The number type of u and prob.
enum class Precision { kF32, kF16, kBf16 };

constexpr int fraction_bits(Precision precision) {
    return precision == Precision::kF32 ? 23 : precision == Precision::kF16 ? 10 : 7;
}

struct MaskStream {
    uint64_t seed = 0, offset = 0;
    uint32_t word_bits = 0;   // the low bits of a word that count
    uint32_t first_kept = 0;  // words whose counting bits are this or more give a 1; word_bits + 1: none

    bool keeps_all() const { return first_kept == 0; }
    bool keeps_none() const { return first_kept > word_bits; }
};

// `drop_prob` in [0, 1] is rounded to float and then to the type, so that the share of zeros is a multiple of
// 2^-fraction_bits, and the same seed gives different masks for different types.
MaskStream make_stream(uint64_t seed, uint64_t offset, double drop_prob, Precision precision);

}  // namespace dropout_gen_mask
