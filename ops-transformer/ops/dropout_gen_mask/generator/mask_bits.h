// Any bits of a mask stream, without generating what is before them. Kernels of any instruction set may include this.
//
// A lane of a vector computes blocks of Philox one after another, each of which gives four bits, and shifts them into
// its 64-bit result: so a lane's result is 64 consecutive bits, nothing moves between lanes, and every lane may begin
// anywhere: at consecutive places for a whole mask, in different rows for a tile of scores.
//
// Philox4x32 keeps four 32-bit words; a lane holds each in the low half of 64 bits, where the product of two words
// fits: its high half, shifted down, and its low half are what a round needs. Upper halves collect garbage, which no
// product looks at. With AVX2 a round of 4 blocks takes 2 products, 2 shifts and 4 exclusive ors, and the bits some 20
// operations after the 10 rounds: 100 operations for 64 bytes of random words. One Zen 3 core reaches 4 GB/s with AVX2
// and 2 GB/s with SSE2.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "dropout_gen_mask/generator/mask_stream.h"
#include "dropout_gen_mask/generator/words.h"

namespace dropout_gen_mask::FUSION_ISA {

inline constexpr int kRounds = 10;

// The four random words of each lane's block, in the low halves.
struct RandomBlock {
    Words word[4];
};

class MaskBits {
  public:
    [[gnu::always_inline]] explicit MaskBits(const MaskStream& stream)
        : offset_low_(all_lanes(stream.offset & 0xFFFFFFFFU)),
          offset_high_(all_lanes(stream.offset >> 32)),
          word_bits_(all_lanes(stream.word_bits)),
          first_kept_(all_lanes(stream.first_kept)) {
        auto low = static_cast<uint32_t>(stream.seed), high = static_cast<uint32_t>(stream.seed >> 32);
        for (auto& key : keys_) {
            key[0] = all_lanes(low);
            key[1] = all_lanes(high);
            low += 0x9E3779B9U;
            high += 0xBB67AE85U;
        }
    }

    // For each lane the 64 bits from bit first[lane] on, lowest first.
    [[gnu::always_inline]] Words bits64(Words first) const {
        Words block = first >> 2;
        Words bits{};
        for (int i = 0; i < 16; i++, block += 1) bits = bits >> 4 | four_bits(block) << 60;
        const Words skipped = first & 3U;
        if (!any_lane(skipped)) return bits;
        // Some lane begins inside of a block and needs bits of one more. Two shifts, since one by 64 is not defined.
        return bits >> skipped | four_bits(block) << 1 << (63 - skipped);
    }

    // Bits [first, first + count) packed, lowest first; the rest of the last byte are the bits that follow.
    [[gnu::always_inline]] void fill(int64_t first, int64_t count, uint8_t* to) const {
        const int64_t bytes = (count + 7) / 8;
        for (int64_t at = 0; at < bytes; at += 8 * kLaneCount) {
            Words begin{};
            for (int lane = 0; lane < kLaneCount; lane++)
                begin[lane] = static_cast<uint64_t>(first + 8 * at) + 64 * static_cast<uint64_t>(lane);
            const Words bits = bits64(begin);
            if (bytes - at >= 8 * kLaneCount) {
                std::memcpy(to + at, &bits, sizeof bits);
            } else {
                std::memcpy(to + at, &bits, static_cast<size_t>(bytes - at));
            }
        }
    }

    // A tile: `words` words of 64 bits for each of `rows` rows, of which row r begins at bit first + r * stride. Word w
    // of row r goes to to[r * words + w]. Lanes are rows, so that also short rows fill them.
    [[gnu::always_inline]] void fill_rows(int64_t first, int64_t stride, int64_t rows, int64_t words,
                                          uint64_t* to) const {
        for (int64_t row = 0; row < rows; row += kLaneCount) {
            const int64_t lanes = std::min<int64_t>(kLaneCount, rows - row);
            Words begin{};
            for (int64_t lane = 0; lane < kLaneCount; lane++)
                begin[lane] = static_cast<uint64_t>(first + (row + std::min(lane, lanes - 1)) * stride);
            for (int64_t word = 0; word < words; word++, begin += 64) {
                const Words bits = bits64(begin);
                for (int64_t lane = 0; lane < lanes; lane++) to[(row + lane) * words + word] = bits[lane];
            }
        }
    }

    // Block number[lane] of each lane.
    [[gnu::always_inline]] RandomBlock random_block(Words number) const {
        Words a = number, b = number >> 32, c = offset_low_, d = offset_high_;
#pragma GCC unroll 10
        for (const auto& key : keys_) {
            const Words of_a = multiply_low_halves(a, all_lanes(0xD2511F53U));
            const Words of_c = multiply_low_halves(c, all_lanes(0xCD9E8D57U));
            a = of_c >> 32 ^ b ^ key[0];
            b = of_c;
            c = of_a >> 32 ^ d ^ key[1];
            d = of_a;
        }
        return {{a, b, c, d}};
    }

  private:
    // The lowest four bits of each lane: which words of the block keep their element. A word that counts as less than
    // first_kept leaves a difference below 0, and its top bit says so.
    [[gnu::always_inline]] Words four_bits(Words number) const {
        const RandomBlock block = random_block(number);
        Words dropped{};
#pragma GCC unroll 4
        for (int i = 3; i >= 0; i--) dropped = dropped << 1 | ((block.word[i] & word_bits_) - first_kept_) >> 63;
        return dropped ^ 15U;
    }

    Words offset_low_, offset_high_, word_bits_, first_kept_;
    Words keys_[kRounds][2];
};

}  // namespace dropout_gen_mask::FUSION_ISA

namespace flash_attention::FUSION_ISA {

// The generator as a function of the kernel table.
inline void fill_mask(const dropout_gen_mask::MaskStream& stream, int64_t first, int64_t count, uint8_t* to) {
    dropout_gen_mask::FUSION_ISA::MaskBits(stream).fill(first, count, to);
}

}  // namespace flash_attention::FUSION_ISA
