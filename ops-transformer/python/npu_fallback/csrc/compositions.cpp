#include "compositions.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/MemoryFormat.h>
#include <c10/util/strides.h>

#include <optional>
#include <tuple>
#include <utility>

#include "npu_storage.h"

namespace npu_fallback {
namespace {

using at::Tensor;

c10::DimVector strides_of(at::IntArrayRef sizes, std::optional<at::MemoryFormat> format) {
    if (format == at::MemoryFormat::ChannelsLast) {
        const auto strides = c10::get_channels_last_strides_2d(sizes);
        return c10::DimVector(strides.begin(), strides.end());
    }
    if (format == at::MemoryFormat::ChannelsLast3d) {
        const auto strides = c10::get_channels_last_strides_3d(sizes);
        return c10::DimVector(strides.begin(), strides.end());
    }
    return c10::contiguous_strides(sizes);
}

// The memory is torch_npu's, which counts it and says when there is no more. Its own kernel takes longer.
Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> dtype,
                     std::optional<at::Layout> layout, std::optional<at::Device> device,
                     std::optional<bool> pin_memory) {
    TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided, "npu_fallback: sparse npu tensors are not supported");
    TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
    at::detail::check_size_nonnegative(sizes);
    at::globalContext().lazyInitDevice(kNpu);
    const c10::DeviceGuard guard(device.value_or(at::Device(kNpu)));
    const caffe2::TypeMeta type = c10::scalarTypeToTypeMeta(dtype ? *dtype : at::get_default_dtype_as_scalartype());
    const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, type.itemsize());
    c10::Storage storage = make_npu_storage(c10::GetAllocator(kNpu)->allocate(bytes), bytes);
    Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage),
                                                             c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type);
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
    describe_storage(tensor);
    return tensor;
}

// torch_npu's own refuses the channels-last formats, which the CPU's convolutions ask for.
Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
             std::optional<at::Device> device, std::optional<bool> pin_memory, std::optional<at::MemoryFormat> format) {
    at::detail::check_size_nonnegative(sizes);
    return empty_strided(sizes, strides_of(sizes, format), dtype, layout, device, pin_memory);
}

// The CPU kernel gives zeros without memory, which only CPU kernels understand.
Tensor zeros_without_memory(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                            std::optional<at::Layout> layout, std::optional<at::Device> device,
                            std::optional<bool> pin_memory) {
    return empty(sizes, dtype, layout, device, pin_memory, std::nullopt).zero_();
}

// The CPU kernel draws from the CPU's generator. Here bernoulli_ is called on an npu tensor and draws from the npu's.
std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p, std::optional<bool> train) {
    TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
    if (!train.value_or(true) || p == 0 || input.numel() == 0) {
        return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
    }
    if (p == 1) return {at::zeros_like(input), at::zeros_like(input, input.options().dtype(at::kBool))};
    const Tensor mask = at::empty_like(input).bernoulli_(1 - p);
    return {input * (mask / (1 - p)), mask.to(at::kBool)};
}

Tensor with_bias(const Tensor& gates, const std::optional<Tensor>& bias) {
    return bias && bias->defined() ? gates + *bias : gates;
}

// The two cells have no CPU kernel: the CPU takes another way, which PyTorch does not take for this device. The last
// result is what a fused backward kernel would read; ordinary autograd does without.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cell,
                                             const std::optional<Tensor>& input_bias,
                                             const std::optional<Tensor>& hidden_bias) {
    const Tensor gates = with_bias(input_gates, input_bias) + with_bias(hidden_gates, hidden_bias);
    const auto parts = gates.chunk(4, 1);
    const Tensor new_cell = parts[1].sigmoid() * cell + parts[0].sigmoid() * parts[2].tanh();
    return {parts[3].sigmoid() * new_cell.tanh(), new_cell, gates};
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hidden,
                                    const std::optional<Tensor>& input_bias, const std::optional<Tensor>& hidden_bias) {
    const Tensor gates = with_bias(input_gates, input_bias);
    const auto from_input = gates.chunk(3, 1);
    const auto from_hidden = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
    const Tensor reset = (from_input[0] + from_hidden[0]).sigmoid();
    const Tensor update = (from_input[1] + from_hidden[1]).sigmoid();
    const Tensor candidate = (from_input[2] + reset * from_hidden[2]).tanh();
    return {(hidden - candidate) * update + candidate, gates};
}

}  // namespace

bool is_composition(std::string_view name) {
    return name == "empty.memory_format" || name == "empty_strided" || name == "native_dropout" ||
           name == "_efficientzerotensor" || name == "_thnn_fused_lstm_cell" || name == "_thnn_fused_gru_cell";
}

void register_compositions(torch::Library& kernels, torch::Library& autograd) {
    kernels.impl("empty.memory_format", &empty);
    kernels.impl("empty_strided", &empty_strided);
    kernels.impl("_efficientzerotensor", &zeros_without_memory);
    kernels.impl("native_dropout", &native_dropout);
    // For autograd too, so that it sees the operators inside; without autograd the first of the two is called.
    for (torch::Library* library : {&kernels, &autograd}) {
        library->impl("_thnn_fused_lstm_cell", &lstm_cell);
        library->impl("_thnn_fused_gru_cell", &gru_cell);
    }
}

}  // namespace npu_fallback
