// What calls of both directions are asked about dtypes, layouts and shapes.
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
void split_h_axes(const ScoreRequest& request, ScoreSizes& sizes) {
    sizes.query_heads = request.head_num;
    require_multiple({"query", request.query}, request.head_num, "headNum");
    sizes.head_dim = sizes.key_dim = request.query->shape.back() / request.head_num;
    require_multiple({request.names.key, request.key}, sizes.head_dim, "the head dimension");
    sizes.kv_heads = sizes.head_dim == 0 ? request.head_num : request.key->shape.back() / sizes.head_dim;
    require_multiple({"value", request.value}, sizes.kv_heads, "the number of key heads");
    sizes.value_dim = sizes.kv_heads == 0 ? sizes.head_dim : request.value->shape.back() / sizes.kv_heads;
}

// 1 TiB of statistics (eight floats for each query row and head) is more than any machine here has, and few enough rows
// to plan for.
constexpr int64_t kMaxStatisticsBytes = int64_t{1} << 40;

// Forward addresses the statistics of TND by position, so any shape with room for T x N entries of eight does.
bool is_flat_statistics(const aclTensor& tensor, const ScoreSizes& sizes) {
    return tensor.rank() > 0 && tensor.shape.back() == kStatsCopies &&
           tensor.count() == sizes.q_len * sizes.query_heads * kStatsCopies;
}

}  // namespace

void require_plain_format(const NamedTensor& argument) {
    arguments::require_plain_format(argument.name, *argument.tensor);
}

bool has_elements(const aclTensor* tensor) {
    return !opbase::is_absent(tensor) && tensor->count() > 0;
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

void check_same_dtypes(const ScoreRequest& request) {
    const aclDataType dtype = request.query->dtype;
    const aclDataType key = request.key->dtype, value = request.value->dtype;
    if (request.backward && (key != dtype || value != dtype || request.dy->dtype != dtype)) {
        throw ParameterError(fmt::format("query, {}, value and dy must have the same dtype: got {}, {}, {}, {}",
                                         request.names.key, dtype_name(dtype), dtype_name(key), dtype_name(value),
                                         dtype_name(request.dy->dtype)));
    }
    if (key != dtype || value != dtype) {
        throw ParameterError(fmt::format("query, {} and value must have the same dtype: got {}, {}, {}",
                                         request.names.key, dtype_name(dtype), dtype_name(key), dtype_name(value)));
    }
    if (!is_attention_dtype(dtype)) {
        throw ParameterError(
            fmt::format("query dtype {} is not supported: expected FLOAT16, BFLOAT16 or FLOAT", dtype_name(dtype)));
    }
}

void check_query_dtype(const NamedTensor& argument, const ScoreRequest& request) {
    const aclDataType dtype = argument.tensor->dtype;
    if (dtype == request.query->dtype) return;
    throw ParameterError(fmt::format("{} dtype {} must equal query dtype {}", argument.name, dtype_name(dtype),
                                     dtype_name(request.query->dtype)));
}

void check_head_num(const ScoreRequest& request) {
    if (request.head_num > 0) return;
    throw ParameterError(fmt::format("headNum must be positive: got {}", request.head_num));
}

Layout check_layout(const ScoreRequest& request) {
    // An unterminated string would be read with whatever follows it, and fill the message.
    const std::string_view text(request.input_layout, strnlen(request.input_layout, 32));
    const auto layout = opbase::parse_layout(text);
    if (layout.has_value() && (request.any_layout || request.varlen == (*layout == Layout::kTND))) return *layout;
    if (request.varlen) {
        throw ParameterError(fmt::format("inputLayout \"{}\" is not supported by {} operators: expected TND", text,
                                         request.backward ? "Unpadding" : "VarLen"));
    }
    throw ParameterError(fmt::format("inputLayout \"{}\" is not supported: expected BSH, SBH, {}", text,
                                     request.any_layout ? "BSND, BNSD or TND" : "BSND or BNSD"));
}

// outDtype and the scales of quantised attention exist in the operators for all layouts only.
void check_quantised(const ScoreRequest& request) {
    const NamedTensor scales[] = {{"dScaleQOptional", request.scale_q},
                                  {"dScaleKOptional", request.scale_k},
                                  {"dScaleVOptional", request.scale_v},
                                  {"dScaleDyOptional", request.scale_dy},
                                  {"dScaleOOptional", request.scale_o}};
    for (const NamedTensor& scale : scales) {
        if (opbase::is_absent(scale.tensor)) continue;
        throw ParameterError(
            fmt::format("{} belongs to quantised attention, which is not supported: expected nullptr", scale.name));
    }
    if (request.out_dtype != 0) {
        throw ParameterError(fmt::format("outDtype {} is not supported: expected 0", request.out_dtype));
    }
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

ScoreSizes read_sizes(const ScoreRequest& request, Layout layout) {
    ScoreSizes sizes{.layout = layout};
    if (has_h_axis(layout)) {
        split_h_axes(request, sizes);
    } else {
        sizes.query_heads = request.query->shape[axis_of(layout, 'N')];
        sizes.kv_heads = request.key->shape[axis_of(layout, 'N')];
        sizes.head_dim = request.query->shape.back();
        sizes.key_dim = request.key->shape.back();
        sizes.value_dim = request.value->shape.back();
    }
    sizes.batch = batch_of(*request.query, layout);
    sizes.q_len = length_of(*request.query, layout);
    sizes.kv_len = length_of(*request.key, layout);
    return sizes;
}

void check_head_dims(const ScoreSizes& sizes) {
    if (sizes.key_dim != sizes.head_dim) {
        throw ParameterError(
            fmt::format("head dimension of key {} must equal that of query {}", sizes.key_dim, sizes.head_dim));
    }
    if (sizes.value_dim > sizes.key_dim) {
        throw ParameterError(
            fmt::format("head dimension of value {} must not exceed that of key {}", sizes.value_dim, sizes.key_dim));
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

void check_equal_except_last(const NamedTensor& a, const NamedTensor& b) {
    const Shape &left = a.tensor->shape, &right = b.tensor->shape;
    if (left.size() == right.size() && std::equal(left.begin(), left.end() - 1, right.begin())) return;
    throw ParameterError(fmt::format("{} shape {} and {} shape {} must be equal except for the last dimension", a.name,
                                     to_string(left), b.name, to_string(right)));
}

void check_same_batch(const ScoreRequest& request, Layout layout) {
    const int64_t query_batch = batch_of(*request.query, layout), key_batch = batch_of(*request.key, layout);
    if (key_batch == query_batch) return;
    throw ParameterError(fmt::format("query shape {} and {} shape {} must have the same batch: got {} and {}",
                                     to_string(request.query->shape), request.names.key, to_string(request.key->shape),
                                     query_batch, key_batch));
}

// Expanded views cost no memory, so only these two limits keep sizes from overflowing in what follows.
void check_addressable(const ScoreRequest& request, const ScoreSizes& sizes) {
    constexpr int64_t kEntryBytes = kStatsCopies * sizeof(float);
    if (saturating_product({sizes.batch, sizes.q_len, sizes.query_heads, kEntryBytes}) > kMaxStatisticsBytes) {
        throw ParameterError(
            fmt::format("query shape {} with headNum {} is too large: its softmax statistics exceed {} bytes",
                        to_string(request.query->shape), request.head_num, kMaxStatisticsBytes));
    }
    if (saturating_product({sizes.q_len, sizes.kv_len}) == INT64_MAX) {
        throw ParameterError(fmt::format("query shape {} and {} shape {} are too large: their pairs cannot be counted",
                                         to_string(request.query->shape), request.names.key,
                                         to_string(request.key->shape)));
    }
}

void check_output_shape(const NamedTensor& argument, const ScoreRequest& request, const ScoreSizes& sizes) {
    Shape expected = request.query->shape;
    expected.back() = has_h_axis(sizes.layout) ? sizes.query_heads * sizes.value_dim : sizes.value_dim;
    if (argument.tensor->shape == expected) return;
    throw ParameterError(
        fmt::format("{} shape {}: expected {}", argument.name, to_string(argument.tensor->shape), to_string(expected)));
}

void check_statistics(const ScoreRequest& request, const NamedTensor& argument, const ScoreSizes& sizes) {
    const aclTensor& tensor = *argument.tensor;
    const bool tnd = sizes.layout == Layout::kTND;
    const Shape expected = tnd ? Shape{sizes.q_len, sizes.query_heads, kStatsCopies}
                               : Shape{sizes.batch, sizes.query_heads, sizes.q_len, kStatsCopies};
    const bool any_shape = tnd && !request.backward;
    if (tensor.shape != expected && !(any_shape && is_flat_statistics(tensor, sizes))) {
        throw ParameterError(fmt::format("{} shape {}: expected {}{}", argument.name, to_string(tensor.shape),
                                         to_string(expected),
                                         any_shape ? " or as many elements with last dimension 8" : ""));
    }
    if (tensor.dtype != ACL_FLOAT) {
        throw ParameterError(
            fmt::format("{} dtype {} is not supported: expected FLOAT", argument.name, dtype_name(tensor.dtype)));
    }
    require_plain_format(argument);
}

}  // namespace flash_attention
