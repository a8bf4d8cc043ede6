// Which keys each row sees, worked out by hand from the definition of the sparse modes, for a mask that hides nothing
// by itself.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace flash_attention::testing {

struct WorkedGrid {
    int64_t mode, pre, next;
    std::vector<std::string> rows;  // one text a row, one character a key, 1 = visible
    int64_t prefix = -1;            // of the only sequence; -1: no list

    int64_t q_len() const { return static_cast<int64_t>(rows.size()); }
    int64_t kv_len() const { return static_cast<int64_t>(rows[0].size()); }
    bool visible(int64_t i, int64_t j) const { return rows[i][j] == '1'; }
};

// Modes 0 to 4.
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

// Modes 5 and 6: causal to the bottom right corner, and a prefix that all rows see.
inline const std::vector<WorkedGrid>& worked_prefix_grids() {
    static const std::vector<WorkedGrid> grids = [] {
        std::vector<WorkedGrid> all;
        for (const int64_t mode : {5, 6}) {
            for (const auto& [prefix, rows] : std::vector<std::pair<int64_t, std::vector<std::string>>>{
                     {4, {"111100", "111100", "111110", "111111"}},
                     {5, {"111110", "111110", "111110", "111111"}},
                     {2, {"111000", "111100", "111110", "111111"}},  // the least that is legal
                     {6, {"111111", "111111", "111111", "111111"}},  // the most
                     {2, {"1100", "1100", "1100", "1100", "1110", "1111"}},
                     {0, {"0000", "0000", "1000", "1100", "1110", "1111"}},
                     {4,
                      {"1111000000", "1111000000", "1111000000", "1111000000", "1111100000", "1111110000", "1111111000",
                       "1111111100", "1111111110", "1111111111"}},
                     {5,
                      {"1111100000", "1111100000", "1111100000", "1111100000", "1111100000", "1111110000", "1111111000",
                       "1111111100", "1111111110", "1111111111"}},
                 }) {
                all.push_back({mode, -3, -3, rows, prefix});  // pre and next have no effect
            }
        }
        return all;
    }();
    return grids;
}

// Packed sequences whose first or last one is the rest of a sequence that was cut between two calls.
struct WorkedSplit {
    int64_t mode, pre, next;
    std::vector<std::vector<std::string>> sequences;  // the rows of each, as in WorkedGrid
    std::vector<int64_t> q_totals, kv_totals;
};

inline const std::vector<WorkedSplit>& worked_splits() {
    static const std::vector<WorkedSplit> splits = {
        // Rows 0 and 1 of a causal 4 x 6 at the end of the first call, and what follows in the second.
        {7, 6, -2, {{"100", "110", "111"}, {"111000", "111100"}}, {3, 5}, {3, 9}},
        {3,
         0,
         0,
         {{"111110", "111111"}, {"10000", "11000", "11100", "11110", "11111"}, {"1000", "1100", "1110", "1111"}},
         {2, 7, 11},
         {6, 11, 15}},
        // The same for a 5 x 4 that is causal from the top left corner.
        {2, 0, 0, {{"100", "110", "111"}, {"1000", "1100"}}, {3, 5}, {3, 7}},
        {8,
         4,
         1,
         {{"1110", "1111", "1111"}, {"10000", "11000", "11100", "11110", "11111"}, {"1000", "1100", "1110", "1111"}},
         {3, 8, 12},
         {4, 9, 13}},
        // The band is the last or the first sequence that has rows, whatever stands beside it; both edges count.
        {7, 3, 0, {{"1100", "1110", "1111"}, {"011110", "001111"}, {}, {}}, {3, 5, 5, 0}, {4, 10, 12, 0}},
        {8, 1, 0, {{}, {"0110", "0011"}, {}, {"100", "110"}}, {0, 2, 2, 4}, {5, 9, 9, 12}},
        // The only sequence is both.
        {7, 2, -1, {{"1000", "1100", "0110"}}, {3}, {4}},
        {8, 1, 1, {{"1110", "0111", "0011"}}, {3}, {4}},
    };
    return splits;
}

}  // namespace flash_attention::testing
