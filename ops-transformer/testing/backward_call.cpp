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

void give_operator(BackwardCall& call, const reference::ScoreResult& r) {
    const RunResult run_result = run(call.forward());
    if (run_result.phase_one != 0 || run_result.phase_two != 0)
        throw std::runtime_error("forward refused " + to_string(call.description) + ": " + run_result.error_text);
    reference::ScoreGradArguments& g = call.arguments;
    g.attention_in.shape = r.attention_out.shape;
    g.attention_in.values.clear();
    for (const uint32_t bits : run_result.outputs.out)
        g.attention_in.values.push_back(from_bits(call.description.dtype, bits));
    g.softmax_max.clear();
    g.softmax_sum.clear();
    for (size_t row = 0; row < r.rows.size(); row++) {
        g.softmax_max.push_back(from_bits(DType::kFp32, run_result.outputs.max[row * 8]));
        g.softmax_sum.push_back(from_bits(DType::kFp32, run_result.outputs.sum[row * 8]));
    }
}

void give_results(BackwardCall& call, const reference::ScoreResult& r) {
    if (call.description.given == Given::kOperator) {
        give_operator(call, r);
    } else {
        give_reference(call, r);
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
    const reference::ScoreResult r = reference::score(forward.arguments);
    give_results(call, r);
    reference::Tensor& dy = call.arguments.dy;
    dy.shape = r.attention_out.shape;
    dy.values.resize(r.attention_out.values.size());
    Random random(c.seed * 0x9E3779B97F4A7C15U + kDyStream);
    fill(dy.values, random, c.values, 1.0);
    if (c.values == Values::kVisibleNan) make_visible_nan(dy.values, random);
    if (c.values == Values::kHiddenNan) {
        make_hidden_nan(c, r, dy.values, random);
        make_hidden_nan(c, r, call.arguments.attention_in.values, random);
    }
    apply_expansion(c.views[kDy], dy.shape, dy.values);
    for (double& value : dy.values) value = rounded(c.dtype, value);
    return call;
}

void refresh_results(BackwardCall& call) {
    give_results(call, reference::score(call.arguments.forward));
}

DType gradient_type(const Case& c, Argument gradient) {
    return gradient == kDsink ? DType::kFp32 : c.dtype;
}

}  // namespace flash_attention::testing
