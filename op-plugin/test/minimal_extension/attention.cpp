// The least that adds an operator over an aclnn function to torch-npu: no generator, no header but the wheel's own.
#include <tuple>

#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "op_plugin/include/npu_cpp_extension.h"

namespace {

// Query, key and value in layout BNSD; the result, and its maxima and sums.
std::tuple<at::Tensor, at::Tensor, at::Tensor> minimal_attention(const at::Tensor& query, const at::Tensor& key,
                                                                 const at::Tensor& value, double scale) {
    const c10::OptionalDeviceGuard guard(query.device());
    const auto statistic = query.options().dtype(at::kFloat);
    at::Tensor out = at::empty(query.sizes(), query.options());
    at::Tensor softmax_max = at::empty({query.size(0), query.size(1), query.size(2), 8}, statistic);
    at::Tensor softmax_sum = at::empty_like(softmax_max);
    at::Tensor softmax_out = at::empty({0}, query.options());

    // The macro needs things with an address.
    at::Tensor absent;
    at::IntArrayRef no_prefix;
    char layout[] = "BNSD";
    char* layout_text = layout;
    double keep_prob = 1;
    int64_t no_limit = 2147483647;
    int64_t heads = query.size(1);
    int64_t inner_precise = 0;
    int64_t sparse_mode = 0;
    EXEC_NPU_CMD_EXT(aclnnFlashAttentionScore, query, key, value, absent, absent, absent, absent, no_prefix, scale,
                     keep_prob, no_limit, no_limit, heads, layout_text, inner_precise, sparse_mode, softmax_max,
                     softmax_sum, softmax_out, out);
    return {out, softmax_max, softmax_sum};
}

TORCH_LIBRARY_FRAGMENT(npu, m) {
    m.def("minimal_attention(Tensor query, Tensor key, Tensor value, float scale) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(npu, PrivateUse1, m) {
    m.impl("minimal_attention", &minimal_attention);
}

}  // namespace
