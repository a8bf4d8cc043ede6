// The operators of this library: attention forward and backward on tensors of PyTorch.
//
// ops_transformer::attention_forward and attention_backward are aclnnFlashAttentionScoreV4 and ...GradV4, whose words,
// shapes and rules they have, with these differences. Sequence lengths are tensors of running totals that begin with 0,
// as the libraries around flash-attn have them, so that a graph may compute them. Statistics of TND lie in the order of
// the tokens. Where the pattern of sparse_mode is all that counts, the mask that stands for it may be absent. Dropout
// takes its seed from a tensor [1] of int64. Results that do not exist have shape [0].
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include <optional>
#include <string_view>
#include <tuple>

namespace ops_transformer {

using OptionalTensor = std::optional<at::Tensor>;
// attention, softmax_max, softmax_sum
using ForwardResults = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
// gradients of query, key, value, pse, sink
using BackwardResults = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// The arguments that both operators have besides their operands, in the order of the schema.
struct Options {
    const OptionalTensor& pse;
    const OptionalTensor& atten_mask;
    const OptionalTensor& sink;
    const OptionalTensor& cu_seqlens_q;
    const OptionalTensor& cu_seqlens_k;
    const OptionalTensor& seed;
    at::IntArrayRef prefix;
    double scale;
    double keep_prob;
    c10::SymInt pre_tokens;
    c10::SymInt next_tokens;
    std::string_view layout;  // BNSD, BSND or TND
    int64_t sparse_mode;
    int64_t pse_type;

    bool has_slopes() const { return pse.has_value() && (pse_type == 2 || pse_type == 3); }
};
#define OPS_TRANSFORMER_OPTIONS                                                                                 \
    "Tensor? pse, Tensor? atten_mask, Tensor? sink, Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, Tensor? seed, " \
    "int[] prefix, float scale, float keep_prob, SymInt pre_tokens, SymInt next_tokens, str layout, "           \
    "int sparse_mode, int pse_type"

inline constexpr char kForwardSchema[] =
    "attention_forward(Tensor query, Tensor key, Tensor value, " OPS_TRANSFORMER_OPTIONS
    ") -> (Tensor, Tensor, Tensor)";
inline constexpr char kBackwardSchema[] =
    "attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor attention, Tensor softmax_max, "
    "Tensor softmax_sum, bool pse_gradient, " OPS_TRANSFORMER_OPTIONS ") -> (Tensor, Tensor, Tensor, Tensor, Tensor)";

// Calls through PyTorch's dispatcher.
ForwardResults dispatch_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                const Options& options);
BackwardResults dispatch_backward(const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key,
                                  const at::Tensor& value, const at::Tensor& attention, const at::Tensor& softmax_max,
                                  const at::Tensor& softmax_sum, bool pse_gradient, const Options& options);

}  // namespace ops_transformer
