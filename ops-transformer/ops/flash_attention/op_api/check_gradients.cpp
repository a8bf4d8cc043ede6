// The tensors of a backward call, in the order in which it reports.
#include <fmt/format.h>

#include "ascendcl/log.h"
#include "op_api/checks.h"
#include "opbase/dtype.h"
#include "opbase/error.h"
#include "opbase/tensor.h"

namespace flash_attention {
namespace {

using opbase::dtype_name;
using opbase::Layout;
using opbase::ParameterError;
using opbase::to_string;

// Forward takes any text; here a wrong one would mean that the statistics of another row are read.
void check_softmax_layout(const ScoreRequest& request) {
    const std::string_view layout = statistics_layout(request);
    if (layout.empty() || layout == kSameAsInput) return;
    throw ParameterError(fmt::format("{} \"{}\" is not supported: expected \"\" or \"{}\"",
                                     request.names.softmax_layout, layout, kSameAsInput));
}

void check_equal_shapes(const NamedTensor& a, const NamedTensor& b) {
    if (a.tensor->shape == b.tensor->shape) return;
    throw ParameterError(fmt::format("{} shape {} and {} shape {} must be equal", a.name, to_string(a.tensor->shape),
                                     b.name, to_string(b.tensor->shape)));
}

// A gradient looks like the input that it belongs to.
void check_gradient(const NamedTensor& gradient, const NamedTensor& of) {
    if (gradient.tensor->shape != of.tensor->shape) {
        throw ParameterError(fmt::format("{} shape {}: expected {}, the shape of {}", gradient.name,
                                         to_string(gradient.tensor->shape), to_string(of.tensor->shape), of.name));
    }
    if (gradient.tensor->dtype != of.tensor->dtype) {
        throw ParameterError(fmt::format("{} dtype {} must equal {} dtype {}", gradient.name,
                                         dtype_name(gradient.tensor->dtype), of.name, dtype_name(of.tensor->dtype)));
    }
    require_plain_format(gradient);
}

void check_rope_gradients(const ScoreRequest& request) {
    const NamedTensor parts[] = {{request.names.query_rope, request.query_rope},
                                 {request.names.key_rope, request.key_rope}};
    const NamedTensor gradients[] = {{"dqRopeOut", request.dq_rope}, {"dkRopeOut", request.dk_rope}};
    for (int i = 0; i < 2; i++) {
        if (opbase::is_absent(gradients[i].tensor)) {
            throw ParameterError(
                fmt::format("{} cannot be nullptr when {} is given", gradients[i].name, parts[i].name));
        }
        check_gradient(gradients[i], parts[i]);
    }
}

}  // namespace

void check_required_of_grad(const ScoreRequest& request) {
    if (request.varlen && request.input_layout != nullptr) check_layout(request);
    check_softmax_layout(request);
    opbase::require(request.query, "query");
    opbase::require(request.key, request.names.key);
    opbase::require(request.value, "value");
    opbase::require(request.dy, "dy");
    opbase::require(request.attention_out, request.names.attention_out);
    opbase::require(request.dq, "dqOut");
    opbase::require(request.dk, "dkOut");
    opbase::require(request.dv, "dvOut");
    opbase::require(request.workspace_size, "workspaceSize");
    opbase::require(request.executor, "executor");
    opbase::require(request.input_layout, "inputLayout");
}

bool all_gradients_empty(const ScoreRequest& request) {
    for (const ScoreRequest::TensorField field : request.outputs) {
        if (has_elements(request.*field)) return false;
    }
    return true;
}

ScoreSizes check_inputs_of_grad(const ScoreRequest& request) {
    const NamedTensor query{"query", request.query}, key{request.names.key, request.key}, value{"value", request.value};
    const NamedTensor dy{"dy", request.dy}, out{request.names.attention_out, request.attention_out};
    const NamedTensor dq{"dqOut", request.dq}, dk{"dkOut", request.dk}, dv{"dvOut", request.dv};
    check_head_num(request);
    for (const NamedTensor& argument : {query, key, value, dy, out}) require_plain_format(argument);
    check_same_dtypes(request);
    check_quantised(request);
    const Layout layout = check_layout(request);
    for (const NamedTensor& argument : {query, key, value, dy, out, dq, dk, dv}) check_rank(argument, layout);
    check_equal_except_last(key, value);
    check_equal_except_last(query, dy);
    check_same_batch(request, layout);
    check_equal_shapes(dy, out);

    ScoreSizes sizes = read_sizes(request, layout);
    sizes.rope_dim = check_rope(request, sizes);
    if (sizes.rope_dim > 0) check_rope_gradients(request);
    check_gradient(dq, query);
    check_gradient(dk, key);
    check_gradient(dv, value);
    if (!opbase::is_absent(request.sink)) {
        check_head_vector({request.names.sink, request.sink}, sizes.query_heads);
        if (!opbase::is_absent(request.dsink)) check_head_vector({"dsinkOut", request.dsink}, sizes.query_heads);
    }
    check_head_dims(sizes);
    check_output_shape(dy, request, sizes);
    check_heads(request, sizes);
    check_addressable(request, sizes);
    return sizes;
}

void check_company_of_grad(const ScoreRequest& request, const ScoreSizes& sizes) {
    if (!opbase::is_absent(request.sink)) {
        if (opbase::is_absent(request.dsink)) {
            throw opbase::OperatorError(opbase::kParamNullptr,
                                        fmt::format("dsinkOut cannot be nullptr when {} is given", request.names.sink));
        }
        if (request.query->dtype == ACL_FLOAT) {
            ascendcl::warn_once("sink with FLOAT query",
                                fmt::format("{} with a FLOAT query is computed here, but the NPU operator refuses it",
                                            request.names.sink));
        }
    }
    const std::string_view statistics = statistics_layout(request);
    if (sizes.layout != Layout::kTND && !statistics.empty()) {
        throw ParameterError(fmt::format("{} \"{}\" is not supported for inputLayout \"{}\": expected \"\"",
                                         request.names.softmax_layout, statistics, opbase::layout_name(sizes.layout)));
    }
}

void check_results_of_forward(const ScoreRequest& request, const ScoreSizes& sizes) {
    const NamedTensor statistics[] = {{request.names.softmax_max, request.softmax_max},
                                      {request.names.softmax_sum, request.softmax_sum}};
    for (const NamedTensor& argument : statistics) opbase::require(argument.tensor, argument.name);
    for (const NamedTensor& argument : statistics) check_statistics(request, argument, sizes);
    check_query_dtype({request.names.attention_out, request.attention_out}, request);
}

bool check_dbias(const ScoreRequest& request, BiasForm bias) {
    if (!has_elements(request.dbias) || bias == BiasForm::kNone) return false;
    const NamedTensor dbias{"dpseOut", request.dbias};
    if (dbias.tensor->shape != request.bias->shape) {
        throw ParameterError(fmt::format("{} shape {}: expected {}, the shape of {}, or an empty tensor", dbias.name,
                                         to_string(dbias.tensor->shape), to_string(request.bias->shape),
                                         request.names.bias));
    }
    const bool slopes = bias == BiasForm::kSlopes;
    if (!(slopes && dbias.tensor->dtype == ACL_FLOAT)) check_query_dtype(dbias, request);
    require_plain_format(dbias);
    if (!slopes && bias != BiasForm::kCompressed) return true;
    ascendcl::warn_once("dpseOut", fmt::format("{} gets zeros: the gradient of {} is not computed", dbias.name,
                                               slopes ? "slopes" : "a bias with 1024 rows"));
    return false;
}

}  // namespace flash_attention
