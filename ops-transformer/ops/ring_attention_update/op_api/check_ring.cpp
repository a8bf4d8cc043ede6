// What can be said about the arguments of a ring update without reading device memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "arguments/checks.h"
#include "ascendcl/log.h"
#include "opbase/dtype.h"
#include "opbase/error.h"
#include "opbase/layout.h"
#include "opbase/tensor.h"
#include "ring_attention_update/op_api/ring_request.h"

namespace ring_attention_update {
namespace {

using flash_attention::ElementType;
using flash_attention::kStatsCopies;
using opbase::dtype_name;
using opbase::Layout;
using opbase::ParameterError;
using opbase::Shape;
using opbase::to_string;

constexpr Operand kOuts[] = {kPrevOut, kCurOut, kOut};
constexpr Operand kStatistics[] = {kPrevMax, kPrevSum, kCurMax, kCurSum, kMax, kSum};

// Cut where an unterminated text would run on.
std::string_view text_of(const char* text, const char* otherwise) {
    return text == nullptr ? std::string_view(otherwise) : std::string_view(text, strnlen(text, 32));
}

void check_required(const RingRequest& request) {
    const auto require = [&](std::initializer_list<Operand> operands) {
        for (const Operand operand : operands) opbase::require(request.tensors[operand], kNames[operand]);
    };
    require({kPrevOut, kPrevMax, kPrevSum, kCurOut, kCurMax, kCurSum});
    opbase::require(request.executor, "executor");
    opbase::require(request.workspace_size, "workspaceSize");
    require({kOut, kMax, kSum});
}

Layout check_layout(const RingRequest& request) {
    const std::string_view text = text_of(request.input_layout, "SBH");
    const auto layout = opbase::parse_layout(text);
    if (layout != Layout::kSBH && layout != Layout::kTND) {
        throw ParameterError(
            fmt::format("inputLayoutOptional \"{}\" is not supported: expected \"SBH\" or \"TND\"", text));
    }
    if (layout == Layout::kTND && opbase::is_absent(request.tensors[kEnds])) {
        throw opbase::OperatorError(opbase::kParamNullptr,
                                    "actualSeqQlenOptional cannot be nullptr for inputLayout \"TND\"");
    }
    return *layout;
}

// True: statistics of packed sequences in the order of the tokens.
bool check_softmax_layout(const RingRequest& request, Layout layout) {
    const std::string_view text = text_of(request.input_softmax_layout, "");
    if (text != "" && text != "SBH" && text != "TND") {
        throw ParameterError(
            fmt::format("inputSoftmaxLayoutOptional \"{}\" is not supported: expected \"\", \"SBH\" or \"TND\"", text));
    }
    if (text == "TND" && layout == Layout::kSBH) {
        ascendcl::warn_once("inputSoftmaxLayoutOptional of SBH",
                            "inputSoftmaxLayoutOptional \"TND\" has no effect for inputLayout \"SBH\"");
    }
    return text == "TND";
}

ElementType check_dtypes(const RingRequest& request) {
    const aclDataType dtype = request.tensors[kPrevOut]->dtype;
    if (dtype != request.tensors[kCurOut]->dtype) {
        throw ParameterError(fmt::format("prevAttnOut and curAttnOut must have the same dtype: got {}, {}",
                                         dtype_name(dtype), dtype_name(request.tensors[kCurOut]->dtype)));
    }
    if (dtype != ACL_FLOAT && dtype != ACL_FLOAT16 && dtype != ACL_BF16) {
        throw ParameterError(fmt::format("prevAttnOut dtype {} is not supported: expected FLOAT16, BFLOAT16 or FLOAT",
                                         dtype_name(dtype)));
    }
    if (dtype != request.tensors[kOut]->dtype) {
        throw ParameterError(fmt::format("attnOutOut dtype {} must equal prevAttnOut dtype {}",
                                         dtype_name(request.tensors[kOut]->dtype), dtype_name(dtype)));
    }
    for (const Operand operand : kStatistics) {
        if (request.tensors[operand]->dtype == ACL_FLOAT) continue;
        throw ParameterError(fmt::format("{} dtype {} is not supported: expected FLOAT", kNames[operand],
                                         dtype_name(request.tensors[operand]->dtype)));
    }
    return dtype == ACL_FLOAT ? ElementType::kF32 : dtype == ACL_FLOAT16 ? ElementType::kF16 : ElementType::kBf16;
}

void check_sizes_and_format(const char* name, const aclTensor& tensor) {
    const Shape& shape = tensor.shape;
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
        throw ParameterError(fmt::format("{} shape {} has no elements", name, to_string(shape)));
    }
    arguments::require_plain_format(name, tensor);
}

void check_rank(const RingRequest& request, Operand operand, size_t rank, Layout layout) {
    const Shape& shape = request.tensors[operand]->shape;
    if (shape.size() == rank) return;
    throw ParameterError(fmt::format("{} has {} dimensions {}, but inputLayout \"{}\" needs {}", kNames[operand],
                                     shape.size(), to_string(shape), opbase::layout_name(layout), rank));
}

void check_shape(const RingRequest& request, Operand operand, const Shape& expected) {
    const Shape& shape = request.tensors[operand]->shape;
    if (shape == expected) return;
    throw ParameterError(
        fmt::format("{} shape {}: expected {}", kNames[operand], to_string(shape), to_string(expected)));
}

void check_shapes(const RingRequest& request, Layout layout, RingProblem& problem) {
    const bool packed = layout == Layout::kTND;
    for (const Operand operand : kOuts) check_rank(request, operand, 3, layout);
    for (const Operand operand : kStatistics) check_rank(request, operand, packed ? 3 : 4, layout);

    const Shape& out = request.tensors[kPrevOut]->shape;
    problem.rows = out[0];
    problem.batch = packed ? 1 : out[1];
    problem.heads = request.tensors[kPrevMax]->shape[1];
    if (packed) {
        problem.dim = out[2];
    } else if (out[2] % problem.heads != 0) {
        throw ParameterError(
            fmt::format("last dimension {} of prevAttnOut is not a multiple of the {} heads of "
                        "prevSoftmaxMax",
                        out[2], problem.heads));
    } else {
        problem.dim = out[2] / problem.heads;
    }
    for (const Operand operand : kOuts) check_shape(request, operand, out);
    const Shape statistics =
        packed ? Shape{out[0], out[1], kStatsCopies} : Shape{problem.batch, problem.heads, problem.rows, kStatsCopies};
    for (const Operand operand : kStatistics) check_shape(request, operand, statistics);
}

void check_ends(const aclTensor& ends) {
    if (ends.dtype != ACL_INT64) {
        throw ParameterError(fmt::format("actualSeqQlenOptional dtype {}: expected INT64", dtype_name(ends.dtype)));
    }
    if (ends.rank() != 1) {
        throw ParameterError(
            fmt::format("actualSeqQlenOptional shape {}: expected one dimension", to_string(ends.shape)));
    }
    arguments::require_plain_format("actualSeqQlenOptional", ends);
}

}  // namespace

RingProblem check_ring(const RingRequest& request) {
    check_required(request);
    const Layout layout = check_layout(request);
    RingProblem problem;
    const bool token_order = check_softmax_layout(request, layout);
    problem.statistics_by_sequence = layout == Layout::kTND && !token_order;
    problem.type = check_dtypes(request);
    for (const Operand operand : kOuts) check_sizes_and_format(kNames[operand], *request.tensors[operand]);
    for (const Operand operand : kStatistics) check_sizes_and_format(kNames[operand], *request.tensors[operand]);
    check_shapes(request, layout, problem);
    if (layout == Layout::kTND) check_ends(*request.tensors[kEnds]);
    if (problem.statistics_by_sequence) problem.sequences = request.tensors[kEnds]->shape[0];
    return problem;
}

}  // namespace ring_attention_update
