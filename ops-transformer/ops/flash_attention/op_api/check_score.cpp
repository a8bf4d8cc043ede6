// The tensors of a forward call, in the order in which it reports.
#include "op_api/checks.h"
#include "opbase/error.h"
#include "opbase/tensor.h"

namespace flash_attention {
namespace {

using opbase::Layout;

void check_input_dtypes(const ScoreRequest& request) {
    check_same_dtypes(request);
    check_bias_dtype(request);
    // The head count is not known yet; headNum has to be equal to it.
    if (!opbase::is_absent(request.sink) && request.sink->dtype != ACL_FLOAT) {
        check_head_vector({request.names.sink, request.sink}, request.head_num);
    }
    if (request.out_dtype_first) check_query_dtype({request.names.attention_out, request.attention_out}, request);
}

}  // namespace

void check_required(const ScoreRequest& request) {
    if (request.varlen && request.input_layout != nullptr) check_layout(request);
    opbase::require(request.query, "query");
    opbase::require(request.key, request.names.key);
    opbase::require(request.value, "value");
    opbase::require(request.input_layout, "inputLayout");
    opbase::require(request.executor, "executor");
    opbase::require(request.workspace_size, "workspaceSize");
    opbase::require(request.softmax_max, request.names.softmax_max);
    opbase::require(request.softmax_sum, request.names.softmax_sum);
    opbase::require(request.attention_out, request.names.attention_out);
}

bool all_outputs_empty(const ScoreRequest& request) {
    return request.softmax_max->count() == 0 && request.softmax_sum->count() == 0 &&
           request.attention_out->count() == 0;
}

ScoreSizes check_inputs(const ScoreRequest& request) {
    const NamedTensor arguments[] = {
        {"query", request.query}, {request.names.key, request.key}, {"value", request.value}};
    for (const NamedTensor& argument : arguments) require_plain_format(argument);
    check_input_dtypes(request);
    check_quantised(request);
    check_head_num(request);
    const Layout layout = check_layout(request);
    for (const NamedTensor& argument : arguments) check_rank(argument, layout);

    ScoreSizes sizes = read_sizes(request, layout);
    const NamedTensor sink{request.names.sink, request.sink};
    check_head_dims(sizes);
    sizes.rope_dim = check_rope(request, sizes);
    check_heads(request, sizes);
    if (!opbase::is_absent(request.sink)) check_head_vector(sink, sizes.query_heads);
    check_equal_except_last({request.names.key, request.key}, {"value", request.value});
    check_same_batch(request, layout);
    check_addressable(request, sizes);
    return sizes;
}

void check_outputs(const ScoreRequest& request, const ScoreSizes& sizes) {
    check_statistics(request, {request.names.softmax_max, request.softmax_max}, sizes);
    check_statistics(request, {request.names.softmax_sum, request.softmax_sum}, sizes);
    const NamedTensor out{request.names.attention_out, request.attention_out};
    check_output_shape(out, request, sizes);
    check_query_dtype(out, request);
    require_plain_format(out);
}

}  // namespace flash_attention
