// Drops weights whose bit in the packed mask is 0. The division by the keep probability is left to the end of the row,
// where it joins the division by the sum.
#pragma once

#include <cstdint>

#include "kernels/dispatch.h"
#include "kernels/tile.h"

namespace flash_attention::portable {

// Bits follow each other without padding, least significant bit of a byte first: row i, key j of this head is bit
// drop_first_bit + i * kv_len + j, where i counts from the block's first row.
inline void drop_weights(const ForwardBlock& block, int64_t key_begin, int64_t keys, float* weights) {
    for (int64_t i = 0; i < block.row_end - block.row_begin; i++) {
        const int64_t first = block.drop_first_bit + i * block.kv_len + key_begin;
        for (int64_t j = 0; j < keys; j++) {
            const int64_t bit = first + j;
            if ((block.drop_mask[bit >> 3] >> (bit & 7) & 1) == 0) weights[j * kQueryBlock + i] = 0.0F;
        }
    }
}

}  // namespace flash_attention::portable
