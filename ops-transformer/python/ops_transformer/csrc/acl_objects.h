// The handles of the aclnn interface, with owners.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "aclnn/acl_meta.h"

namespace ops_transformer {

struct DestroyHandle {
    void operator()(aclTensor* tensor) const { aclDestroyTensor(tensor); }
    void operator()(aclIntArray* array) const { aclDestroyIntArray(array); }
};
using TensorHandle = std::unique_ptr<aclTensor, DestroyHandle>;
using ListHandle = std::unique_ptr<aclIntArray, DestroyHandle>;

// A view of the same memory. An undefined tensor gives a null handle, which operators take as absent.
TensorHandle make_handle(const at::Tensor& tensor);
TensorHandle make_handle(const std::optional<at::Tensor>& tensor);

// A null handle for an empty list.
ListHandle make_handle(at::IntArrayRef list);

}  // namespace ops_transformer
