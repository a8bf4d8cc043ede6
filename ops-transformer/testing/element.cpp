#include "testing/element.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace flash_attention::testing {
namespace {

// All three types are sign, exponent, mantissa; only the widths differ.
struct Format {
    int exponent_bits;
    int mantissa_bits;

    int lowest_exponent() const { return 2 - (1 << (exponent_bits - 1)); }  // of normal numbers: -126, -14
    uint32_t infinity() const { return ((1U << exponent_bits) - 1) << mantissa_bits; }
    uint32_t sign() const { return 1U << (exponent_bits + mantissa_bits); }
};

Format format_of(DType dtype) {
    switch (dtype) {
        case DType::kFp16:
            return {5, 10};
        case DType::kBf16:
            return {8, 7};
        default:
            return {8, 23};
    }
}

// By its bits, which is much faster than std::ldexp. Exact for the exponents of all three types and of any double.
double power_of_two(int exponent) {
    return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}
// The same way back: of 0 and of subnormal doubles a number that is below every type's lowest exponent.
int exponent_of(double magnitude) {
    return static_cast<int>(std::bit_cast<uint64_t>(magnitude) >> 52) - 1023;
}

}  // namespace

int64_t element_bytes(DType dtype) {
    return dtype == DType::kFp32 ? 4 : 2;
}

double unit_roundoff(DType dtype) {
    return std::ldexp(0.5, -format_of(dtype).mantissa_bits);
}

double smallest_step(DType dtype) {
    const Format f = format_of(dtype);
    return std::ldexp(1.0, f.lowest_exponent() - f.mantissa_bits);
}

uint32_t to_bits(DType dtype, double value) {
    const Format f = format_of(dtype);
    const uint32_t sign = std::signbit(value) ? f.sign() : 0;
    if (std::isnan(value)) return sign | f.infinity() | (1U << (f.mantissa_bits - 1));
    if (std::isinf(value)) return sign | f.infinity();
    const double magnitude = std::fabs(value);
    const int exponent = std::max(exponent_of(magnitude), f.lowest_exponent());
    // The mantissa with its leading one, as an integer. Adding it to the exponent field lets a carry move into the
    // exponent and makes subnormal numbers come out right, because they are those without a leading one at the lowest
    // exponent.
    const auto mantissa = static_cast<uint64_t>(std::nearbyint(magnitude * power_of_two(f.mantissa_bits - exponent)));
    const uint64_t bits = (static_cast<uint64_t>(exponent - f.lowest_exponent()) << f.mantissa_bits) + mantissa;
    return sign | static_cast<uint32_t>(std::min<uint64_t>(bits, f.infinity()));
}

double from_bits(DType dtype, uint32_t bits) {
    const Format f = format_of(dtype);
    const double sign = (bits & f.sign()) != 0 ? -1.0 : 1.0;
    const uint32_t magnitude = bits & (f.sign() - 1);
    if (magnitude > f.infinity()) return std::numeric_limits<double>::quiet_NaN();
    if (magnitude == f.infinity()) return sign * std::numeric_limits<double>::infinity();
    const uint32_t field = magnitude >> f.mantissa_bits;
    const uint32_t fraction = magnitude & ((1U << f.mantissa_bits) - 1);
    const uint32_t mantissa = field == 0 ? fraction : fraction | (1U << f.mantissa_bits);
    const int exponent = std::max(static_cast<int>(field), 1) - 1 + f.lowest_exponent();
    return sign * static_cast<double>(mantissa) * power_of_two(exponent - f.mantissa_bits);
}

void store_element(DType dtype, void* address, double value) {
    const uint32_t bits = to_bits(dtype, value);
    if (dtype == DType::kFp32) {
        std::memcpy(address, &bits, 4);
    } else {
        const auto half = static_cast<uint16_t>(bits);
        std::memcpy(address, &half, 2);
    }
}

uint32_t load_bits(DType dtype, const void* address) {
    if (dtype == DType::kFp32) {
        uint32_t bits = 0;
        std::memcpy(&bits, address, 4);
        return bits;
    }
    uint16_t half = 0;
    std::memcpy(&half, address, 2);
    return half;
}

}  // namespace flash_attention::testing
