// Derivatives: the first by attention_backward; a second one, forward mode and vmap are refused.
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>
#include <torch/library.h>

#include <array>
#include <mutex>

#include "attention.h"

namespace ops_transformer {
namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

OptionalTensor present(at::Tensor tensor) {
    return tensor.defined() ? OptionalTensor(std::move(tensor)) : std::nullopt;
}

// What forward leaves for backward, as PyTorch's own operators do it: torch::autograd::Function keeps the options as
// boxed values under names, which took some 20 us more of a forward and backward, and it knows neither functorch's
// transformations nor, with results that have no gradient, compiled autograd.
struct AttentionBackward : Node {
    // Saved tensors, in this order; those that a call has not are undefined.
    enum : size_t {
        kQuery,
        kKey,
        kValue,
        kPse,
        kSink,
        kMask,
        kQueryEnds,
        kKeyEnds,
        kSeed,
        kMaximum,
        kSum,
        kAttention,
        kCount
    };
    std::array<SavedVariable, kCount> saved;
    std::vector<int64_t> prefix;
    double scale = 0, keep_prob = 0;
    c10::SymInt pre_tokens, next_tokens;
    std::string layout;
    int64_t sparse_mode = 0, pse_type = 0;

    // The order of the gradients.
    enum : size_t { kQueryGradient, kKeyGradient, kValueGradient, kPseGradient, kSinkGradient, kGradients };

    AttentionBackward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const Options& o)
        : Node(torch::autograd::collect_next_edges(query, key, value, o.pse, o.sink)),
          prefix(o.prefix.vec()),
          scale(o.scale),
          keep_prob(o.keep_prob),
          pre_tokens(o.pre_tokens),
          next_tokens(o.next_tokens),
          layout(o.layout),
          sparse_mode(o.sparse_mode),
          pse_type(o.pse_type) {
        save(kQuery, query);
        save(kKey, key);
        save(kValue, value);
        const std::pair<size_t, const OptionalTensor&> optional[] = {{kPse, o.pse},
                                                                     {kSink, o.sink},
                                                                     {kMask, o.atten_mask},
                                                                     {kQueryEnds, o.cu_seqlens_q},
                                                                     {kKeyEnds, o.cu_seqlens_k},
                                                                     {kSeed, o.seed}};
        for (const auto& [index, tensor] : optional) {
            if (tensor.has_value()) {
                save(index, *tensor);
            }
        }
    }

    void save(size_t index, const at::Tensor& tensor) { saved[index] = SavedVariable(tensor, index == kAttention); }

    // The results: attention has a gradient, its statistics have none.
    void save_results(const ForwardResults& results) {
        const auto& [attention, maximum, sum] = results;
        torch::autograd::set_history(attention, getptr());
        save(kAttention, attention);
        save(kMaximum, maximum);
        save(kSum, sum);
    }

    variable_list apply(variable_list&& grads) override {
        const std::lock_guard<std::mutex> lock(mutex_);
        variable_list gradients(kGradients);
        if (!grads[0].defined()) {
            return gradients;
        }
        const auto tensor = [this](size_t index) { return saved[index].unpack(getptr()); };
        const auto optional = [&](size_t index) { return present(tensor(index)); };
        const OptionalTensor pse = optional(kPse), mask = optional(kMask), sink = optional(kSink);
        const OptionalTensor query_ends = optional(kQueryEnds), key_ends = optional(kKeyEnds), seed = optional(kSeed);
        const Options options{pse,   mask,      sink,       query_ends,  key_ends, seed,        prefix,
                              scale, keep_prob, pre_tokens, next_tokens, layout,   sparse_mode, pse_type};
        const bool pse_gradient = pse.has_value() && task_should_compute_output(kPseGradient);
        auto [query, key, value, bias, logit] =
            dispatch_backward(grads[0], tensor(kQuery), tensor(kKey), tensor(kValue), tensor(kAttention),
                              tensor(kMaximum), tensor(kSum), pse_gradient, options);
        gradients[kQueryGradient] = std::move(query);
        gradients[kKeyGradient] = std::move(key);
        gradients[kValueGradient] = std::move(value);
        if (pse_gradient) {
            gradients[kPseGradient] = std::move(bias);
        }
        if (sink.has_value()) {
            gradients[kSinkGradient] = std::move(logit);
        }
        return gradients;
    }

    std::string name() const override { return "AttentionBackward"; }

    void release_variables() override {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (SavedVariable& variable : saved) {
            variable.reset_data();
        }
    }

    // For compiled autograd: what a graph of this node depends on, and a run with other tensors in place of the saved
    // ones.
    void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& arguments) const override {
        for (size_t index = 0; index < kCount; ++index) {
            arguments.collect(saved[index], index == kAttention);
        }
        arguments.collect(prefix);
        arguments.collect(scale);
        arguments.collect(keep_prob);
        arguments.collect(pre_tokens);
        arguments.collect(next_tokens);
        arguments.collect(layout);
        arguments.collect(sparse_mode);
        arguments.collect(pse_type);
    }

    variable_list apply_with_saved(const variable_list& grads,
                                   torch::dynamo::autograd::SwapSavedVariables& swap) override {
        const auto each = [this](const auto& act) {
            for (SavedVariable& variable : saved) {
                act(variable);
            }
            act(pre_tokens);
            act(next_tokens);
        };
        each([&](auto& value) { swap.before(value); });
        variable_list gradients = apply(variable_list(grads));
        each([&](auto& value) { swap.after(value); });
        return gradients;
    }
};

// Forward mode has no rule here; without this check a tangent would vanish in silence.
template <class... Tensors>
void refuse_tangents(const Tensors&... tensors) {
    TORCH_CHECK_NOT_IMPLEMENTED(!(torch::autograd::isFwGradDefined(tensors) || ...),
                                "ops_transformer: attention has no derivative in forward mode; use reverse mode");
}

ForwardResults forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                       const OptionalTensor& pse, const OptionalTensor& atten_mask, const OptionalTensor& sink,
                       const OptionalTensor& cu_seqlens_q, const OptionalTensor& cu_seqlens_k,
                       const OptionalTensor& seed, at::IntArrayRef prefix, double scale, double keep_prob,
                       c10::SymInt pre_tokens, c10::SymInt next_tokens, std::string_view layout, int64_t sparse_mode,
                       int64_t pse_type) {
    const Options options{pse,   atten_mask, sink,       cu_seqlens_q, cu_seqlens_k, seed,        prefix,
                          scale, keep_prob,  pre_tokens, next_tokens,  layout,       sparse_mode, pse_type};
    refuse_tangents(query, key, value, pse, sink);
    c10::intrusive_ptr<AttentionBackward> node;
    if (torch::autograd::compute_requires_grad(query, key, value, pse, sink)) {
        node = c10::make_intrusive<AttentionBackward>(query, key, value, options);
    }
    ForwardResults results = [&] {
        at::AutoDispatchBelowADInplaceOrView below_autograd;
        return dispatch_forward(query, key, value, options);
    }();
    if (node) {
        node->save_results(results);
    }
    return results;
}

// The gradient as a function of its own inputs: there is no rule for that.
struct SecondDerivative : Node {
    using Node::Node;
    variable_list apply(variable_list&&) override {
        TORCH_CHECK_NOT_IMPLEMENTED(false, "ops_transformer: attention has no second derivative");
    }
    std::string name() const override { return "AttentionSecondDerivative"; }
};

BackwardResults backward(const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key,
                         const at::Tensor& value, const at::Tensor& attention, const at::Tensor& softmax_max,
                         const at::Tensor& softmax_sum, bool pse_gradient, const OptionalTensor& pse,
                         const OptionalTensor& atten_mask, const OptionalTensor& sink,
                         const OptionalTensor& cu_seqlens_q, const OptionalTensor& cu_seqlens_k,
                         const OptionalTensor& seed, at::IntArrayRef prefix, double scale, double keep_prob,
                         c10::SymInt pre_tokens, c10::SymInt next_tokens, std::string_view layout, int64_t sparse_mode,
                         int64_t pse_type) {
    const Options options{pse,   atten_mask, sink,       cu_seqlens_q, cu_seqlens_k, seed,        prefix,
                          scale, keep_prob,  pre_tokens, next_tokens,  layout,       sparse_mode, pse_type};
    refuse_tangents(grad, query, key, value, attention, pse, sink);
    BackwardResults results = [&] {
        at::AutoDispatchBelowADInplaceOrView below_autograd;
        return dispatch_backward(grad, query, key, value, attention, softmax_max, softmax_sum, pse_gradient, options);
    }();
    if (torch::autograd::compute_requires_grad(grad, query, key, value, attention, pse, sink)) {
        const auto node = c10::make_intrusive<SecondDerivative>(
            torch::autograd::collect_next_edges(grad, query, key, value, attention, pse, sink));
        std::apply([&](const auto&... result) { (torch::autograd::set_history(result, node), ...); }, results);
    }
    return results;
}

void refuse_vmap(const c10::OperatorHandle&, torch::jit::Stack*) {
    TORCH_CHECK_NOT_IMPLEMENTED(false,
                                "ops_transformer: attention has no rule for torch.vmap; give the batch as a "
                                "dimension of the tensors");
}

}  // namespace
}  // namespace ops_transformer

TORCH_LIBRARY_IMPL(ops_transformer, Autograd, library) {
    library.impl("attention_forward", &ops_transformer::forward);
    library.impl("attention_backward", &ops_transformer::backward);
}

TORCH_LIBRARY_IMPL(ops_transformer, FuncTorchBatched, library) {
    for (const char* name : {"attention_forward", "attention_backward"}) {
        library.impl(name, torch::CppFunction::makeFromBoxedFunction<&ops_transformer::refuse_vmap>());
    }
}
