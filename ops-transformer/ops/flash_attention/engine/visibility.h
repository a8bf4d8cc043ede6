// Which keys a query row may see, as integers only. Everything that decides about visibility asks here: kernels skip
// and mask blocks with it, the schedule weighs work with it, the documentation's pictures are drawn from it.
//
// Every sparse mode is a band that follows the diagonal, plus a prefix of keys that all rows see:
//   row i sees key j   when   i + first <= j <= i + last   or   j < prefix.
// A prefix comes only with first = -infinity, so that the keys of a row are always one range.
#pragma once

#include <algorithm>
#include <cstdint>

namespace flash_attention {

struct KeyRange {
    int64_t begin = 0, end = 0;
    bool empty() const { return begin >= end; }
};

// Far enough for every legal length, and small enough that sums of a few never overflow.
inline constexpr int64_t kUnlimited = int64_t{1} << 60;

struct Band {
    int64_t first = -kUnlimited;
    int64_t last = kUnlimited;
    int64_t prefix = 0;
};

// The numbers are those of the operators' sparseMode argument. Of its other values 6 is the compressed form of 5, and 7
// and 8 are mixtures: one sequence is kBand, the others are kRightDownCausal or kLeftUpCausal.
enum class SparseMode { kDefault = 0, kAll = 1, kLeftUpCausal = 2, kRightDownCausal = 3, kBand = 4, kPrefix = 5 };

// The band of a sequence. Modes 0 and 4 read pre and next (rows see at most `pre` keys to the left of the diagonal and
// `next` to the right of it; negative values move the edge across); the diagonal starts at the top left corner for
// modes 0 and 2 and ends at the bottom right corner for modes 3, 4 and 5. Mode 5 is mode 3
// plus the keys before `prefix`. Any int64 is legal for pre, next and prefix.
Band make_band(SparseMode mode, int64_t pre, int64_t next, int64_t prefix, int64_t q_len, int64_t kv_len);

// The keys that row `row` sees, within [0, kv_len).
KeyRange visible_keys(const Band& band, int64_t row, int64_t kv_len);

// The smallest range with all keys that any of the rows [row_begin, row_end) sees, and the keys that all of them see.
KeyRange any_visible(const Band& band, int64_t row_begin, int64_t row_end, int64_t kv_len);
KeyRange all_visible(const Band& band, int64_t row_begin, int64_t row_end, int64_t kv_len);

// Number of visible pairs of rows [row_begin, row_end): the work in a block, in closed form.
int64_t visible_pairs(const Band& band, int64_t row_begin, int64_t row_end, int64_t kv_len);

}  // namespace flash_attention
