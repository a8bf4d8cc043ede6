// The operators on cpu and npu tensors, by the aclnn functions.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <string>
#include <vector>

#include "acl_objects.h"
#include "aclnnop/aclnn_flash_attention_score.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "attention.h"
#include "operands.h"
#include "operator_call.h"

namespace ops_transformer {
namespace {

using In = const at::Tensor&;
constexpr int64_t kStatisticCopies = 8;

at::Tensor absent_result(In model) {
    return at::empty({0}, model.options());
}

// Shapes as in fake.py.
ForwardResults forward_results(In query, In value, const Options& options) {
    std::vector<int64_t> attention = query.sizes().vec(), statistics = attention;
    attention.back() = value.size(-1);
    if (options.layout == "BSND") std::swap(statistics[1], statistics[2]);
    statistics.back() = kStatisticCopies;
    const auto floats = query.options().dtype(at::kFloat);
    return {at::empty(attention, query.options()), at::empty(statistics, floats), at::empty(statistics, floats)};
}

ForwardResults forward(In query, In key, In value, const OptionalTensor& pse, const OptionalTensor& atten_mask,
                       const OptionalTensor& sink, const OptionalTensor& cu_seqlens_q,
                       const OptionalTensor& cu_seqlens_k, const OptionalTensor& seed, at::IntArrayRef prefix,
                       double scale, double keep_prob, c10::SymInt pre_tokens, c10::SymInt next_tokens,
                       std::string_view layout, int64_t sparse_mode, int64_t pse_type) {
    const Options options{pse,   atten_mask, sink,       cu_seqlens_q, cu_seqlens_k, seed,        prefix,
                          scale, keep_prob,  pre_tokens, next_tokens,  layout,       sparse_mode, pse_type};
    ForwardResults results = forward_results(query, value, options);
    const auto& [attention, maximum, sum] = results;
    const c10::OptionalDeviceGuard device(query.device());
    SharedArguments s(query, key, options);
    if (s.has_no_sequence()) {
        for (const at::Tensor& result : {attention, maximum, sum}) result.zero_();
        return results;
    }
    const TensorHandle q = make_handle(query), k = make_handle(key), v = make_handle(value);
    const TensorHandle out = make_handle(attention), max = make_handle(maximum), total = make_handle(sum);
    run_operator(
        query,
        [&](uint64_t* size, aclOpExecutor** executor) {
            return aclnnFlashAttentionScoreV4GetWorkspaceSize(
                q.get(), k.get(), v.get(), s.pse.get(), nullptr, nullptr, s.mask.get(), nullptr, nullptr, nullptr,
                nullptr, nullptr, s.sink.get(), s.prefix.get(), s.query_ends.get(), s.key_ends.get(), nullptr, nullptr,
                s.scale, s.keep_prob, s.pre_tokens, s.next_tokens, s.heads, s.layout.data(), /*innerPrecise=*/0,
                s.sparse_mode, /*outDtype=*/0, s.pse_type, s.statistics_layout, s.seed, /*offset=*/0, max.get(),
                total.get(), nullptr, out.get(), size, executor);
        },
        &aclnnFlashAttentionScoreV4);
    return results;
}

BackwardResults backward(In grad, In query, In key, In value, In attention, In softmax_max, In softmax_sum,
                         bool pse_gradient, const OptionalTensor& pse, const OptionalTensor& atten_mask,
                         const OptionalTensor& sink, const OptionalTensor& cu_seqlens_q,
                         const OptionalTensor& cu_seqlens_k, const OptionalTensor& seed, at::IntArrayRef prefix,
                         double scale, double keep_prob, c10::SymInt pre_tokens, c10::SymInt next_tokens,
                         std::string_view layout, int64_t sparse_mode, int64_t pse_type) {
    const Options options{pse,   atten_mask, sink,       cu_seqlens_q, cu_seqlens_k, seed,        prefix,
                          scale, keep_prob,  pre_tokens, next_tokens,  layout,       sparse_mode, pse_type};
    const auto like = [](In model) { return at::empty_like(model, at::MemoryFormat::Contiguous); };
    const BackwardResults results{like(query), like(key), like(value), pse_gradient ? like(*pse) : absent_result(query),
                                  sink.has_value() ? like(*sink) : absent_result(query)};
    const auto& [query_grad, key_grad, value_grad, bias_grad, sink_grad] = results;
    const c10::OptionalDeviceGuard device(query.device());
    SharedArguments s(query, key, options);
    if (s.has_no_sequence()) {
        for (In result : {query_grad, key_grad, value_grad, bias_grad, sink_grad}) result.zero_();
        return results;
    }
    const TensorHandle dy = make_handle(grad), q = make_handle(query), k = make_handle(key), v = make_handle(value);
    const TensorHandle out = make_handle(attention), max = make_handle(softmax_max), total = make_handle(softmax_sum);
    const TensorHandle dq = make_handle(query_grad), dk = make_handle(key_grad), dv = make_handle(value_grad);
    const TensorHandle dpse = make_handle(bias_grad), dsink = make_handle(sink_grad);
    run_operator(
        query,
        [&](uint64_t* size, aclOpExecutor** executor) {
            return aclnnFlashAttentionScoreGradV4GetWorkspaceSize(
                q.get(), k.get(), v.get(), dy.get(), s.pse.get(), nullptr, nullptr, s.mask.get(), max.get(),
                total.get(), nullptr, out.get(), s.sink.get(), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                nullptr, s.prefix.get(), s.query_ends.get(), s.key_ends.get(), nullptr, nullptr, s.scale, s.keep_prob,
                s.pre_tokens, s.next_tokens, s.heads, s.layout.data(), s.statistics_layout, /*innerPrecise=*/0,
                s.sparse_mode, s.pse_type, s.seed, /*offset=*/0, /*outDtype=*/0, dq.get(), dk.get(), dv.get(), nullptr,
                nullptr, dpse.get(), dsink.get(), size, executor);
        },
        &aclnnFlashAttentionScoreGradV4);
    return results;
}

void implement(torch::Library& library) {
    library.impl("attention_forward", &forward);
    library.impl("attention_backward", &backward);
}

}  // namespace
}  // namespace ops_transformer

TORCH_LIBRARY_IMPL(ops_transformer, CPU, library) {
    ops_transformer::implement(library);
}
TORCH_LIBRARY_IMPL(ops_transformer, PrivateUse1, library) {
    ops_transformer::implement(library);
}
