// Visibility of one tile of scores: a word per key, a bit per query row of the block. Filled from the band, thinned out
// by the explicit mask; scores of hidden pairs are then selected away, never added to.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/visibility.h"
#include "kernels/dispatch.h"
#include "kernels/tile.h"

namespace flash_attention::portable {

inline constexpr int64_t kKeyBlock = kChain;
static_assert(kQueryBlock == 64, "a bit per query row in a 64-bit word");

inline uint64_t lowest_bits(int64_t count) {
    return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

class VisibleTile {
  public:
    // Visibility of keys [key_begin, key_end) for the rows of `block`. Returns true when every pair is visible.
    bool fill(const ForwardBlock& block, int64_t key_begin, int64_t key_end) {
        const int64_t rows = block.row_end - block.row_begin;
        const KeyRange all = all_visible(block.band, block.row_begin, block.row_end, block.kv_len);
        bool full = all.begin <= key_begin && key_end <= all.end;
        for (int64_t j = key_begin; j < key_end; j++)
            rows_[j - key_begin] = full ? lowest_bits(rows) : rows_in_band(block, rows, j);
        if (block.mask != nullptr) full = !hide_masked(block, rows, key_begin, key_end) && full;
        return full;
    }

    uint64_t operator[](int64_t key) const { return rows_[key]; }

    void hide(int64_t key, int64_t row) { rows_[key] &= ~(uint64_t{1} << row); }

    bool nothing_visible(int64_t keys) const {
        uint64_t seen = 0;
        for (int64_t j = 0; j < keys; j++) seen |= rows_[j];
        return seen == 0;
    }

  private:
    // Row i sees key j when j - last <= i <= j - first: a run of bits.
    static uint64_t rows_in_band(const ForwardBlock& block, int64_t rows, int64_t j) {
        if (j < block.band.prefix) return lowest_bits(rows);
        const int64_t begin = std::clamp(j - block.band.last - block.row_begin, int64_t{0}, rows);
        const int64_t end = std::clamp(j - block.band.first - block.row_begin + 1, begin, rows);
        return lowest_bits(end) & ~lowest_bits(begin);
    }

    // Returns true when the mask hides anything.
    bool hide_masked(const ForwardBlock& block, int64_t rows, int64_t key_begin, int64_t key_end) {
        uint64_t hidden_any = 0;
        for (int64_t i = 0; i < rows; i++) {
            const uint8_t* mask = block.mask + i * block.mask_stride;
            for (int64_t j = key_begin; j < key_end; j++) {
                const uint64_t hidden = static_cast<uint64_t>(mask[j] != 0) << i;
                rows_[j - key_begin] &= ~hidden;
                hidden_any |= hidden;
            }
        }
        return hidden_any != 0;
    }

    uint64_t rows_[kKeyBlock];
};

}  // namespace flash_attention::portable
