// The conversions work on bits; the judge here works with doubles, slowly and by the definition: a value of a type with
// f fraction bits and smallest exponent e is a whole number times 2^max(exponent - f, e - f).
#include "opbase/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>

#include "support.h"

namespace {

struct Format {
    const char* name;
    int fraction_bits;
    int min_exponent;  // of normal numbers
    int max_exponent;
    uint16_t infinity;
};

void PrintTo(const Format* format, std::ostream* out) {
    *out << format->name;
}

constexpr Format kFp16{"fp16", 10, -14, 15, 0x7C00};
constexpr Format kBf16{"bf16", 7, -126, 127, 0x7F80};

uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
}
float float_of(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}

bool is_nan_code(const Format& format, uint16_t code) {
    return (code & 0x7FFF) > format.infinity;
}

// The value of a code that is not a NaN.
double decode(const Format& format, uint16_t code) {
    const int magnitude = code & 0x7FFF;
    const double sign = (code & 0x8000) != 0 ? -1.0 : 1.0;
    if (magnitude == format.infinity) return sign * std::numeric_limits<double>::infinity();
    const int exponent_field = magnitude >> format.fraction_bits;
    const int fraction = magnitude & ((1 << format.fraction_bits) - 1);
    const int whole = exponent_field == 0 ? fraction : fraction + (1 << format.fraction_bits);
    const int exponent = exponent_field == 0 ? format.min_exponent : format.min_exponent + exponent_field - 1;
    return sign * std::ldexp(whole, exponent - format.fraction_bits);
}

// The code nearest to a value that is not a NaN, ties to the even code.
uint16_t encode(const Format& format, double value) {
    const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
    const double magnitude = std::fabs(value);
    if (std::isinf(magnitude)) return sign | format.infinity;
    const int exponent = magnitude == 0 ? format.min_exponent : std::max(format.min_exponent, std::ilogb(magnitude));
    const double quotient = std::ldexp(magnitude, format.fraction_bits - exponent);  // exact
    double whole = std::floor(quotient);
    const double rest = quotient - whole;
    if (rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2) == 1)) whole += 1;
    // Codes count up evenly: rounding up to the next power of two, or from subnormal to normal, needs no special care.
    const int base = (exponent - format.min_exponent) << format.fraction_bits;
    const int code = base + static_cast<int>(whole);
    return static_cast<uint16_t>(sign | std::min<int>(code, format.infinity));
}

// What narrowing a NaN gives: sign and upper payload bits stay, the quiet bit is set.
uint16_t encode_nan(const Format& format, float value) {
    const uint32_t bits = bits_of(value);
    const uint32_t payload = (bits & 0x7FFFFF) >> (23 - format.fraction_bits);
    const uint32_t quiet = 1U << (format.fraction_bits - 1);
    return static_cast<uint16_t>(((bits >> 16) & 0x8000) | format.infinity | quiet | payload);
}

uint16_t narrow(const Format& format, float value) {
    return &format == &kFp16 ? opbase::float_to_fp16(value) : opbase::float_to_bf16(value);
}
float widen(const Format& format, uint16_t code) {
    return &format == &kFp16 ? opbase::fp16_to_float(code) : opbase::bf16_to_float(code);
}

void expect_narrow(const Format& format, float value) {
    const uint16_t expected = std::isnan(value) ? encode_nan(format, value) : encode(format, value);
    ASSERT_EQ(narrow(format, value), expected) << "float bits 0x" << std::hex << bits_of(value);
}

class Float16 : public testing::TestWithParam<const Format*> {};

INSTANTIATE_TEST_SUITE_P(Types, Float16, testing::Values(&kFp16, &kBf16),
                         [](const auto& info) { return info.param->name; });

TEST_P(Float16, WidensEveryValue) {
    const Format& format = *GetParam();
    for (uint32_t i = 0; i < 65536; i++) {
        const auto code = static_cast<uint16_t>(i);
        const float value = widen(format, code);
        if (is_nan_code(format, code)) {
            const uint32_t payload = static_cast<uint32_t>(code & (format.infinity ^ 0x7FFF))
                                     << (23 - format.fraction_bits);
            const uint32_t sign = static_cast<uint32_t>(code & 0x8000) << 16;
            ASSERT_EQ(bits_of(value), sign | 0x7FC00000U | payload) << "code 0x" << std::hex << code;
        } else {
            ASSERT_EQ(value, decode(format, code)) << "code 0x" << std::hex << code;
            ASSERT_EQ(std::signbit(value), (code & 0x8000) != 0) << "code 0x" << std::hex << code;
        }
    }
}

TEST_P(Float16, EveryValueSurvivesTheRoundTrip) {
    const Format& format = *GetParam();
    const int quiet = 1 << (format.fraction_bits - 1);
    for (uint32_t i = 0; i < 65536; i++) {
        const auto code = static_cast<uint16_t>(i);
        const int expected = is_nan_code(format, code) ? code | quiet : code;
        ASSERT_EQ(narrow(format, widen(format, code)), expected) << "code 0x" << std::hex << code;
    }
}

// Where rounding changes direction: each value, the middle between it and the next, and the floats beside both.
TEST_P(Float16, NarrowsAtEveryBoundary) {
    const Format& format = *GetParam();
    for (uint32_t code = 0; code < format.infinity; code++) {
        const double low = decode(format, static_cast<uint16_t>(code));
        // The distance beyond the largest finite value is that below it.
        const double step = code + 1 == format.infinity ? low - decode(format, static_cast<uint16_t>(code - 1))
                                                        : decode(format, static_cast<uint16_t>(code + 1)) - low;
        for (const double centre : {low, low + step / 2}) {
            const auto value = static_cast<float>(centre);
            for (int32_t distance = -2; distance <= 2; distance++) {
                const auto bits = static_cast<uint32_t>(static_cast<int32_t>(bits_of(value)) + distance);
                if (bits > 0x7F800000U) continue;  // below zero or beyond infinity
                expect_narrow(format, float_of(bits));
                expect_narrow(format, float_of(bits | 0x80000000U));
                if (HasFatalFailure()) return;
            }
        }
    }
}

TEST_P(Float16, NarrowsRandomFloats) {
    const Format& format = *GetParam();
    std::mt19937_64 rng = make_rng();
    for (int i = 0; i < 2'000'000; i++) {
        const uint64_t random = rng();
        expect_narrow(format, float_of(static_cast<uint32_t>(random)));  // all exponents, NaNs included
        // And exponents around fp16's range, where a uniform choice seldom goes.
        const uint32_t exponent = 127 - 27 + static_cast<uint32_t>(random >> 32) % 46;
        expect_narrow(format, float_of((static_cast<uint32_t>(random) & 0x807FFFFFU) | exponent << 23));
        if (HasFatalFailure()) return;
    }
}

TEST(Float16, KnownValues) {
    EXPECT_EQ(opbase::float_to_fp16(1.0F), 0x3C00);
    EXPECT_EQ(opbase::float_to_fp16(-2.0F), 0xC000);
    EXPECT_EQ(opbase::float_to_fp16(65504.0F), 0x7BFF);
    EXPECT_EQ(opbase::float_to_fp16(65519.996F), 0x7BFF);
    EXPECT_EQ(opbase::float_to_fp16(65520.0F), 0x7C00);
    EXPECT_EQ(opbase::float_to_fp16(std::ldexp(1.0F, -24)), 0x0001);
    EXPECT_EQ(opbase::float_to_fp16(std::ldexp(1.0F, -25)), 0x0000);  // a tie goes to even zero
    EXPECT_EQ(opbase::float_to_fp16(std::ldexp(1.5F, -25)), 0x0001);
    EXPECT_EQ(opbase::float_to_bf16(1.0F), 0x3F80);
    EXPECT_EQ(opbase::float_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
    EXPECT_EQ(opbase::bf16_to_float(0xFF80), -std::numeric_limits<float>::infinity());
}

}  // namespace
