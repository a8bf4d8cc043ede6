// The schemas, and calls through the dispatcher.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "attention.h"

TORCH_LIBRARY(ops_transformer, library) {
    library.def(ops_transformer::kForwardSchema);
    library.def(ops_transformer::kBackwardSchema);
}

namespace ops_transformer {
namespace {

template <class Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
    return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

template <class Results, class... Operands>
using Operator = Results(Operands..., const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                         const OptionalTensor&, const OptionalTensor&, const OptionalTensor&, at::IntArrayRef, double,
                         double, c10::SymInt, c10::SymInt, std::string_view, int64_t, int64_t);
using In = const at::Tensor&;

template <class Handle, class... Operands>
auto call(const Handle& handle, const Options& o, const Operands&... operands) {
    return handle.call(operands..., o.pse, o.atten_mask, o.sink, o.cu_seqlens_q, o.cu_seqlens_k, o.seed, o.prefix,
                       o.scale, o.keep_prob, o.pre_tokens, o.next_tokens, o.layout, o.sparse_mode, o.pse_type);
}

}  // namespace

ForwardResults dispatch_forward(In query, In key, In value, const Options& options) {
    static const auto handle = find<Operator<ForwardResults, In, In, In>>("ops_transformer::attention_forward");
    return call(handle, options, query, key, value);
}

BackwardResults dispatch_backward(In grad, In query, In key, In value, In attention, In softmax_max, In softmax_sum,
                                  bool pse_gradient, const Options& options) {
    static const auto handle =
        find<Operator<BackwardResults, In, In, In, In, In, In, In, bool>>("ops_transformer::attention_backward");
    return call(handle, options, grad, query, key, value, attention, softmax_max, softmax_sum, pse_gradient);
}

}  // namespace ops_transformer
