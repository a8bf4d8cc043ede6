// Element types: sizes, half precision, and data buffers.
#include <cstdint>

#include "acl/acl_base.h"
#include "ascendcl/dtype.h"
#include "ascendcl/float16.h"
#include "call.h"

using namespace ascendcl;

struct aclDataBuffer {
    void* data = nullptr;
    size_t size = 0;
};

size_t aclDataTypeSize(aclDataType dataType) {
    return api_value(
        "aclDataTypeSize", size_t{0}, [&] { return static_cast<size_t>(element_size(dataType)); },
        arg("dataType", dataType));
}

// Plain arithmetic, called once per element: neither traced nor able to fail.
float aclFloat16ToFloat(aclFloat16 value) {
    return fp16_to_float(value);
}
aclFloat16 aclFloatToFloat16(float value) {
    return float_to_fp16(value);
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
