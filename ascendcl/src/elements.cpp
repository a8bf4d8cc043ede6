// Element types: sizes, half precision, and data buffers.
#include <bit>
#include <cstdint>

#include "acl/acl_base.h"
#include "call.h"

using namespace ascendcl;

struct aclDataBuffer {
    void* data = nullptr;
    size_t size = 0;
};

namespace {

size_t element_size(int type) {
    switch (type) {
        case ACL_INT8:
        case ACL_UINT8:
        case ACL_BOOL:
        case ACL_HIFLOAT8:
        case ACL_FLOAT8_E5M2:
        case ACL_FLOAT8_E4M3FN:
        case ACL_FLOAT8_E8M0:
            return 1;
        case ACL_FLOAT16:
        case ACL_BF16:
        case ACL_INT16:
        case ACL_UINT16:
            return 2;
        case ACL_FLOAT:
        case ACL_INT32:
        case ACL_UINT32:
        case ACL_COMPLEX32:
            return 4;
        case ACL_DOUBLE:
        case ACL_INT64:
        case ACL_UINT64:
        case ACL_COMPLEX64:
            return 8;
        case ACL_COMPLEX128:
            return 16;
        default:  // below one byte, strings, unknown
            return 0;
    }
}

float half_to_float(uint16_t half) {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000U) << 16;
    const uint32_t exponent = (half >> 10) & 0x1FU;
    const uint32_t mantissa = half & 0x3FFU;
    if (exponent == 0x1FU) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13));  // infinity, NaN
    if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (mantissa << 13));
    // Zero and subnormals are multiples of 2^-24, which a float holds exactly.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

uint16_t float_to_half(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
    const uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U) return static_cast<uint16_t>(sign | 0x7E00U);   // NaN
    if (magnitude >= 0x477FF000U) return static_cast<uint16_t>(sign | 0x7C00U);  // from 65520 on: infinity
    if (magnitude < 0x38800000U) {
        // Below 2^-14 the step is 2^-24. Adding 0.5, whose own step that is, rounds to it with ties to even; the low
        // bits of the sum are the result, also when it rounds up to the smallest normal number.
        const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
        return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5F)));
    }
    // Normal: drop 13 bits to nearest, ties to even; a carry moves into the exponent as it should.
    const uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13) & 1U);
    return static_cast<uint16_t>(sign | ((rounded - (112U << 23)) >> 13));
}

}  // namespace

size_t aclDataTypeSize(aclDataType dataType) {
    return api_value(
        "aclDataTypeSize", size_t{0}, [&] { return element_size(number_of(dataType)); }, arg("dataType", dataType));
}

// Plain arithmetic, called once per element: neither traced nor able to fail.
float aclFloat16ToFloat(aclFloat16 value) {
    return half_to_float(value);
}
aclFloat16 aclFloatToFloat16(float value) {
    return float_to_half(value);
}

aclDataBuffer* aclCreateDataBuffer(void* data, size_t size) {
    return api_value(
        "aclCreateDataBuffer", static_cast<aclDataBuffer*>(nullptr),
        [&] {
            return new aclDataBuffer{data, size};
        },
        arg("data", data), arg("size", size));
}

aclError aclDestroyDataBuffer(const aclDataBuffer* dataBuffer) {
    return api_call(
        "aclDestroyDataBuffer",
        [&] {
            require_not_null("dataBuffer", dataBuffer);
            delete dataBuffer;
        },
        arg("dataBuffer", dataBuffer));
}

aclError aclUpdateDataBuffer(aclDataBuffer* dataBuffer, void* data, size_t size) {
    return api_call(
        "aclUpdateDataBuffer",
        [&] {
            require_not_null("dataBuffer", dataBuffer);
            *dataBuffer = {data, size};
        },
        arg("dataBuffer", dataBuffer), arg("data", data), arg("size", size));
}

void* aclGetDataBufferAddr(const aclDataBuffer* dataBuffer) {
    return api_value(
        "aclGetDataBufferAddr", static_cast<void*>(nullptr),
        [&] {
            require_not_null("dataBuffer", dataBuffer);
            return dataBuffer->data;
        },
        arg("dataBuffer", dataBuffer));
}

uint32_t aclGetDataBufferSize(const aclDataBuffer* dataBuffer) {
    return api_value(
        "aclGetDataBufferSize", uint32_t{0},
        [&] {
            require_not_null("dataBuffer", dataBuffer);
            return static_cast<uint32_t>(dataBuffer->size);
        },
        arg("dataBuffer", dataBuffer));
}

size_t aclGetDataBufferSizeV2(const aclDataBuffer* dataBuffer) {
    return api_value(
        "aclGetDataBufferSizeV2", size_t{0},
        [&] {
            require_not_null("dataBuffer", dataBuffer);
            return dataBuffer->size;
        },
        arg("dataBuffer", dataBuffer));
}
