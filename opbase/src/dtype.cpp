#include "opbase/dtype.h"

namespace opbase {
namespace {

struct DtypeFacts {
    aclDataType dtype;
    int64_t size;  // bytes, 0 when an element is not a whole number of bytes
    std::string_view name;
};

constexpr DtypeFacts kDtypes[] = {
    {ACL_FLOAT, 4, "FLOAT"},
    {ACL_FLOAT16, 2, "FLOAT16"},
    {ACL_INT8, 1, "INT8"},
    {ACL_INT32, 4, "INT32"},
    {ACL_UINT8, 1, "UINT8"},
    {ACL_INT16, 2, "INT16"},
    {ACL_UINT16, 2, "UINT16"},
    {ACL_UINT32, 4, "UINT32"},
    {ACL_INT64, 8, "INT64"},
    {ACL_UINT64, 8, "UINT64"},
    {ACL_DOUBLE, 8, "DOUBLE"},
    {ACL_BOOL, 1, "BOOL"},
    {ACL_STRING, 0, "STRING"},
    {ACL_COMPLEX64, 8, "COMPLEX64"},
    {ACL_COMPLEX128, 16, "COMPLEX128"},
    {ACL_BF16, 2, "BFLOAT16"},
    {ACL_INT4, 0, "INT4"},
    {ACL_UINT1, 0, "UINT1"},
    {ACL_COMPLEX32, 4, "COMPLEX32"},
    {ACL_HIFLOAT8, 1, "HIFLOAT8"},
    {ACL_FLOAT8_E5M2, 1, "FLOAT8_E5M2"},
    {ACL_FLOAT8_E4M3FN, 1, "FLOAT8_E4M3FN"},
    {ACL_FLOAT8_E8M0, 1, "FLOAT8_E8M0"},
    {ACL_FLOAT6_E3M2, 0, "FLOAT6_E3M2"},
    {ACL_FLOAT6_E2M3, 0, "FLOAT6_E2M3"},
    {ACL_FLOAT4_E2M1, 0, "FLOAT4_E2M1"},
    {ACL_FLOAT4_E1M2, 0, "FLOAT4_E1M2"},
    {ACL_DT_UNDEFINED, 0, "UNDEFINED"},
};

struct FormatFacts {
    aclFormat format;
    bool plain;
    std::string_view name;
};

constexpr FormatFacts kFormats[] = {
    {ACL_FORMAT_ND, true, "ND"},
    {ACL_FORMAT_NCHW, true, "NCHW"},
    {ACL_FORMAT_NHWC, true, "NHWC"},
    {ACL_FORMAT_HWCN, true, "HWCN"},
    {ACL_FORMAT_NDHWC, true, "NDHWC"},
    {ACL_FORMAT_NCDHW, true, "NCDHW"},
    {ACL_FORMAT_NC, true, "NC"},
    {ACL_FORMAT_NCL, true, "NCL"},
    {ACL_FORMAT_NC1HWC0, false, "NC1HWC0"},
    {ACL_FORMAT_FRACTAL_Z, false, "FRACTAL_Z"},
    {ACL_FORMAT_NC1HWC0_C04, false, "NC1HWC0_C04"},
    {ACL_FORMAT_FRACTAL_NZ, false, "FRACTAL_NZ"},
    {ACL_FORMAT_NDC1HWC0, false, "NDC1HWC0"},
    {ACL_FRACTAL_Z_3D, false, "FRACTAL_Z_3D"},
    {ACL_FORMAT_FRACTAL_NZ_C0_16, false, "FRACTAL_NZ_C0_16"},
    {ACL_FORMAT_FRACTAL_NZ_C0_32, false, "FRACTAL_NZ_C0_32"},
    {ACL_FORMAT_FRACTAL_NZ_C0_2, false, "FRACTAL_NZ_C0_2"},
    {ACL_FORMAT_FRACTAL_NZ_C0_4, false, "FRACTAL_NZ_C0_4"},
    {ACL_FORMAT_FRACTAL_NZ_C0_8, false, "FRACTAL_NZ_C0_8"},
    {ACL_FORMAT_UNDEFINED, false, "UNDEFINED"},
};

constexpr std::string_view kUnknown = "unknown";

const DtypeFacts* find(aclDataType dtype) {
    for (const DtypeFacts& facts : kDtypes) {
        if (facts.dtype == dtype) return &facts;
    }
    return nullptr;
}

const FormatFacts* find(aclFormat format) {
    for (const FormatFacts& facts : kFormats) {
        if (facts.format == format) return &facts;
    }
    return nullptr;
}

}  // namespace

int64_t element_size(aclDataType dtype) noexcept {
    const DtypeFacts* facts = find(dtype);
    return facts != nullptr ? facts->size : 0;
}

std::string_view dtype_name(aclDataType dtype) noexcept {
    const DtypeFacts* facts = find(dtype);
    return facts != nullptr ? facts->name : kUnknown;
}

std::string_view format_name(aclFormat format) noexcept {
    const FormatFacts* facts = find(format);
    return facts != nullptr ? facts->name : kUnknown;
}

bool is_plain_format(aclFormat format) noexcept {
    const FormatFacts* facts = find(format);
    return facts != nullptr && facts->plain;
}

}  // namespace opbase
