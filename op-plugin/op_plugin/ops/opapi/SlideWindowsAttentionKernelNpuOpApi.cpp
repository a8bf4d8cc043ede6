// swa_forward and swa_backward: npu_fusion_attention's forward and gradient as two functions of their own, without an
// autograd link, for sparse modes 0 (no mask, or an explicit one) and 4 (a band: the sliding window) only.
//
// Which aclnn operator does the work:
//                                  forward                          backward
//   TND with a sink                FlashAttentionVarLenScoreV5      FlashAttentionUnpaddingScoreGradV5
//   TND, softmax_layout "TND"      FlashAttentionVarLenScoreV4      FlashAttentionUnpaddingScoreGradV4
//   TND                            FlashAttentionVarLenScore        FlashAttentionUnpaddingScoreGrad
//   other layouts with a sink      FlashAttentionScoreV3            FlashAttentionScoreGradV3
//   other layouts                  FlashAttentionScore              FlashAttentionScoreGrad

#include <algorithm>
#include <cctype>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "op_plugin/OpApiInterface.h"
#include "op_plugin/utils/op_api_common.h"
#include "torch_npu/csrc/aten/CustomFunctions.h"
#include "torch_npu/csrc/aten/NPUGeneratorImpl.h"
#include "torch_npu/csrc/framework/utils/OpPreparation.h"

namespace op_api {
#if VERSION_BETWEEN(V2R2, VERSION_NEWEST)
using npu_preparation = at_npu::native::OpPreparation;

namespace {

enum SparseMode : int64_t { NO_MASK = 0, BAND = 4 };  // the two of the operator's nine modes that are on offer

constexpr int64_t kBandTokens = 16 * 1024;  // longer packed batches always use the band
constexpr int64_t kCompressedMask = 2048;   // rows and columns of the mask that stands for a band
constexpr int64_t kLongestSequence = 1024 * 1024;
constexpr int64_t kStatisticCopies = 8;  // each maximum and sum fills a block of 32 bytes
constexpr uint64_t kRandomNumbers = 10;  // what a dropout mask takes from the generator

std::string upper_case(c10::string_view text) {
    std::string result(text);
    std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return std::toupper(c); });
    return result;
}

// What both functions take and hand to the operators. Members, because the call macros need things with an address.
struct Attention {
    const at::Tensor& query;
    const at::Tensor& key;
    const at::Tensor& value;
    int64_t head_num;
    std::string layout;          // upper case
    std::string softmax_layout;  // upper case, "" or "TND"
    at::Tensor pse;
    at::Tensor padding_mask;
    at::Tensor atten_mask;
    at::Tensor sink;
    double scale;
    double keep_prob;
    int64_t pre_tokens;
    int64_t next_tokens;
    int64_t inner_precise;
    at::IntArrayRef prefix;
    at::IntArrayRef query_ends;
    at::IntArrayRef key_ends;
    int64_t sparse_mode;
    at::Tensor drop_mask{};

    bool packed() const { return layout == "TND"; }
};

// Fixed arguments of the operators' later versions, which have more options than these functions.
struct Unused {
    at::Tensor rope{};
    at::IntArrayRef start_index{};
    int64_t pse_type = 1;
};

struct Extents {
    int64_t batch;
    int64_t query_length;
    int64_t key_length;
};

// Of the layouts that are not packed.
Extents extents_of(const Attention& a) {
    if (a.layout == "SBH") return {a.query.size(1), a.query.size(0), a.key.size(0)};
    const int64_t length_axis = a.layout == "BNSD" ? 2 : 1;
    return {a.query.size(0), a.query.size(length_axis), a.key.size(length_axis)};
}

void check_rank(const at::Tensor& tensor, const char* name) {
    TORCH_CHECK(tensor.dim() == 3 || tensor.dim() == 4, "The shapes of the input ", name,
                " should be 3 or 4 dimensional, but got ", tensor.dim(), "-dimensional", OPS_ERROR(ErrCode::PARAM));
}

void check_layout(const Attention& a) {
    TORCH_CHECK(!a.layout.empty(), "The input_layout is empty", OPS_ERROR(ErrCode::PARAM));
    const bool has_three_axes = a.layout == "BSH" || a.layout == "SBH" || a.layout == "TND";
    TORCH_CHECK(has_three_axes || a.layout == "BNSD" || a.layout == "BSND",
                "The input_layout should be BSH/SBH/BNSD/BSND/TND(case-insensitive), but got ", a.layout,
                OPS_ERROR(ErrCode::PARAM));
    const int64_t axes = has_three_axes ? 3 : 4;
    TORCH_CHECK(a.query.dim() == axes && a.key.dim() == axes && a.value.dim() == axes, "input_layout ", a.layout,
                " needs query, key and value with ", axes, " dimensions, but got ", a.query.dim(), ", ", a.key.dim(),
                " and ", a.value.dim(), OPS_ERROR(ErrCode::PARAM));
    TORCH_CHECK(a.softmax_layout.empty() || a.softmax_layout == "TND", "only supported softmax_layout=TND",
                OPS_ERROR(ErrCode::PARAM));
    TORCH_CHECK(a.softmax_layout.empty() || a.packed(), "softmax_layout=TND only supported when input_layout_str=TND",
                OPS_ERROR(ErrCode::PARAM));
}

void check_lengths(const Attention& a) {
    if (a.packed()) {
        TORCH_CHECK(!a.query_ends.empty() && a.query_ends.size() == a.key_ends.size(),
                    "the size of actual_seq_qlen and actual_seq_kvlen must be the same and cannot be empty.",
                    OPS_ERROR(ErrCode::PARAM));
        return;
    }
    const Extents extents = extents_of(a);
    TORCH_CHECK(extents.query_length <= kLongestSequence && extents.key_length <= kLongestSequence,
                "The sequence length should not greater than 1M, but got q ", extents.query_length, ", kv ",
                extents.key_length, OPS_ERROR(ErrCode::PARAM));
}

void check(const Attention& a) {
    TORCH_CHECK(a.head_num > 0, "head_num must > 0, but got ", a.head_num, OPS_ERROR(ErrCode::PARAM));
    check_rank(a.query, "query");
    check_rank(a.key, "key");
    check_rank(a.value, "value");
    TORCH_CHECK(a.keep_prob > 0 && a.keep_prob <= 1, "The keep_prob value must be in range of (0, 1], but got ",
                a.keep_prob, OPS_ERROR(ErrCode::PARAM));
    TORCH_CHECK(a.sparse_mode == NO_MASK || a.sparse_mode == BAND, "The sparse_mode value should be 0 or 4, but got ",
                a.sparse_mode, OPS_ERROR(ErrCode::PARAM));
    check_layout(a);
    check_lengths(a);
}

// Long packed batches use the band whatever the caller asked for, in both directions alike, so that a backward call
// with the arguments of the forward call belongs to it.
void force_band(Attention& a) {
    if (!a.packed() || a.query.size(0) <= kBandTokens || a.sparse_mode == BAND) return;
    if (a.atten_mask.defined()) {
        const auto sizes = a.atten_mask.sizes();
        const bool compressed = sizes.size() >= 2 && a.atten_mask.numel() == kCompressedMask * kCompressedMask &&
                                sizes[sizes.size() - 1] == kCompressedMask &&
                                sizes[sizes.size() - 2] == kCompressedMask;
        TORCH_CHECK(compressed, "T > ", kBandTokens, " forces sparse_mode 4, which needs atten_mask of shape [",
                    kCompressedMask, ", ", kCompressedMask, "], but got ", sizes, OPS_ERROR(ErrCode::PARAM));
    } else {
        TORCH_WARN_ONCE("T > ", kBandTokens, " forces sparse_mode 4, but atten_mask is None: no window is applied");
    }
    a.sparse_mode = BAND;
}

// The number of bits in a dropout mask: one for each pair of a query row and a key of the same sequence, for each head.
int64_t count_pairs(const Attention& a) {
    if (!a.packed()) {
        const Extents extents = extents_of(a);
        return extents.batch * a.head_num * extents.query_length * extents.key_length;
    }
    int64_t pairs = 0;
    int64_t query_start = 0;
    int64_t key_start = 0;
    for (size_t i = 0; i < a.query_ends.size(); ++i) {
        pairs += (a.query_ends[i] - query_start) * (a.key_ends[i] - key_start);
        query_start = a.query_ends[i];
        key_start = a.key_ends[i];
    }
    return a.head_num * pairs;
}

std::pair<int64_t, int64_t> next_seed_and_offset() {
    auto generator = at_npu::detail::getDefaultNPUGenerator();
    std::lock_guard<std::mutex> lock(generator.mutex());
    const auto [seed, offset] =
        at::check_generator<at_npu::NPUGeneratorImpl>(generator)->philox_engine_inputs(kRandomNumbers);
    return {static_cast<int64_t>(seed), static_cast<int64_t>(offset)};
}

at::Tensor make_drop_mask(const Attention& a, int64_t pairs, int64_t seed, int64_t offset, bool parallel, bool sync) {
    const double drop_prob = 1.0F - static_cast<float>(a.keep_prob);  // in float, as the operators see keep_prob
    return at_npu::native::custom_ops::_npu_dropout_gen_mask(a.query, {pairs}, drop_prob, seed, offset, parallel, sync);
}

// The head dimension of value, which the result has. BSH and SBH do not show it: it follows from the head dimension of
// query.
int64_t value_dim(const Attention& a) {
    if (a.layout != "BSH" && a.layout != "SBH") return a.value.size(-1);
    const int64_t head_dim = a.query.size(2) / a.head_num;
    const int64_t key_heads = head_dim == 0 ? 0 : a.key.size(2) / head_dim;
    return key_heads == 0 ? 0 : a.value.size(2) / key_heads;
}

at::Tensor make_output(const Attention& a) {
    c10::SmallVector<int64_t> sizes(a.query.sizes());
    const bool flat_heads = a.layout == "BSH" || a.layout == "SBH";
    sizes.back() = flat_heads ? a.head_num * value_dim(a) : value_dim(a);
    return npu_preparation::apply_tensor_without_format(a.query, sizes);
}

at::Tensor make_statistic(const Attention& a) {
    const auto options = a.query.options().dtype(at::kFloat);
    if (a.packed()) {
        return npu_preparation::apply_tensor_without_format({a.query.size(0), a.query.size(1), kStatisticCopies},
                                                            options);
    }
    const Extents extents = extents_of(a);
    return npu_preparation::apply_tensor_without_format(
        {extents.batch, a.head_num, extents.query_length, kStatisticCopies}, options);
}

at::Tensor make_empty(const at::Tensor& like) {
    return npu_preparation::apply_tensor_without_format(like, c10::SmallVector<int64_t>{0});
}

// How the statistics of packed sequences lie, in the operators' words.
std::string statistic_layout(const Attention& a) {
    return a.softmax_layout.empty() ? "" : "same_as_input";
}

void run_forward(Attention& a, at::Tensor& softmax_max, at::Tensor& softmax_sum, at::Tensor& softmax_out,
                 at::Tensor& out) {
    Unused unused;
    std::string statistics = statistic_layout(a);
    char* layout = a.layout.data();
    char* softmax_layout = statistics.data();
    if (a.packed() && a.sink.defined()) {
        EXEC_NPU_CMD(aclnnFlashAttentionVarLenScoreV5, a.query, unused.rope, a.key, unused.rope, a.value, a.pse,
                     a.drop_mask, a.padding_mask, a.atten_mask, a.sink, a.prefix, a.query_ends, a.key_ends,
                     unused.start_index, unused.start_index, a.scale, a.keep_prob, a.pre_tokens, a.next_tokens,
                     a.head_num, layout, a.inner_precise, a.sparse_mode, unused.pse_type, softmax_layout, softmax_max,
                     softmax_sum, softmax_out, out);
    } else if (a.packed() && !statistics.empty()) {
        EXEC_NPU_CMD(aclnnFlashAttentionVarLenScoreV4, a.query, a.key, a.value, a.pse, a.drop_mask, a.padding_mask,
                     a.atten_mask, a.prefix, a.query_ends, a.key_ends, a.scale, a.keep_prob, a.pre_tokens,
                     a.next_tokens, a.head_num, layout, a.inner_precise, a.sparse_mode, softmax_layout, softmax_max,
                     softmax_sum, softmax_out, out);
    } else if (a.packed()) {
        EXEC_NPU_CMD(aclnnFlashAttentionVarLenScore, a.query, a.key, a.value, a.pse, a.drop_mask, a.padding_mask,
                     a.atten_mask, a.prefix, a.query_ends, a.key_ends, a.scale, a.keep_prob, a.pre_tokens,
                     a.next_tokens, a.head_num, layout, a.inner_precise, a.sparse_mode, softmax_max, softmax_sum,
                     softmax_out, out);
    } else if (a.sink.defined()) {
        EXEC_NPU_CMD(aclnnFlashAttentionScoreV3, a.query, a.key, a.value, a.pse, a.drop_mask, a.padding_mask,
                     a.atten_mask, a.sink, a.prefix, unused.start_index, unused.start_index, a.scale, a.keep_prob,
                     a.pre_tokens, a.next_tokens, a.head_num, layout, a.inner_precise, a.sparse_mode, unused.pse_type,
                     softmax_max, softmax_sum, softmax_out, out);
    } else {
        EXEC_NPU_CMD(aclnnFlashAttentionScore, a.query, a.key, a.value, a.pse, a.drop_mask, a.padding_mask,
                     a.atten_mask, a.prefix, a.scale, a.keep_prob, a.pre_tokens, a.next_tokens, a.head_num, layout,
                     a.inner_precise, a.sparse_mode, softmax_max, softmax_sum, softmax_out, out);
    }
}

// What backward needs besides, from the caller and from forward.
struct ForwardResults {
    const at::Tensor& dy;
    at::Tensor softmax_max;
    at::Tensor softmax_sum;
    at::Tensor softmax_in;
    at::Tensor attention_in;
};

struct Gradients {
    at::Tensor query;
    at::Tensor key;
    at::Tensor value;
    at::Tensor pse{};
    at::Tensor sink{};
    at::Tensor query_rope{};
    at::Tensor key_rope{};
};

Gradients make_gradients(const Attention& a) {
    const auto like = [](const at::Tensor& tensor) { return npu_preparation::apply_tensor_without_format(tensor); };
    Gradients d{like(a.query), like(a.key), like(a.value)};
    d.pse = a.pse.defined() ? like(a.pse) : make_empty(a.query);
    d.sink = a.sink.defined() ? like(a.sink)
                              : npu_preparation::apply_tensor_without_format({0}, a.query.options().dtype(at::kFloat));
    d.query_rope = make_empty(a.query);
    d.key_rope = make_empty(a.key);
    return d;
}

void run_backward(Attention& a, ForwardResults& f, Gradients& d) {
    Unused unused;
    std::string statistics = statistic_layout(a);
    char* layout = a.layout.data();
    char* softmax_layout = statistics.data();
    if (a.packed() && a.sink.defined()) {
        EXEC_NPU_CMD(aclnnFlashAttentionUnpaddingScoreGradV5, a.query, unused.rope, a.key, unused.rope, a.value, f.dy,
                     a.pse, a.drop_mask, a.padding_mask, a.atten_mask, f.softmax_max, f.softmax_sum, f.softmax_in,
                     f.attention_in, a.sink, a.prefix, a.query_ends, a.key_ends, unused.start_index, unused.start_index,
                     a.scale, a.keep_prob, a.pre_tokens, a.next_tokens, a.head_num, layout, a.inner_precise,
                     a.sparse_mode, unused.pse_type, softmax_layout, d.query, d.query_rope, d.key, d.key_rope, d.value,
                     d.pse, d.sink);
    } else if (a.packed() && !statistics.empty()) {
        EXEC_NPU_CMD(aclnnFlashAttentionUnpaddingScoreGradV4, a.query, a.key, a.value, f.dy, a.pse, a.drop_mask,
                     a.padding_mask, a.atten_mask, f.softmax_max, f.softmax_sum, f.softmax_in, f.attention_in, a.prefix,
                     a.query_ends, a.key_ends, a.scale, a.keep_prob, a.pre_tokens, a.next_tokens, a.head_num, layout,
                     a.inner_precise, a.sparse_mode, d.query, d.key, d.value, d.pse, softmax_layout);
    } else if (a.packed()) {
        EXEC_NPU_CMD(aclnnFlashAttentionUnpaddingScoreGrad, a.query, a.key, a.value, f.dy, a.pse, a.drop_mask,
                     a.padding_mask, a.atten_mask, f.softmax_max, f.softmax_sum, f.softmax_in, f.attention_in, a.prefix,
                     a.query_ends, a.key_ends, a.scale, a.keep_prob, a.pre_tokens, a.next_tokens, a.head_num, layout,
                     a.inner_precise, a.sparse_mode, d.query, d.key, d.value, d.pse);
    } else if (a.sink.defined()) {
        EXEC_NPU_CMD(aclnnFlashAttentionScoreGradV3, a.query, a.key, a.value, f.dy, a.pse, a.drop_mask, a.padding_mask,
                     a.atten_mask, f.softmax_max, f.softmax_sum, f.softmax_in, f.attention_in, a.sink, a.prefix,
                     unused.start_index, unused.start_index, a.scale, a.keep_prob, a.pre_tokens, a.next_tokens,
                     a.head_num, layout, a.inner_precise, a.sparse_mode, unused.pse_type, d.query, d.key, d.value,
                     d.pse, d.sink);
    } else {
        EXEC_NPU_CMD(aclnnFlashAttentionScoreGrad, a.query, a.key, a.value, f.dy, a.pse, a.drop_mask, a.padding_mask,
                     a.atten_mask, f.softmax_max, f.softmax_sum, f.softmax_in, f.attention_in, a.prefix, a.scale,
                     a.keep_prob, a.pre_tokens, a.next_tokens, a.head_num, layout, a.inner_precise, a.sparse_mode,
                     d.query, d.key, d.value, d.pse);
    }
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, int64_t, int64_t, int64_t> swa_forward(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t head_num,
    c10::string_view input_layout, const c10::optional<at::Tensor>& pse, const c10::optional<at::Tensor>& padding_mask,
    const c10::optional<at::Tensor>& atten_mask, double scale, double keep_prob, int64_t pre_tockens,
    int64_t next_tockens, int64_t inner_precise, at::OptionalIntArrayRef prefix,
    at::OptionalIntArrayRef actual_seq_qlen, at::OptionalIntArrayRef actual_seq_kvlen, int64_t sparse_mode,
    bool gen_mask_parallel, bool sync, c10::string_view softmax_layout, const c10::optional<at::Tensor>& sink) {
    Attention a{query,
                key,
                value,
                head_num,
                upper_case(input_layout),
                upper_case(softmax_layout),
                pse.value_or(at::Tensor()),
                padding_mask.value_or(at::Tensor()),
                atten_mask.value_or(at::Tensor()),
                sink.value_or(at::Tensor()),
                scale,
                keep_prob,
                pre_tockens,
                next_tockens,
                inner_precise,
                prefix.value_or(at::IntArrayRef{}),
                actual_seq_qlen.value_or(at::IntArrayRef{}),
                actual_seq_kvlen.value_or(at::IntArrayRef{}),
                sparse_mode};
    check(a);
    force_band(a);

    const int64_t numels = count_pairs(a);
    int64_t seed = 0;
    int64_t offset = 0;
    if (keep_prob < 1) {
        std::tie(seed, offset) = next_seed_and_offset();
        a.drop_mask = make_drop_mask(a, numels, seed, offset, gen_mask_parallel, sync);
    }

    at::Tensor attention_score = make_output(a);
    at::Tensor softmax_max = make_statistic(a);
    at::Tensor softmax_sum = make_statistic(a);
    at::Tensor softmax_out = make_empty(query);
    run_forward(a, softmax_max, softmax_sum, softmax_out, attention_score);
    return {attention_score, softmax_max, softmax_sum, softmax_out, seed, offset, numels};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> swa_backward(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& dy, int64_t head_num,
    c10::string_view input_layout, const c10::optional<at::Tensor>& pse, const c10::optional<at::Tensor>& padding_mask,
    const c10::optional<at::Tensor>& atten_mask, const c10::optional<at::Tensor>& softmax_max,
    const c10::optional<at::Tensor>& softmax_sum, const c10::optional<at::Tensor>& softmax_in,
    const c10::optional<at::Tensor>& attention_in, double scale_value, double keep_prob, int64_t pre_tockens,
    int64_t next_tockens, int64_t inner_precise, int64_t seed, int64_t offset, int64_t numels,
    at::OptionalIntArrayRef prefix, at::OptionalIntArrayRef actual_seq_qlen, at::OptionalIntArrayRef actual_seq_kvlen,
    int64_t sparse_mode, bool gen_mask_parallel, bool sync, c10::string_view softmax_layout,
    const c10::optional<at::Tensor>& sink) {
    Attention a{query,
                key,
                value,
                head_num,
                upper_case(input_layout),
                upper_case(softmax_layout),
                pse.value_or(at::Tensor()),
                padding_mask.value_or(at::Tensor()),
                atten_mask.value_or(at::Tensor()),
                sink.value_or(at::Tensor()),
                scale_value,
                keep_prob,
                pre_tockens,
                next_tockens,
                inner_precise,
                prefix.value_or(at::IntArrayRef{}),
                actual_seq_qlen.value_or(at::IntArrayRef{}),
                actual_seq_kvlen.value_or(at::IntArrayRef{}),
                sparse_mode};
    check(a);
    check_rank(dy, "dy");
    force_band(a);
    if (keep_prob < 1) a.drop_mask = make_drop_mask(a, numels, seed, offset, gen_mask_parallel, sync);

    ForwardResults results{dy, softmax_max.value_or(at::Tensor()), softmax_sum.value_or(at::Tensor()),
                           softmax_in.value_or(at::Tensor()), attention_in.value_or(at::Tensor())};
    Gradients d = make_gradients(a);
    run_backward(a, results, d);
    // Without a bias there is none of it to return: None in Python, as from npu_fusion_attention_grad.
    return {d.query, d.key, d.value, a.pse.defined() ? d.pse : at::Tensor(), d.sink};
}

#endif
}  // namespace op_api
