// One bit for each pair of a key and a column: which pairs are seen, and which weights dropout keeps. A word a key,
// a bit a column (query row of the strip), so that a key's bits are lane masks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "dropout_gen_mask/generator/mask_bits.h"
#include "engine/visibility.h"
#include "kernels/dispatch.h"
#include "kernels/isa.h"

namespace flash_attention::FUSION_ISA {

KERNEL_INLINE uint64_t lowest_bits(int64_t count) {
    return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

// Of the columns, which are rows row_begin + column < row_end: those that the band lets see the key. Row i sees key j
// when j - last <= i <= j - first: a run of bits.
KERNEL_INLINE uint64_t columns_in_band(const Band& band, int64_t row_begin, int64_t rows, int64_t key) {
    if (key < band.prefix) return lowest_bits(rows);
    const int64_t begin = std::clamp(key - band.last - row_begin, int64_t{0}, rows);
    const int64_t end = std::clamp(key - band.first - row_begin + 1, begin, rows);
    return lowest_bits(end) & ~lowest_bits(begin);
}

// Byte k of the result holds bit k of every byte of x.
KERNEL_INLINE uint64_t transpose_bits(uint64_t x) {
    uint64_t t = (x ^ (x >> 7)) & 0x00AA00AA00AA00AAU;
    x ^= t ^ (t << 7);
    t = (x ^ (x >> 14)) & 0x0000CCCC0000CCCCU;
    x ^= t ^ (t << 14);
    t = (x ^ (x >> 28)) & 0x00000000F0F0F0F0U;
    return x ^ t ^ (t << 28);
}

// Eight bytes to eight bits: bit k is set where byte k is not zero.
KERNEL_INLINE uint64_t nonzero_bytes(uint64_t x) {
    constexpr uint64_t kLow = 0x7F7F7F7F7F7F7F7FU;
    const uint64_t high = (((x & kLow) + kLow) | x) & ~kLow;  // the top bit of each byte that is not zero
    return ((high >> 7) * 0x0102040810204080U) >> 56;
}

// Visits pairs eight keys by eight columns. bits_of(column, key, n) gives the bits of keys key .. key + n - 1 of a
// column; use(key, bits) gets them as a word of that key. Squares without a set bit are left out.
template <class BitsOf, class Use>
void transpose_pairs(int64_t keys, int64_t columns, BitsOf&& bits_of, Use&& use) {
    for (int64_t column = 0; column < columns; column += 8) {
        const int64_t used = std::min<int64_t>(8, columns - column);
        for (int64_t key = 0; key < keys; key += 8) {
            const int64_t n = std::min<int64_t>(8, keys - key);
            uint64_t square = 0;
            for (int64_t c = 0; c < used; c++) square |= bits_of(column + c, key, n) << (8 * c);
            if (square == 0) continue;
            square = transpose_bits(square);
            for (int64_t k = 0; k < n; k++) use(key + k, ((square >> (8 * k)) & 0xFFU) << column);
        }
    }
}

// Clears the bits of pairs that the explicit mask hides. `mask` points at (first row of the strip, first key).
inline void hide_masked(const uint8_t* mask, int64_t stride, int64_t keys, int64_t columns, uint64_t* seen) {
    const auto hidden = [=](int64_t column, int64_t key, int64_t n) {
        uint64_t bytes = 0;
        std::memcpy(&bytes, mask + column * stride + key, static_cast<size_t>(n));
        return nonzero_bytes(bytes);
    };
    transpose_pairs(keys, columns, hidden, [=](int64_t key, uint64_t bits) { seen[key] &= ~bits; });
}

// n <= 8 bits from bit `first` on; no byte without one of them is read.
KERNEL_INLINE uint64_t packed_bits(const uint8_t* bits, int64_t first, int64_t n) {
    const uint8_t* at = bits + (first >> 3);
    const int64_t shift = first & 7;
    uint64_t both = at[0];
    if (shift + n > 8) both |= static_cast<uint64_t>(at[1]) << 8;
    return (both >> shift) & lowest_bits(n);
}

// The bits of dropout; `first` is the bit of (first row of the strip, first key).
inline void load_kept(const ScoreBlock& block, int64_t first, int64_t keys, int64_t columns, uint64_t* kept) {
    std::fill_n(kept, keys, uint64_t{0});
    if (block.drop_stream == nullptr) {
        const auto bits_of = [&](int64_t column, int64_t key, int64_t n) {
            return packed_bits(block.drop_mask, first + column * block.kv_len + key, n);
        };
        return transpose_pairs(keys, columns, bits_of, [=](int64_t key, uint64_t bits) { kept[key] |= bits; });
    }
    const dropout_gen_mask::FUSION_ISA::MaskBits mask(*block.drop_stream);
    uint64_t rows[64];  // of 64 keys
    for (int64_t begin = 0; begin < keys; begin += 64) {
        mask.fill_rows(first + begin, block.kv_len, columns, 1, rows);
        const auto bits_of = [&](int64_t column, int64_t key, int64_t n) {
            return rows[column] >> key & lowest_bits(n);
        };
        transpose_pairs(std::min<int64_t>(64, keys - begin), columns, bits_of,
                        [=](int64_t key, uint64_t bits) { kept[begin + key] |= bits; });
    }
}

}  // namespace flash_attention::FUSION_ISA
