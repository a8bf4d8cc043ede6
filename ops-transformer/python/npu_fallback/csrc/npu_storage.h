// Tensors of the npu device, made without the wheel's headers.
//
// torch_npu keeps a description of every storage (type, sizes, memory format) behind the storage of PyTorch, and its
// own operators read it. The wheel says where in a header only, and this library must build without the wheel: so the
// class is declared once more here, and check_storage_layout() looks whether the two agree before anything relies on
// it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

namespace npu_fallback {

constexpr c10::DeviceType kNpu = c10::DeviceType::PrivateUse1;

/// Throws when the installed torch_npu lays out its storage in another way than this library was written for.
void check_storage_layout();

/// A storage of torch_npu's class over any memory.
c10::Storage make_npu_storage(c10::DataPtr memory, size_t bytes);

/// Describes the tensor's storage to torch_npu's own operators: plain memory with the sizes and strides of this tensor.
void describe_storage(const at::Tensor& npu_tensor);

}  // namespace npu_fallback
