// Element sizes, half precision, data buffers.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "support.h"

namespace {

TEST(Elements, Sizes) {
    const std::pair<int, std::size_t> sizes[] = {{ACL_FLOAT, 4},
                                                 {ACL_FLOAT16, 2},
                                                 {ACL_INT8, 1},
                                                 {ACL_INT32, 4},
                                                 {ACL_UINT8, 1},
                                                 {ACL_INT16, 2},
                                                 {ACL_UINT16, 2},
                                                 {ACL_UINT32, 4},
                                                 {ACL_INT64, 8},
                                                 {ACL_UINT64, 8},
                                                 {ACL_DOUBLE, 8},
                                                 {ACL_BOOL, 1},
                                                 {ACL_STRING, 0},
                                                 {ACL_BF16, 2},
                                                 {ACL_INT4, 0},
                                                 {ACL_UINT1, 0},
                                                 {ACL_COMPLEX64, 8},
                                                 {ACL_COMPLEX128, 16},
                                                 {ACL_COMPLEX32, 4},
                                                 {ACL_HIFLOAT8, 1},
                                                 {ACL_FLOAT8_E5M2, 1},
                                                 {ACL_FLOAT8_E4M3FN, 1},
                                                 {ACL_FLOAT8_E8M0, 1},
                                                 {ACL_FLOAT6_E3M2, 0},
                                                 {ACL_FLOAT6_E2M3, 0},
                                                 {ACL_FLOAT4_E2M1, 0},
                                                 {ACL_FLOAT4_E1M2, 0},
                                                 {ACL_DT_UNDEFINED, 0},
                                                 {5, 0},
                                                 {14, 0},
                                                 {31, 0},
                                                 {42, 0},
                                                 {1000, 0}};
    for (const auto& [type, size] : sizes) EXPECT_EQ(aclDataTypeSize(static_cast<aclDataType>(type)), size) << type;
}

// The value of a half by its definition.
double value_of(uint16_t half) {
    const int exponent = (half >> 10) & 0x1F;
    const int mantissa = half & 0x3FF;
    double magnitude = 0;
    if (exponent == 0x1F) {
        magnitude = mantissa == 0 ? HUGE_VAL : std::nan("");
    } else if (exponent == 0) {
        magnitude = std::ldexp(mantissa, -24);
    } else {
        magnitude = std::ldexp(1024 + mantissa, exponent - 25);
    }
    return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(Elements, EveryHalfConvertsAndComesBack) {
    for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
        const auto half = static_cast<aclFloat16>(bits);
        const float value = aclFloat16ToFloat(half);
        const double expected = value_of(half);
        if (std::isnan(expected)) {
            ASSERT_TRUE(std::isnan(value)) << bits;
            ASSERT_TRUE(std::isnan(value_of(aclFloatToFloat16(value)))) << bits;
            continue;
        }
        ASSERT_EQ(value, expected) << bits;
        ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
        ASSERT_EQ(aclFloatToFloat16(value), half) << bits;
    }
}

// Between each two neighbours: below the middle goes down, above it up, the middle to the even one.
TEST(Elements, RoundsToNearestEven) {
    for (uint32_t bits = 0; bits < 0x7C00; ++bits) {
        const auto lower = static_cast<aclFloat16>(bits);
        const auto upper = static_cast<aclFloat16>(bits + 1);
        // The neighbour of the largest finite half would be 65536; from the middle on it is infinity.
        const double top = upper == 0x7C00 ? 65536.0 : value_of(upper);
        const auto middle = static_cast<float>((value_of(lower) + top) / 2);
        const float below = std::nextafter(middle, 0.0F);
        const float above = std::nextafter(middle, std::numeric_limits<float>::infinity());
        ASSERT_EQ(aclFloatToFloat16(middle), (bits & 1) == 0 ? lower : upper) << bits;
        ASSERT_EQ(aclFloatToFloat16(below), lower) << bits;
        ASSERT_EQ(aclFloatToFloat16(above), upper) << bits;
        ASSERT_EQ(aclFloatToFloat16(-middle), ((bits & 1) == 0 ? lower : upper) | 0x8000) << bits;
    }
}

TEST(Elements, ExtremesOfFloat) {
    EXPECT_EQ(aclFloatToFloat16(std::numeric_limits<float>::infinity()), 0x7C00);
    EXPECT_EQ(aclFloatToFloat16(-std::numeric_limits<float>::infinity()), 0xFC00);
    EXPECT_EQ(aclFloatToFloat16(std::numeric_limits<float>::max()), 0x7C00);
    EXPECT_EQ(aclFloatToFloat16(std::numeric_limits<float>::denorm_min()), 0x0000);
    EXPECT_EQ(aclFloatToFloat16(-0.0F), 0x8000);
    EXPECT_TRUE(std::isnan(value_of(aclFloatToFloat16(std::bit_cast<float>(0x7F800001U))))) << "a NaN of low bits only";
}

TEST(DataBuffer, HoldsAddressAndSize) {
    int data[4] = {};
    aclDataBuffer* const buffer = aclCreateDataBuffer(data, sizeof(data));
    ASSERT_NE(buffer, nullptr);
    EXPECT_EQ(aclGetDataBufferAddr(buffer), data);
    EXPECT_EQ(aclGetDataBufferSizeV2(buffer), sizeof(data));
    EXPECT_EQ(aclGetDataBufferSize(buffer), sizeof(data));
    EXPECT_EQ(aclUpdateDataBuffer(buffer, nullptr, (std::size_t{1} << 32) + 5), ACL_SUCCESS);
    EXPECT_EQ(aclGetDataBufferAddr(buffer), nullptr);
    EXPECT_EQ(aclGetDataBufferSizeV2(buffer), (std::size_t{1} << 32) + 5);
    EXPECT_EQ(aclGetDataBufferSize(buffer), 5U) << "cut to 32 bits";
    EXPECT_EQ(aclDestroyDataBuffer(buffer), ACL_SUCCESS);
}

TEST(DataBuffer, Null) {
    const auto parts = {std::string_view("dataBuffer cannot be nullptr")};
    expect_failure(aclDestroyDataBuffer(nullptr), ACL_ERROR_INVALID_PARAM, parts);
    expect_failure(aclUpdateDataBuffer(nullptr, nullptr, 0), ACL_ERROR_INVALID_PARAM, parts);
    EXPECT_EQ(aclGetDataBufferAddr(nullptr), nullptr);
    expect_failure(ACL_ERROR_INVALID_PARAM, ACL_ERROR_INVALID_PARAM, parts);
    EXPECT_EQ(aclGetDataBufferSize(nullptr), 0U);
    expect_failure(ACL_ERROR_INVALID_PARAM, ACL_ERROR_INVALID_PARAM, parts);
    EXPECT_EQ(aclGetDataBufferSizeV2(nullptr), 0U);
    expect_failure(ACL_ERROR_INVALID_PARAM, ACL_ERROR_INVALID_PARAM, parts);
}

}  // namespace
