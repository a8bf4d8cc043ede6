#include "unboxed.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/ops/index_ops.h>
#include <ATen/ops/rand_ops.h>
#include <ATen/ops/randint_ops.h>
#include <ATen/ops/randn_ops.h>

#include <algorithm>
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

// torch.rand and its like, by the overload `Op` with a generator; its `Leading` arguments are bounds of the numbers.
// What drawing from the device's generator adds would else bring the call above what other operators take.
template <class Op, class... Leading>
at::Tensor draw(Leading... leading, at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool> pin_memory) {
    Aliases aliases;
    if (device && device->has_index()) aliases.set_device(device->index());
    drain_task_queue(aliases.device());
    at::Tensor result;
    {
        at::AutoDispatchBelowADInplaceOrView below_autograd;
        result = Op::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), leading..., c10::fromIntArrayRefSlow(size),
                                draw_host_generator(default_npu_generator(aliases.device())), dtype, layout,
                                c10::Device(c10::DeviceType::CPU), pin_memory);
    }
    return aliases.to_npu(result, /*results_are_npu=*/true);
}

}  // namespace

bool is_unboxed(std::string_view name) {
    constexpr std::string_view kNames[] = {"index.Tensor", "rand", "randn", "randint", "randint.low"};
    return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

void register_unboxed(torch::Library& kernels) {
    kernels.impl("index.Tensor", &index);
    kernels.impl("rand", &draw<at::_ops::rand_generator>);
    kernels.impl("randn", &draw<at::_ops::randn_generator>);
    kernels.impl("randint", &draw<at::_ops::randint_generator, int64_t>);
    kernels.impl("randint.low", &draw<at::_ops::randint_low_generator, int64_t, int64_t>);
}

}  // namespace npu_fallback
