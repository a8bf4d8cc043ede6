// Pointers, dtypes, formats and shapes: what can be said without lengths, masks and windows.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <string_view>

#include "op_api/checks.h"
#include "opbase/dtype.h"
#include "opbase/error.h"
#include "opbase/tensor.h"

namespace flash_attention {
namespace {

using opbase::dtype_name;
using opbase::Layout;
using opbase::ParameterError;
using opbase::Shape;
using opbase::to_string;

constexpr int64_t kMaxHeadDim = 768;

bool is_attention_dtype(aclDataType dtype) {
    return dtype == ACL_FLOAT || dtype == ACL_FLOAT16 || dtype == ACL_BF16;
}

void check_out_dtype(const ScoreRequest& request) {
    const aclDataType dtype = request.attention_out->dtype;
    if (dtype == request.query->dtype) return;
    throw ParameterError(fmt::format("attentionOutOut dtype {} must equal query dtype {}", dtype_name(dtype),
                                     dtype_name(request.query->dtype)));
}

void check_input_dtypes(const ScoreRequest& request) {
    const aclDataType dtype = request.query->dtype;
    if (request.key->dtype != dtype || request.value->dtype != dtype) {
        throw ParameterError(fmt::format("query, key and value must have the same dtype: got {}, {}, {}",
                                         dtype_name(dtype), dtype_name(request.key->dtype),
                                         dtype_name(request.value->dtype)));
    }
    if (!is_attention_dtype(dtype)) {
        throw ParameterError(
            fmt::format("query dtype {} is not supported: expected FLOAT16, BFLOAT16 or FLOAT", dtype_name(dtype)));
    }
    check_bias_dtype(request);
    // The head count is not known yet; headNum has to be equal to it.
    if (request.sink != nullptr && request.sink->dtype != ACL_FLOAT) check_sink(request, request.head_num);
    if (request.out_dtype_first) check_out_dtype(request);
}

Layout check_layout(const ScoreRequest& request) {
    // An unterminated string would be read with whatever follows it, and fill the message.
    const std::string_view text(request.input_layout, strnlen(request.input_layout, 32));
    const auto layout = opbase::parse_layout(text);
    if (layout.has_value() && (request.any_layout || request.varlen == (*layout == Layout::kTND))) return *layout;
    throw ParameterError(
        request.varlen ? fmt::format("inputLayout \"{}\" is not supported by VarLen operators: expected TND", text)
                       : fmt::format("inputLayout \"{}\" is not supported: expected BSH, SBH, {}", text,
                                     request.any_layout ? "BSND, BNSD or TND" : "BSND or BNSD"));
}

void check_rank(const NamedTensor& argument, Layout layout) {
    const aclTensor& tensor = *argument.tensor;
    if (tensor.rank() != opbase::layout_rank(layout)) {
        throw ParameterError(fmt::format("{} has {} dimensions {}, but inputLayout \"{}\" needs {}", argument.name,
                                         tensor.rank(), to_string(tensor.shape), opbase::layout_name(layout),
                                         opbase::layout_rank(layout)));
    }
    // Expanded views (stride 0) can have any size; beyond the address space sums of sizes could overflow.
    if (std::any_of(tensor.shape.begin(), tensor.shape.end(), [](int64_t size) { return size > kAddressSpace; })) {
        throw ParameterError(fmt::format("{} shape {} is too large: no dimension can exceed {}", argument.name,
                                         to_string(tensor.shape), kAddressSpace));
    }
}

// Position of the axis with this letter.
size_t axis_of(Layout layout, char letter) {
    return opbase::layout_name(layout).find(letter);
}

// BSH and SBH: the heads share the last axis with the features.
bool has_h_axis(Layout layout) {
    return axis_of(layout, 'H') != std::string_view::npos;
}

int64_t batch_of(const aclTensor& tensor, Layout layout) {
    return layout == Layout::kTND ? 1 : tensor.shape[axis_of(layout, 'B')];
}

int64_t length_of(const aclTensor& tensor, Layout layout) {
    return tensor.shape[axis_of(layout, layout == Layout::kTND ? 'T' : 'S')];
}

void require_multiple(const NamedTensor& argument, int64_t divisor, std::string_view divisor_name) {
    const int64_t size = argument.tensor->shape.back();
    if (divisor == 0 ? size == 0 : size % divisor == 0) return;
    throw ParameterError(
        fmt::format("last dimension {} of {} is not a multiple of {} {}", size, argument.name, divisor_name, divisor));
}

// BSH and SBH: headNum defines the heads of query, these the head dimension, and that the heads of key and value. Where
// a size of 0 leaves a count open, it gets the value that the other tensors suggest.
void split_h_axes(const ScoreRequest& request, ScoreSizes& sizes, int64_t& key_dim) {
    sizes.query_heads = request.head_num;
    require_multiple({"query", request.query}, request.head_num, "headNum");
    sizes.head_dim = key_dim = request.query->shape.back() / request.head_num;
    require_multiple({"key", request.key}, sizes.head_dim, "the head dimension");
    sizes.kv_heads = sizes.head_dim == 0 ? request.head_num : request.key->shape.back() / sizes.head_dim;
    require_multiple({"value", request.value}, sizes.kv_heads, "the number of key heads");
    sizes.value_dim = sizes.kv_heads == 0 ? sizes.head_dim : request.value->shape.back() / sizes.kv_heads;
}

void check_head_dims(const ScoreSizes& sizes, int64_t key_dim) {
    if (key_dim != sizes.head_dim) {
        throw ParameterError(
            fmt::format("head dimension of key {} must equal that of query {}", key_dim, sizes.head_dim));
    }
    if (sizes.value_dim > key_dim) {
        throw ParameterError(
            fmt::format("head dimension of value {} must not exceed that of key {}", sizes.value_dim, key_dim));
    }
    if (sizes.head_dim > kMaxHeadDim) {
        throw ParameterError(fmt::format("head dimension {} exceeds {}", sizes.head_dim, kMaxHeadDim));
    }
}

void check_heads(const ScoreRequest& request, const ScoreSizes& sizes) {
    if (request.head_num != sizes.query_heads) {
        throw ParameterError(fmt::format("headNum is {}, but query dim {} (N of \"{}\") is {}", request.head_num,
                                         axis_of(sizes.layout, 'N'), opbase::layout_name(sizes.layout),
                                         sizes.query_heads));
    }
    if (sizes.kv_heads != 0 && sizes.query_heads % sizes.kv_heads != 0) {
        throw ParameterError(
            fmt::format("query has {} heads and key has {}: the number of query heads must be a multiple of the number "
                        "of key heads",
                        sizes.query_heads, sizes.kv_heads));
    }
}

void check_key_against_others(const ScoreRequest& request, const ScoreSizes& sizes) {
    const Shape& key = request.key->shape;
    const Shape& value = request.value->shape;
    if (!std::equal(key.begin(), key.end() - 1, value.begin())) {
        throw ParameterError(fmt::format("key shape {} and value shape {} must be equal except for the last dimension",
                                         to_string(key), to_string(value)));
    }
    const int64_t key_batch = batch_of(*request.key, sizes.layout);
    if (key_batch != sizes.batch) {
        throw ParameterError(fmt::format("query shape {} and key shape {} must have the same batch: got {} and {}",
                                         to_string(request.query->shape), to_string(key), sizes.batch, key_batch));
    }
}

// 1 TiB of statistics (eight floats for each query row and head) is more than any machine here has, and few enough rows
// to plan for.
constexpr int64_t kMaxStatisticsBytes = int64_t{1} << 40;

// Expanded views cost no memory, so only these two limits keep sizes from overflowing in what follows.
void check_addressable(const ScoreRequest& request, const ScoreSizes& sizes) {
    constexpr int64_t kEntryBytes = kStatsCopies * sizeof(float);
    if (saturating_product({sizes.batch, sizes.q_len, sizes.query_heads, kEntryBytes}) > kMaxStatisticsBytes) {
        throw ParameterError(
            fmt::format("query shape {} with headNum {} is too large: its softmax statistics exceed {} bytes",
                        to_string(request.query->shape), request.head_num, kMaxStatisticsBytes));
    }
    if (saturating_product({sizes.q_len, sizes.kv_len}) == INT64_MAX) {
        throw ParameterError(fmt::format("query shape {} and key shape {} are too large: their pairs cannot be counted",
                                         to_string(request.query->shape), to_string(request.key->shape)));
    }
}

// TND statistics are addressed by position, so any shape with room for T x N entries of eight does.
bool is_flat_statistics(const aclTensor& tensor, const ScoreSizes& sizes) {
    return tensor.rank() > 0 && tensor.shape.back() == kStatsCopies &&
           tensor.count() == sizes.q_len * sizes.query_heads * kStatsCopies;
}

void check_statistics(const NamedTensor& argument, const ScoreSizes& sizes) {
    const aclTensor& tensor = *argument.tensor;
    const bool tnd = sizes.layout == Layout::kTND;
    if (!(tnd ? is_flat_statistics(tensor, sizes)
              : shape_is(tensor, {sizes.batch, sizes.query_heads, sizes.q_len, kStatsCopies}))) {
        const Shape expected = tnd ? Shape{sizes.q_len, sizes.query_heads, kStatsCopies}
                                   : Shape{sizes.batch, sizes.query_heads, sizes.q_len, kStatsCopies};
        throw ParameterError(fmt::format("{} shape {}: expected {}{}", argument.name, to_string(tensor.shape),
                                         to_string(expected), tnd ? " or as many elements with last dimension 8" : ""));
    }
    if (tensor.dtype != ACL_FLOAT) {
        throw ParameterError(
            fmt::format("{} dtype {} is not supported: expected FLOAT", argument.name, dtype_name(tensor.dtype)));
    }
    require_plain_format(argument);
}

// outDtype and the scales of quantised attention exist in one version only.
void check_quantised(const ScoreRequest& request) {
    const NamedTensor scales[] = {{"dScaleQOptional", request.scale_q},
                                  {"dScaleKOptional", request.scale_k},
                                  {"dScaleVOptional", request.scale_v}};
    for (const NamedTensor& scale : scales) {
        if (opbase::is_absent(scale.tensor)) continue;
        throw ParameterError(
            fmt::format("{} belongs to quantised attention, which is not supported: expected nullptr", scale.name));
    }
    if (request.out_dtype != 0) {
        throw ParameterError(fmt::format("outDtype {} is not supported: expected 0", request.out_dtype));
    }
}

}  // namespace

void require_plain_format(const NamedTensor& argument) {
    if (opbase::is_plain_format(argument.tensor->format)) return;
    throw ParameterError(fmt::format("{} format {} is not supported: expected ND", argument.name,
                                     opbase::format_name(argument.tensor->format)));
}

bool shape_is(const aclTensor& tensor, std::initializer_list<int64_t> expected) {
    return std::equal(tensor.shape.begin(), tensor.shape.end(), expected.begin(), expected.end());
}

int64_t saturating_product(std::initializer_list<int64_t> sizes) {
    int64_t result = 1;
    for (const int64_t size : sizes) {
        if (size == 0) return 0;
        if (__builtin_mul_overflow(result, size, &result)) result = INT64_MAX;
    }
    return result;
}

int64_t pair_count(const ScoreSizes& sizes, const SequenceLengths& lengths) {
    if (sizes.layout != Layout::kTND) {
        return saturating_product({sizes.batch, sizes.query_heads, sizes.q_len, sizes.kv_len});
    }
    int64_t pairs = 0;
    for (const Sequence& s : lengths.sequences) {
        if (__builtin_add_overflow(pairs, s.q_len * s.kv_len, &pairs)) return INT64_MAX;
    }
    return saturating_product({sizes.query_heads, pairs});
}

void check_required(const ScoreRequest& request) {
    if (request.varlen && request.input_layout != nullptr) check_layout(request);
    opbase::require(request.query, "query");
    opbase::require(request.key, "key");
    opbase::require(request.value, "value");
    opbase::require(request.input_layout, "inputLayout");
    opbase::require(request.executor, "executor");
    opbase::require(request.workspace_size, "workspaceSize");
    opbase::require(request.softmax_max, "softmaxMaxOut");
    opbase::require(request.softmax_sum, "softmaxSumOut");
    opbase::require(request.attention_out, "attentionOutOut");
}

bool all_outputs_empty(const ScoreRequest& request) {
    return request.softmax_max->count() == 0 && request.softmax_sum->count() == 0 &&
           request.attention_out->count() == 0;
}

ScoreSizes check_inputs(const ScoreRequest& request) {
    const NamedTensor arguments[] = {{"query", request.query}, {"key", request.key}, {"value", request.value}};
    for (const NamedTensor& argument : arguments) require_plain_format(argument);
    check_input_dtypes(request);
    check_quantised(request);
    if (request.head_num <= 0) {
        throw ParameterError(fmt::format("headNum must be positive: got {}", request.head_num));
    }
    ScoreSizes sizes{.layout = check_layout(request)};
    for (const NamedTensor& argument : arguments) check_rank(argument, sizes.layout);

    int64_t key_dim = 0;
    if (has_h_axis(sizes.layout)) {
        split_h_axes(request, sizes, key_dim);
    } else {
        sizes.query_heads = request.query->shape[axis_of(sizes.layout, 'N')];
        sizes.kv_heads = request.key->shape[axis_of(sizes.layout, 'N')];
        sizes.head_dim = request.query->shape.back();
        key_dim = request.key->shape.back();
        sizes.value_dim = request.value->shape.back();
    }
    sizes.batch = batch_of(*request.query, sizes.layout);
    sizes.q_len = length_of(*request.query, sizes.layout);
    sizes.kv_len = length_of(*request.key, sizes.layout);

    check_head_dims(sizes, key_dim);
    sizes.rope_dim = check_rope(request, sizes);
    check_heads(request, sizes);
    check_sink(request, sizes.query_heads);
    check_key_against_others(request, sizes);
    check_addressable(request, sizes);
    return sizes;
}

void check_outputs(const ScoreRequest& request, const ScoreSizes& sizes) {
    check_statistics({"softmaxMaxOut", request.softmax_max}, sizes);
    check_statistics({"softmaxSumOut", request.softmax_sum}, sizes);

    const aclTensor& out = *request.attention_out;
    const Shape& query = request.query->shape;
    const int64_t last = has_h_axis(sizes.layout) ? sizes.query_heads * sizes.value_dim : sizes.value_dim;
    if (out.rank() != request.query->rank() || out.shape.back() != last ||
        !std::equal(query.begin(), query.end() - 1, out.shape.begin())) {
        Shape expected = query;
        expected.back() = last;
        throw ParameterError(
            fmt::format("attentionOutOut shape {}: expected {}", to_string(out.shape), to_string(expected)));
    }
    check_out_dtype(request);
    require_plain_format({"attentionOutOut", request.attention_out});
}

}  // namespace flash_attention
