// Which keys each row sees, worked out by hand from the definition of the sparse modes, for a mask that hides nothing
// by itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace flash_attention::testing {

struct WorkedGrid {
    int64_t mode, pre, next;
    std::vector<std::string> rows;  // one text a row, one character a key, 1 = visible

    int64_t q_len() const { return static_cast<int64_t>(rows.size()); }
    int64_t kv_len() const { return static_cast<int64_t>(rows[0].size()); }
    bool visible(int64_t i, int64_t j) const { return rows[i][j] == '1'; }
};

inline const std::vector<WorkedGrid>& worked_grids() {
    constexpr int64_t kNoLimit = 2147483647;  // as callers pass it
    static const std::vector<WorkedGrid> grids = {
        // Mode 0: a window along the diagonal from the top left corner.
        {0, kNoLimit, 0, {"100000", "110000", "111000", "111100"}},
        {0, 1, 2, {"111000", "111100", "011110", "001111"}},
        {0, 2, -1, {"000000", "100000", "110000", "011000"}},
        {0, -1, 3, {"011100", "001110", "000111", "000011"}},
        // The published examples of windows that leave rows without a key.
        {0,
         9,
         -3,
         {"0000000000", "0000000000", "0000000000", "1000000000", "1100000000", "1110000000", "1111000000",
          "1111100000", "1111110000", "1111111000", "0111111100", "0011111110", "0001111111"}},
        {0,
         -3,
         7,
         {"0001111100", "0000111110", "0000011111", "0000001111", "0000000111", "0000000011", "0000000001",
          "0000000000", "0000000000", "0000000000", "0000000000", "0000000000", "0000000000"}},
        {0,
         8,
         0,
         {"1000000000000", "1100000000000", "1110000000000", "1111000000000", "1111100000000", "1111110000000",
          "1111111000000", "1111111100000", "1111111110000", "0111111111000", "0011111111100", "0001111111110",
          "0000111111111"}},
        // Mode 1: the mask alone.
        {1, 0, 0, {"1111", "1111", "1111"}},
        // Mode 2: causal from the top left corner.
        {2, 0, 0, {"100000", "110000", "111000", "111100"}},
        {2, 0, 0, {"1000", "1100", "1110", "1111", "1111", "1111"}},
        // Mode 3: causal to the bottom right corner.
        {3, 0, 0, {"111000", "111100", "111110", "111111"}},
        {3, 0, 0, {"0000", "0000", "1000", "1100", "1110", "1111"}},
        {3, 0, 0, {"1000", "1100", "1110", "1111"}},
        // Mode 4: a window along the diagonal to the bottom right corner.
        {4, 2, 0, {"111000", "011100", "001110", "000111"}},
        {4, 3, 1, {"111100", "111110", "011111", "001111"}},
        {4, 3, 1, {"0000", "1000", "1100", "1110", "1111", "1111"}},
        {4, 3, -1, {"110000", "111000", "011100", "001110"}},
        {4, -1, 2, {"000110", "000011", "000001", "000000"}},
        {4,
         6,
         4,
         {"1111111100000000", "1111111110000000", "1111111111000000", "1111111111100000", "0111111111110000",
          "0011111111111000", "0001111111111100", "0000111111111110", "0000011111111111", "0000001111111111",
          "0000000111111111", "0000000011111111", "0000000001111111"}},
        // A mode that does not read pre and next must not care what they are.
        {1, -5, -5, {"1111", "1111", "1111"}},
        {2, -5, 7, {"1000", "1100", "1110"}},
        {3, 0, -9, {"1100", "1110", "1111"}},
    };
    return grids;
}

}  // namespace flash_attention::testing
