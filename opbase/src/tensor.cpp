// aclTensor: what a caller says about a piece of memory. Everything that arithmetic on it could overflow is refused
// here, so that operators may multiply and add sizes, strides and offsets without care.
#include "opbase/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <span>

#include "call.h"
#include "opbase/dtype.h"
#include "opbase/error.h"

namespace opbase {
namespace {

// strided_copy works on at most as many; the operators need 4.
constexpr uint64_t kMaxRank = 16;

// The arguments of aclCreateTensor and aclInitTensor.
struct Description {
    const int64_t* view_dims;
    uint64_t view_dims_num;
    aclDataType dtype;
    const int64_t* strides;
    int64_t offset;
    aclFormat format;
    const int64_t* storage_dims;
    uint64_t storage_dims_num;
    void* data;
};

Shape copy_dims(const char* name, const int64_t* dims, uint64_t num) {
    if (num > 0 && dims == nullptr) {
        throw OperatorError(kParamNullptr, fmt::format("{0} cannot be nullptr when {0}Num is {1}", name, num));
    }
    if (num > kMaxRank) {
        throw ParameterError(fmt::format("{}Num is {}: a tensor has at most {} dimensions", name, num, kMaxRank));
    }
    Shape shape(dims, dims + num);
    for (size_t i = 0; i < shape.size(); i++) {
        if (shape[i] < 0) throw ParameterError(fmt::format("{}[{}] is {}: it cannot be negative", name, i, shape[i]));
    }
    return shape;
}

// Zeros are left out of the product, because strides are products of some of the dimensions and must not overflow
// either.
void check_size(const char* name, const Shape& shape, int64_t element_bytes) {
    int64_t bytes = element_bytes;
    for (const int64_t dim : shape) {
        if (dim != 0 && __builtin_mul_overflow(bytes, dim, &bytes)) {
            throw ParameterError(fmt::format("{} {} is too large: the size in bytes must fit in 64 bits", name, shape));
        }
    }
}

// The lowest and the highest element of the view, which must both be addressable.
void check_reach(const Tensor& tensor, int64_t element_bytes) {
    if (tensor.offset < 0) {
        throw ParameterError(fmt::format("offset is {}: it cannot be negative", tensor.offset));
    }
    int64_t lowest = tensor.offset;
    int64_t highest = tensor.offset;
    bool overflow = false;
    for (size_t i = 0; i < tensor.shape.size() && tensor.count() != 0; i++) {
        int64_t distance = 0;
        overflow |= __builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &distance);
        int64_t& end = distance < 0 ? lowest : highest;
        overflow |= __builtin_add_overflow(end, distance, &end);
    }
    int64_t bytes = 0;
    overflow = overflow || __builtin_add_overflow(highest, 1, &highest);
    overflow = overflow || __builtin_mul_overflow(highest, element_bytes, &bytes);
    if (overflow || lowest < 0) {
        const auto problem = overflow ? std::string("beyond 64-bit addresses") : fmt::format("element {}", lowest);
        throw ParameterError(
            fmt::format("the view reaches {}: viewDims {}, stride {}, offset {}. Elements count from 0 at tensorData",
                        problem, tensor.shape, tensor.strides, tensor.offset));
    }
}

Tensor make_tensor(const Description& d) {
    Tensor tensor;
    const int64_t element_bytes = std::max<int64_t>(1, element_size(d.dtype));
    tensor.shape = copy_dims("viewDims", d.view_dims, d.view_dims_num);
    check_size("viewDims", tensor.shape, element_bytes);
    tensor.storage_shape = copy_dims("storageDims", d.storage_dims, d.storage_dims_num);
    check_size("storageDims", tensor.storage_shape, element_bytes);
    tensor.strides =
        d.strides != nullptr ? Shape(d.strides, d.strides + d.view_dims_num) : contiguous_strides(tensor.shape);
    tensor.offset = d.offset;
    tensor.dtype = d.dtype;
    tensor.format = d.format;
    tensor.data = d.data;
    check_reach(tensor, element_bytes);
    return tensor;
}

std::string dims_text(const int64_t* dims, uint64_t num) {
    if (dims == nullptr) return "nullptr";
    return fmt::format("{}", std::span(dims, std::min(num, kMaxRank)));
}

std::string to_text(const Description& d) {
    return fmt::format(
        "viewDims={}, viewDimsNum={}, dataType={}, stride={}, offset={}, format={}, storageDims={}, "
        "storageDimsNum={}, tensorData={}",
        dims_text(d.view_dims, d.view_dims_num), d.view_dims_num, dtype_name(d.dtype),
        dims_text(d.strides, d.view_dims_num), d.offset, format_name(d.format),
        dims_text(d.storage_dims, d.storage_dims_num), d.storage_dims_num, d.data);
}

// The three getters that return an array: the caller owns it and calls delete[].
aclnnStatus get_array(const char* name, const aclTensor* tensor, Shape Tensor::*member, int64_t** values, uint64_t* num,
                      const char* values_name, const char* num_name) {
    return checked_call(
        name,
        [&] {
            require(tensor, "tensor");
            require(values, values_name);
            require(num, num_name);
            const Shape& from = tensor->*member;
            *values = std::copy(from.begin(), from.end(), new int64_t[from.size()]) - from.size();
            *num = from.size();
        },
        [&] { return fmt::format("tensor={}", fmt::ptr(tensor)); });
}

template <class T>
aclnnStatus get_value(const char* name, const aclTensor* tensor, T Tensor::*member, T* value, const char* value_name) {
    return checked_call(
        name,
        [&] {
            require(tensor, "tensor");
            require(value, value_name);
            *value = tensor->*member;
        },
        [&] { return fmt::format("tensor={}", fmt::ptr(tensor)); });
}

}  // namespace

int64_t Tensor::count() const {
    int64_t product = 1;
    for (const int64_t dim : shape) {
        if (dim == 0) return 0;
        product *= dim;
    }
    return product;
}

bool Tensor::is_contiguous() const {
    if (count() == 0) return true;
    int64_t expected = 1;
    for (size_t i = shape.size(); i-- > 0;) {
        if (shape[i] != 1 && strides[i] != expected) return false;
        expected *= shape[i];
    }
    return true;
}

int64_t Tensor::reach() const {
    if (count() == 0) return 0;
    int64_t highest = offset;
    for (size_t i = 0; i < shape.size(); i++) highest += std::max<int64_t>(0, (shape[i] - 1) * strides[i]);
    return highest + 1;
}

Shape contiguous_strides(const Shape& shape) {
    Shape strides(shape.size());
    int64_t step = 1;
    for (size_t i = shape.size(); i-- > 0;) {
        strides[i] = step;
        step *= std::max<int64_t>(1, shape[i]);
    }
    return strides;
}

std::string to_string(const Shape& shape) {
    return fmt::format("{}", shape);
}

bool is_absent(const aclTensor* tensor) {
    return tensor == nullptr || tensor->rank() == 0 || (tensor->rank() == 1 && tensor->shape[0] == 0);
}

}  // namespace opbase

using opbase::Tensor;

aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride,
                           int64_t offset, aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                           void* tensorData) {
    const opbase::Description description{viewDims, viewDimsNum, dataType,       stride,    offset,
                                          format,   storageDims, storageDimsNum, tensorData};
    return opbase::create_call<aclTensor>(
        "aclCreateTensor", [&] { return std::make_unique<aclTensor>(aclTensor{opbase::make_tensor(description)}); },
        [&] { return opbase::to_text(description); });
}

aclnnStatus aclInitTensor(aclTensor* tensor, const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                          const int64_t* stride, int64_t offset, aclFormat format, const int64_t* storageDims,
                          uint64_t storageDimsNum, void* tensorDataAddr) {
    const opbase::Description description{viewDims, viewDimsNum, dataType,       stride,        offset,
                                          format,   storageDims, storageDimsNum, tensorDataAddr};
    return opbase::checked_call(
        "aclInitTensor",
        [&] {
            opbase::require(tensor, "tensor");
            static_cast<Tensor&>(*tensor) = opbase::make_tensor(description);
        },
        [&] { return fmt::format("tensor={}, {}", fmt::ptr(tensor), opbase::to_text(description)); });
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) {
    opbase::destroy_call("aclDestroyTensor", tensor);
    delete tensor;
    return OK;
}

aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum) {
    return opbase::get_array("aclGetViewShape", tensor, &Tensor::shape, viewDims, viewDimsNum, "viewDims",
                             "viewDimsNum");
}

aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims, uint64_t* storageDimsNum) {
    return opbase::get_array("aclGetStorageShape", tensor, &Tensor::storage_shape, storageDims, storageDimsNum,
                             "storageDims", "storageDimsNum");
}

aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue, uint64_t* stridesNum) {
    return opbase::get_array("aclGetViewStrides", tensor, &Tensor::strides, stridesValue, stridesNum, "stridesValue",
                             "stridesNum");
}

aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset) {
    return opbase::get_value("aclGetViewOffset", tensor, &Tensor::offset, offset, "offset");
}

aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format) {
    return opbase::get_value("aclGetFormat", tensor, &Tensor::format, format, "format");
}

aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType) {
    return opbase::get_value("aclGetDataType", tensor, &Tensor::dtype, dataType, "dataType");
}

aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr) {
    return opbase::checked_call(
        "aclSetRawTensorAddr",
        [&] {
            opbase::require(tensor, "tensor");
            tensor->data = addr;
        },
        [&] { return fmt::format("tensor={}, addr={}", fmt::ptr(tensor), addr); });
}

aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr) {
    return opbase::get_value("aclGetRawTensorAddr", tensor, &Tensor::data, addr, "addr");
}
