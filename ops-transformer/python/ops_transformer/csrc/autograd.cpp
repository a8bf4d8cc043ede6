// Derivatives: the first by attention_backward; a second one and vmap are refused.
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "attention.h"

namespace ops_transformer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

OptionalTensor present(const at::Tensor& tensor) {
    return tensor.defined() ? OptionalTensor(tensor) : std::nullopt;
}

at::Tensor absent(bool is_absent, const at::Tensor& gradient) {
    return is_absent ? at::Tensor() : gradient;
}

bool needs_gradient(const OptionalTensor& tensor) {
    return tensor.has_value() && tensor->defined() && tensor->requires_grad();
}

// Options that are no tensors travel from forward to backward under these names.
void save_numbers(AutogradContext* context, const Options& o) {
    auto& data = context->saved_data;
    data["prefix"] = o.prefix;
    data["scale"] = o.scale;
    data["keep_prob"] = o.keep_prob;
    data["pre_tokens"] = o.pre_tokens;
    data["next_tokens"] = o.next_tokens;
    data["layout"] = std::string(o.layout);
    data["sparse_mode"] = o.sparse_mode;
    data["pse_type"] = o.pse_type;
}

// Tensors that forward saves, in this order.
enum : size_t { kQuery, kKey, kValue, kAttention, kMaximum, kSum, kPse, kMask, kSink, kQueryEnds, kKeyEnds, kSeed };

struct Attention : Function<Attention> {
    static variable_list forward(AutogradContext* context, const at::Tensor& query, const at::Tensor& key,
                                 const at::Tensor& value, const OptionalTensor& pse, const OptionalTensor& sink,
                                 const Options& options) {
        at::AutoDispatchBelowADInplaceOrView below_autograd;
        auto [attention, maximum, sum] = dispatch_forward(query, key, value, options);
        const auto tensor = [](const OptionalTensor& optional) { return optional.value_or(at::Tensor()); };
        context->save_for_backward({query, key, value, attention, maximum, sum, tensor(pse), tensor(options.atten_mask),
                                    tensor(sink), tensor(options.cu_seqlens_q), tensor(options.cu_seqlens_k),
                                    tensor(options.seed)});
        save_numbers(context, options);
        context->mark_non_differentiable({maximum, sum});
        return {attention, maximum, sum};
    }

    static variable_list backward(AutogradContext* context, const variable_list& grads) {
        const variable_list saved = context->get_saved_variables();
        auto& data = context->saved_data;
        const OptionalTensor pse = present(saved[kPse]), mask = present(saved[kMask]), sink = present(saved[kSink]);
        const OptionalTensor query_ends = present(saved[kQueryEnds]), key_ends = present(saved[kKeyEnds]);
        const OptionalTensor seed = present(saved[kSeed]);
        const std::vector<int64_t> prefix = data["prefix"].toIntVector();
        const std::string layout = data["layout"].toStringRef();
        const Options options{pse,
                              mask,
                              sink,
                              query_ends,
                              key_ends,
                              seed,
                              prefix,
                              data["scale"].toDouble(),
                              data["keep_prob"].toDouble(),
                              data["pre_tokens"].toSymInt(),
                              data["next_tokens"].toSymInt(),
                              layout,
                              data["sparse_mode"].toInt(),
                              data["pse_type"].toInt()};
        const bool pse_gradient = pse.has_value() && context->needs_input_grad(3);
        auto [query, key, value, bias, logit] =
            dispatch_backward(grads[0], saved[kQuery], saved[kKey], saved[kValue], saved[kAttention], saved[kMaximum],
                              saved[kSum], pse_gradient, options);
        return {query, key, value, absent(!pse_gradient, bias), absent(!sink.has_value(), logit), at::Tensor()};
    }
};

ForwardResults forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                       const OptionalTensor& pse, const OptionalTensor& atten_mask, const OptionalTensor& sink,
                       const OptionalTensor& cu_seqlens_q, const OptionalTensor& cu_seqlens_k,
                       const OptionalTensor& seed, at::IntArrayRef prefix, double scale, double keep_prob,
                       c10::SymInt pre_tokens, c10::SymInt next_tokens, std::string_view layout, int64_t sparse_mode,
                       int64_t pse_type) {
    const Options options{pse,   atten_mask, sink,       cu_seqlens_q, cu_seqlens_k, seed,        prefix,
                          scale, keep_prob,  pre_tokens, next_tokens,  layout,       sparse_mode, pse_type};
    if (at::GradMode::is_enabled() && (query.requires_grad() || key.requires_grad() || value.requires_grad() ||
                                       needs_gradient(pse) || needs_gradient(sink))) {
        variable_list results = Attention::apply(query, key, value, pse, sink, options);
        return {results[0], results[1], results[2]};
    }
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    return dispatch_forward(query, key, value, options);
}

// The gradient as a function of its own inputs.
struct Gradient : Function<Gradient> {
    static variable_list forward(AutogradContext*, const at::Tensor& grad, const at::Tensor& query,
                                 const at::Tensor& key, const at::Tensor& value, const at::Tensor& attention,
                                 const at::Tensor& softmax_max, const at::Tensor& softmax_sum, bool pse_gradient,
                                 const Options& options) {
        at::AutoDispatchBelowADInplaceOrView below_autograd;
        auto [a, b, c, d, e] =
            dispatch_backward(grad, query, key, value, attention, softmax_max, softmax_sum, pse_gradient, options);
        return {a, b, c, d, e};
    }

    static variable_list backward(AutogradContext*, const variable_list&) {
        TORCH_CHECK_NOT_IMPLEMENTED(false, "ops_transformer: attention has no second derivative");
    }
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
    if (at::GradMode::is_enabled()) {
        variable_list r =
            Gradient::apply(grad, query, key, value, attention, softmax_max, softmax_sum, pse_gradient, options);
        return {r[0], r[1], r[2], r[3], r[4]};
    }
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    return dispatch_backward(grad, query, key, value, attention, softmax_max, softmax_sum, pse_gradient, options);
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
