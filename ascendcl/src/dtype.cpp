#include "ascendcl/dtype.h"

#include <fmt/format.h>

#include <string_view>

#include "call.h"

namespace ascendcl {
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

const DtypeFacts* find(int number) {
    for (const DtypeFacts& facts : kDtypes) {
        if (facts.dtype == number) return &facts;
    }
    return nullptr;
}

}  // namespace

int64_t element_size(aclDataType dtype) noexcept {
    const DtypeFacts* const facts = find(number_of(dtype));
    return facts != nullptr ? facts->size : 0;
}

std::string dtype_name(aclDataType dtype) {
    const int number = number_of(dtype);
    const DtypeFacts* const facts = find(number);
    return facts != nullptr ? std::string(facts->name) : fmt::format("unknown ({})", number);
}

}  // namespace ascendcl
