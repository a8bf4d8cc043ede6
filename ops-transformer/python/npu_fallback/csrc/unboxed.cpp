#include "unboxed.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/ops/index_ops.h>
#include <ATen/ops/randn_ops.h>

#include <optional>
#include <utility>

#include "aliases.h"
#include "generators.h"
#include "task_queue.h"

namespace npu_fallback {
namespace {

using Indices = c10::List<std::optional<at::Tensor>>;

// x[i]: the list belongs to the caller, and boxing it, copying it and unboxing it again is a fifth of the whole call.
at::Tensor index(const at::Tensor& self, const Indices& indices) {
    Aliases aliases;
    const at::Tensor cpu_self = aliases.to_cpu(self, /*written=*/false);
    Indices cpu_indices;
    cpu_indices.reserve(indices.size());
    for (size_t i = 0; i < indices.size(); ++i) {
        std::optional<at::Tensor> one = indices.get(i);
        if (one) one = aliases.to_cpu(*one, /*written=*/false);
        cpu_indices.push_back(std::move(one));
    }
    drain_task_queue(aliases.device());
    at::Tensor result;
    {
        at::AutoDispatchBelowADInplaceOrView below_autograd;
        result = at::_ops::index_Tensor::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), cpu_self, cpu_indices);
    }
    return aliases.to_npu(result, /*results_are_npu=*/true);
}

// What drawing from the device's generator adds would else bring the call above what any other operator takes.
at::Tensor randn(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                 std::optional<at::Device> device, std::optional<bool> pin_memory) {
    Aliases aliases;
    if (device && device->has_index()) aliases.set_device(device->index());
    drain_task_queue(aliases.device());
    at::Tensor result;
    {
        at::AutoDispatchBelowADInplaceOrView below_autograd;
        result = at::_ops::randn_generator::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                       c10::fromIntArrayRefSlow(size),
                                                       draw_host_generator(default_npu_generator(aliases.device())),
                                                       dtype, layout, c10::Device(c10::DeviceType::CPU), pin_memory);
    }
    return aliases.to_npu(result, /*results_are_npu=*/true);
}

}  // namespace

bool is_unboxed(std::string_view name) {
    return name == "index.Tensor" || name == "randn";
}

void register_unboxed(torch::Library& kernels) {
    kernels.impl("index.Tensor", &index);
    kernels.impl("randn", &randn);
}

}  // namespace npu_fallback
