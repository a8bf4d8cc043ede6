// swa_forward and swa_backward under autograd: there is no link between the two, so differentiating either is an error
// that says so. Without these kernels PyTorch would return tensors that require a gradient and then leave it out.

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DispatchKeySet.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/library.h>

namespace {

// The defined tensors among the last `count` values of the stack.
std::vector<at::Tensor> last_tensors(const torch::jit::Stack& stack, size_t count) {
    std::vector<at::Tensor> tensors;
    for (const c10::IValue& value : torch::jit::last(stack, count)) {
        if (value.isTensor() && value.toTensor().defined()) tensors.push_back(value.toTensor());
    }
    return tensors;
}

void run_without_derivative(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    const std::vector<at::Tensor> inputs = last_tensors(*stack, op.schema().arguments().size());
    bool wants_gradient = false;
    for (const at::Tensor& input : inputs) wants_gradient |= input.requires_grad();
    wants_gradient &= at::GradMode::is_enabled();

    {
        at::AutoDispatchBelowADInplaceOrView below_autograd;
        op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
    }
    if (!wants_gradient) return;

    const bool is_forward = op.schema().name() == "npu::swa_forward";
    std::string message =
        is_forward ? "swa_forward is not differentiable: call swa_backward" : "swa_backward is not differentiable";
    auto error =
        c10::make_intrusive<torch::autograd::Error>(std::move(message), torch::autograd::collect_next_edges(inputs));
    for (const at::Tensor& output : last_tensors(*stack, op.schema().returns().size())) {
        torch::autograd::set_history(output, error);
    }
}

TORCH_LIBRARY_IMPL(npu, AutogradPrivateUse1, m) {
    m.impl("swa_forward", torch::CppFunction::makeFromBoxedFunction<&run_without_derivative>());
    m.impl("swa_backward", torch::CppFunction::makeFromBoxedFunction<&run_without_derivative>());
}

}  // namespace
