// Element types by their bits: the judge's own conversions, so that it does not trust the ones it judges.
#pragma once

#include <cstdint>

namespace flash_attention::testing {

enum class DType { kFp32, kFp16, kBf16 };

int64_t element_bytes(DType dtype);

// Half a unit in the last place, relative: the largest error of rounding a normal number to the type.
double unit_roundoff(DType dtype);
// The distance of the smallest numbers of the type.
double smallest_step(DType dtype);

// Nearest number of the type, ties to even; bits in the low end.
uint32_t to_bits(DType dtype, double value);
double from_bits(DType dtype, uint32_t bits);

inline double rounded(DType dtype, double value) {
    return from_bits(dtype, to_bits(dtype, value));
}

// One element at `address`, which need not be aligned.
void store_element(DType dtype, void* address, double value);
uint32_t load_bits(DType dtype, const void* address);

}  // namespace flash_attention::testing
