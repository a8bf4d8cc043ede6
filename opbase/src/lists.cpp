// Scalars, arrays and lists: plain copies of what the caller passed.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "call.h"
#include "opbase/dtype.h"
#include "opbase/error.h"
#include "opbase/tensor.h"

namespace opbase {
namespace {

template <class T>
std::vector<T> copy_values(const auto* value, uint64_t size) {
    if (size > 0 && value == nullptr) {
        throw OperatorError(kParamNullptr, fmt::format("value cannot be nullptr when size is {}", size));
    }
    std::vector<T> values;
    if (size > values.max_size()) {
        throw ParameterError(fmt::format("size is {}: at most {} values fit in memory", size, values.max_size()));
    }
    values.assign(value, value + size);
    return values;
}

// All arrays and lists are a struct around one vector, which `make` fills.
template <class Array, class Value>
Array* create_array(const char* name, std::vector<Value> Array::*member, const auto* value, uint64_t size) {
    return create_call<Array>(
        name,
        [&] {
            auto array = std::make_unique<Array>();
            (*array).*member = copy_values<Value>(value, size);
            return array;
        },
        [&] { return fmt::format("value={}, size={}", fmt::ptr(value), size); });
}

template <class Array, class Value>
aclnnStatus get_size(const char* name, std::vector<Value> Array::*member, const Array* array, uint64_t* size,
                     const char* array_name = "array") {
    return checked_call(
        name,
        [&] {
            require(array, array_name);
            require(size, "size");
            *size = (array->*member).size();
        },
        [&] { return fmt::format("{}={}", array_name, fmt::ptr(array)); });
}

template <class T>
aclnnStatus destroy(const char* name, const T* object) {
    destroy_call(name, object);
    delete object;
    return OK;
}

std::unique_ptr<aclScalar> make_scalar(const void* value, aclDataType dtype) {
    require(value, "value");
    const int64_t size = element_size(dtype);
    if (size == 0) {
        throw ParameterError(
            fmt::format("dataType {} is not supported: a scalar needs a type of whole bytes", dtype_name(dtype)));
    }
    auto scalar = std::make_unique<aclScalar>();
    scalar->dtype = dtype;
    std::copy_n(static_cast<const std::byte*>(value), size, scalar->value);
    return scalar;
}

}  // namespace

bool is_absent(const aclIntArray* array) {
    return array == nullptr || array->values.empty();
}

}  // namespace opbase

aclScalar* aclCreateScalar(void* value, aclDataType dataType) {
    return opbase::create_call<aclScalar>(
        "aclCreateScalar", [&] { return opbase::make_scalar(value, dataType); },
        [&] { return fmt::format("value={}, dataType={}", value, opbase::dtype_name(dataType)); });
}

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
    return opbase::create_array("aclCreateIntArray", &aclIntArray::values, value, size);
}

aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size) {
    return opbase::create_array("aclCreateFloatArray", &aclFloatArray::values, value, size);
}

aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
    return opbase::create_array("aclCreateBoolArray", &aclBoolArray::values, value, size);
}

aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
    return opbase::create_array("aclCreateTensorList", &aclTensorList::tensors, value, size);
}

aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size) {
    return opbase::create_array("aclCreateScalarList", &aclScalarList::scalars, value, size);
}

aclnnStatus aclDestroyScalar(const aclScalar* scalar) {
    return opbase::destroy("aclDestroyScalar", scalar);
}

aclnnStatus aclDestroyIntArray(const aclIntArray* array) {
    return opbase::destroy("aclDestroyIntArray", array);
}

aclnnStatus aclDestroyFloatArray(const aclFloatArray* array) {
    return opbase::destroy("aclDestroyFloatArray", array);
}

aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) {
    return opbase::destroy("aclDestroyBoolArray", array);
}

aclnnStatus aclDestroyTensorList(const aclTensorList* array) {
    if (array != nullptr) {
        for (const aclTensor* tensor : array->tensors) delete tensor;
    }
    return opbase::destroy("aclDestroyTensorList", array);
}

aclnnStatus aclDestroyScalarList(const aclScalarList* array) {
    if (array != nullptr) {
        for (const aclScalar* scalar : array->scalars) delete scalar;
    }
    return opbase::destroy("aclDestroyScalarList", array);
}

aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size) {
    return opbase::get_size("aclGetIntArraySize", &aclIntArray::values, array, size);
}

aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size) {
    return opbase::get_size("aclGetFloatArraySize", &aclFloatArray::values, array, size);
}

aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size) {
    return opbase::get_size("aclGetBoolArraySize", &aclBoolArray::values, array, size);
}

aclnnStatus aclGetTensorListSize(const aclTensorList* tensorList, uint64_t* size) {
    return opbase::get_size("aclGetTensorListSize", &aclTensorList::tensors, tensorList, size, "tensorList");
}

aclnnStatus aclGetScalarListSize(const aclScalarList* scalarList, uint64_t* size) {
    return opbase::get_size("aclGetScalarListSize", &aclScalarList::scalars, scalarList, size, "scalarList");
}
