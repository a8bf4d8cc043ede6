#include "opbase/dtype.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace {

struct Expected {
    int value;
    int64_t size;
    const char* name;
};

// Every number that the interface assigns; 0 bytes for types of less than a byte.
constexpr Expected kDtypes[] = {
    {-1, 0, "UNDEFINED"},   {0, 4, "FLOAT"},        {1, 2, "FLOAT16"},        {2, 1, "INT8"},
    {3, 4, "INT32"},        {4, 1, "UINT8"},        {6, 2, "INT16"},          {7, 2, "UINT16"},
    {8, 4, "UINT32"},       {9, 8, "INT64"},        {10, 8, "UINT64"},        {11, 8, "DOUBLE"},
    {12, 1, "BOOL"},        {13, 0, "STRING"},      {16, 8, "COMPLEX64"},     {17, 16, "COMPLEX128"},
    {27, 2, "BFLOAT16"},    {29, 0, "INT4"},        {30, 0, "UINT1"},         {33, 4, "COMPLEX32"},
    {34, 1, "HIFLOAT8"},    {35, 1, "FLOAT8_E5M2"}, {36, 1, "FLOAT8_E4M3FN"}, {37, 1, "FLOAT8_E8M0"},
    {38, 0, "FLOAT6_E3M2"}, {39, 0, "FLOAT6_E2M3"}, {40, 0, "FLOAT4_E2M1"},   {41, 0, "FLOAT4_E1M2"},
};

TEST(Dtype, SizesAndNamesOfAllTypes) {
    for (const Expected& e : kDtypes) {
        const auto dtype = static_cast<aclDataType>(e.value);
        EXPECT_EQ(opbase::element_size(dtype), e.size) << e.name;
        EXPECT_EQ(opbase::dtype_name(dtype), e.name);
    }
}

TEST(Dtype, UnassignedNumbersAreUnknown) {
    std::set<int> assigned;
    for (const Expected& e : kDtypes) assigned.insert(e.value);
    for (int value = -1; value < 64; value++) {
        if (assigned.count(value) != 0) continue;
        EXPECT_EQ(opbase::element_size(static_cast<aclDataType>(value)), 0) << value;
        EXPECT_EQ(opbase::dtype_name(static_cast<aclDataType>(value)), "unknown (" + std::to_string(value) + ")");
    }
}

TEST(Format, PlainFormats) {
    const std::set<int> plain = {0, 1, 2, 16, 27, 30, 35, 47};  // NCHW NHWC ND HWCN NDHWC NCDHW NC NCL
    for (int value = -1; value < 64; value++) {
        EXPECT_EQ(opbase::is_plain_format(static_cast<aclFormat>(value)), plain.count(value) == 1) << value;
    }
}

TEST(Format, Names) {
    EXPECT_EQ(opbase::format_name(ACL_FORMAT_ND), "ND");
    EXPECT_EQ(opbase::format_name(ACL_FORMAT_NCHW), "NCHW");
    EXPECT_EQ(opbase::format_name(ACL_FORMAT_NCL), "NCL");
    EXPECT_EQ(opbase::format_name(ACL_FORMAT_FRACTAL_NZ), "FRACTAL_NZ");
    EXPECT_EQ(opbase::format_name(ACL_FORMAT_FRACTAL_NZ_C0_16), "FRACTAL_NZ_C0_16");
    EXPECT_EQ(opbase::format_name(ACL_FRACTAL_Z_3D), "FRACTAL_Z_3D");
    EXPECT_EQ(opbase::format_name(static_cast<aclFormat>(5)), "unknown (5)");
}

}  // namespace
