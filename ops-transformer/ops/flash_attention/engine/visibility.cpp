#include "engine/visibility.h"

namespace flash_attention {

namespace {

// Sum of clamp(i + shift, low, high) over i in [begin, end).
int64_t sum_of_clamped(int64_t begin, int64_t end, int64_t shift, int64_t low, int64_t high) {
    const int64_t count = end - begin;
    if (count <= 0) return 0;
    const int64_t at_low = std::clamp(low - shift - begin, int64_t{0}, count);
    const int64_t at_high = std::clamp(end - 1 - (high - shift), int64_t{0}, count - at_low);
    const int64_t between = count - at_low - at_high;
    const int64_t first = begin + at_low + shift;  // the values between rise by one a row
    return at_low * low + at_high * high + between * first + between * (between - 1) / 2;
}

}  // namespace

Band make_band(SparseMode mode, int64_t pre, int64_t next, int64_t prefix, int64_t q_len, int64_t kv_len) {
    // No edge further away than this can be told from infinity; clamping first keeps the sums below from overflowing.
    const int64_t far = q_len + kv_len;
    pre = std::clamp(pre, -far, far);
    next = std::clamp(next, -far, far);
    const int64_t bottom_right = kv_len - q_len;  // diagonal through the last row and the last key
    Band band;
    switch (mode) {
        case SparseMode::kDefault:
            band.first = -pre;
            band.last = next;
            break;
        case SparseMode::kAll:
            break;
        case SparseMode::kLeftUpCausal:
            band.last = 0;
            break;
        case SparseMode::kRightDownCausal:
            band.last = bottom_right;
            break;
        case SparseMode::kPrefix:
            band.last = bottom_right;
            band.prefix = std::clamp(prefix, int64_t{0}, kv_len);
            break;
        case SparseMode::kBand:
            band.first = bottom_right - pre;
            band.last = bottom_right + next;
            break;
    }
    return band;
}

KeyRange visible_keys(const Band& band, int64_t row, int64_t kv_len) {
    const int64_t end = std::max(row + band.last + 1, band.prefix);
    return {std::clamp(row + band.first, int64_t{0}, kv_len), std::clamp(end, int64_t{0}, kv_len)};
}

KeyRange any_visible(const Band& band, int64_t row_begin, int64_t row_end, int64_t kv_len) {
    if (row_begin >= row_end || (band.first > band.last && band.prefix == 0)) return {};
    // Both ends of a row's range move right with the row, so the outer ends are those of the first and the last row.
    return {visible_keys(band, row_begin, kv_len).begin, visible_keys(band, row_end - 1, kv_len).end};
}

KeyRange all_visible(const Band& band, int64_t row_begin, int64_t row_end, int64_t kv_len) {
    if (row_begin >= row_end) return {};
    return {visible_keys(band, row_end - 1, kv_len).begin, visible_keys(band, row_begin, kv_len).end};
}

int64_t visible_pairs(const Band& band, int64_t row_begin, int64_t row_end, int64_t kv_len) {
    if (band.first > band.last && band.prefix == 0) return 0;
    const int64_t prefix = std::clamp(band.prefix, int64_t{0}, kv_len);
    return sum_of_clamped(row_begin, row_end, band.last + 1, prefix, kv_len) -
           sum_of_clamped(row_begin, row_end, band.first, 0, kv_len);
}

}  // namespace flash_attention
