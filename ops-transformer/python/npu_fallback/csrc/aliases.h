// The tensors of one operator call, on both sides.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "address_index.h"

namespace npu_fallback {

/// Memory of the device is memory of this process, so a CPU kernel can work on npu tensors in place. Aliases lends
/// every npu tensor of a call as a CPU tensor over the same memory, and takes results back as npu tensors over theirs.
/// Nothing is copied in either direction.
class Aliases {
  public:
    /// The device of results; -1 until a tensor or `set_device` says which, then fixed.
    c10::DeviceIndex device();
    void set_device(c10::DeviceIndex device) { device_ = device; }

    /// Makes room for a list of arguments.
    void reserve(size_t count);

    /// The argument as the CPU kernel sees it. Tensors of other devices, and undefined ones, pass as they are.
    at::Tensor to_cpu(const at::Tensor& argument, bool written);

    /// Copies to the npu tensors what the kernel changed of their aliases beside the numbers: sizes, strides, and the
    /// memory itself, when an output grew.
    void write_back();

    /// The operator's result as the caller sees it: an argument itself, a view of one, or, if `results_are_npu`, a new
    /// npu tensor over the result's memory.
    at::Tensor to_npu(const at::Tensor& result, bool results_are_npu);

    /// Whether tensors of different devices came together; zero-dimensional CPU tensors may join any device.
    bool is_mixed() const { return !aliases_.empty() && (host_tensor_ || other_device_); }
    /// Throws the error that says so.
    [[noreturn]] void refuse_mixed() const;

  private:
    struct Alias {
        at::Tensor npu;
        at::Tensor cpu;
        bool written;
    };
    struct StoragePair {
        c10::Storage npu;
        c10::Storage cpu;
    };

    const c10::Storage& lend(const c10::Storage& npu_storage);
    void remember(c10::Storage npu_storage, c10::Storage cpu_storage);
    void note_device(const at::Tensor& argument);

    c10::SmallVector<Alias, 6> aliases_;
    c10::SmallVector<StoragePair, 6> storages_;
    c10::SmallVector<const c10::TensorImpl*, 4> host_arguments_;
    AddressIndex cpu_tensors_;   // positions in aliases_
    AddressIndex npu_storages_;  // positions in storages_
    AddressIndex cpu_storages_;
    c10::DeviceIndex device_ = -1;        // of results
    c10::DeviceIndex first_device_ = -1;  // of the first npu tensor
    c10::DeviceIndex other_device_index_ = -1;
    bool other_device_ = false;
    bool host_tensor_ = false;
};

}  // namespace npu_fallback
