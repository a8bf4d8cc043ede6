#include "testing/backward_call.h"

#include <stdexcept>

#include "testing/call_data.h"
#include "testing/runner.h"

namespace flash_attention::testing {
namespace {

constexpr uint64_t kDyStream = 11;  // others are numbered in call_modifiers.cpp

void give_reference(BackwardCall& call, const reference::ScoreResult& r) {
    reference::ScoreGradArguments& g = call.arguments;
    g.attention_in = r.attention_out;
    for (double& value : g.attention_in.values) value = rounded(call.description.dtype, value);
    g.softmax_max = r.softmax_max;
    g.softmax_sum = r.softmax_sum;
    for (std::vector<double>* statistics : {&g.softmax_max, &g.softmax_sum}) {
        for (double& value : *statistics) value = rounded(DType::kFp32, value);
    }
}

std::vector<double> numbers(DType dtype, const std::vector<uint32_t>& bits, size_t step = 1) {
    std::vector<double> values;
    values.reserve(bits.size() / step);
    for (size_t at = 0; at < bits.size(); at += step) values.push_back(from_bits(dtype, bits[at]));
    return values;
}

void give_operator(BackwardCall& call) {
    const Case& c = call.description;
    const RunResult run_result = run(call.forward());
    if (run_result.phase_one != 0 || run_result.phase_two != 0)
        throw std::runtime_error("forward refused " + to_string(c) + ": " + run_result.error_text);
    constexpr size_t kCopies = 8;  // of a row's maximum and sum
    reference::ScoreGradArguments& g = call.arguments;
    g.attention_in = {out_shape(c), numbers(c.dtype, run_result.outputs.out)};
    g.softmax_max = numbers(DType::kFp32, run_result.outputs.max, kCopies);
    g.softmax_sum = numbers(DType::kFp32, run_result.outputs.sum, kCopies);
}

// Without the reference where the operator gives its own results: it is far too slow for calls that are to be timed.
void give_results(BackwardCall& call) {
    if (call.description.given == Given::kOperator) {
        give_operator(call);
    } else {
        give_reference(call, reference::score(call.arguments.forward));
    }
}

// NaN and infinities in the rows that see nothing and in those that belong to no sequence.
void make_hidden_nan(const Case& c, const reference::ScoreResult& r, std::vector<double>& values, Random& random) {
    for (const reference::Row& row : r.rows) {
        if (row.kind == reference::RowKind::kOrdinary) continue;
        for (int64_t d = 0; d < c.dv; d++) values[row.out_begin + d] = poison(random);
    }
}

}  // namespace

BackwardCall make_backward_call(const Case& c) {
    return make_backward_call(make_call(c));
}

BackwardCall make_backward_call(const Call& forward) {
    const Case& c = forward.description;
    BackwardCall call;
    call.description = c;
    call.description.backward = true;
    call.arguments.forward = forward.arguments;
    give_results(call);
    reference::Tensor& out = call.arguments.attention_in;
    reference::Tensor& dy = call.arguments.dy;
    dy.shape = out.shape;
    dy.values.resize(out.values.size());
    Random random(c.seed * 0x9E3779B97F4A7C15U + kDyStream);
    fill(dy.values, random, c.values, 1.0);
    if (c.values == Values::kVisibleNan) make_visible_nan(dy.values, random);
    if (c.values == Values::kHiddenNan) {
        const reference::ScoreResult r = reference::score(forward.arguments);
        make_hidden_nan(c, r, dy.values, random);
        make_hidden_nan(c, r, out.values, random);
    }
    apply_expansion(c.views[kDy], dy.shape, dy.values);
    for (double& value : dy.values) value = rounded(c.dtype, value);
    return call;
}

void refresh_results(BackwardCall& call) {
    give_results(call);
}

DType gradient_type(const Case& c, Argument gradient) {
    return gradient == kDsink ? DType::kFp32 : c.dtype;
}

}  // namespace flash_attention::testing
