// The positional bias (pse): where it enters the score, and which stored row a query row reads.
#pragma once

#include <cstdint>

namespace flash_attention {

enum class BiasKind {
    kNone,
    kInside,      // (q.k + bias) * scale, a tensor of the query's type
    kOutside,     // q.k * scale + bias, likewise
    kLinear,      // q.k * scale - slope * |distance|, one fp32 slope a head
    kSquareRoot,  // q.k * scale - slope * sqrt(|distance|)
};

constexpr bool is_bias_tensor(BiasKind kind) {
    return kind == BiasKind::kInside || kind == BiasKind::kOutside;
}
constexpr bool is_bias_slope(BiasKind kind) {
    return kind == BiasKind::kLinear || kind == BiasKind::kSquareRoot;
}

// Rows that a compressed bias stores: the last ones of the full matrix.
inline constexpr int64_t kCompressedBiasRows = 1024;

// Row `row` of a bias matrix of `full_rows` rows of which the last 1024 are stored: element (row, j) is stored element
// (stored_row, j + shift). An earlier row is read from the stored row with the same remainder, moved so that the
// distance j - row to the diagonal stays the same; for j > row the moved column may lie past the end: there
// is no entry for such a pair.
struct StoredBiasRow {
    int64_t row, shift;
};
constexpr StoredBiasRow stored_bias_row(int64_t row, int64_t full_rows) {
    const int64_t first_stored = full_rows - kCompressedBiasRows;
    if (row >= first_stored) return {row - first_stored, 0};
    const int64_t r = row % kCompressedBiasRows;
    return {r, full_rows - row - kCompressedBiasRows + r};
}

}  // namespace flash_attention
