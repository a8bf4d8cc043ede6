// Training around a ring: each part of the keys gets its gradients from the statistics and the output that the ring
// update has merged from all parts. dk and dv of a part are then those of the whole, and its dq is one of the terms
// whose sum is that of the whole.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "draw_results.h"
#include "metamorphic.h"
#include "testing/backward_judge.h"

namespace ring_attention_update::testing {
namespace {

using flash_attention::testing::BackwardCall;
using flash_attention::testing::Call;
using flash_attention::testing::Gradients;
using flash_attention::testing::Outputs;

constexpr int64_t kRows = 37, kKeys = 190;

Call whole_call(const std::string& dtype) {
    return flash_attention::testing::make_call(flash_attention::testing::parse_case(fmt::format(
        "layout=TND dtype={} n=4/2 d=40 q={} kv={} stats=same_as_input seed=5", dtype, kRows, kKeys)));
}

// Keys [begin, end) as a call.
Call part_of(const Call& whole, int64_t begin, int64_t end) {
    return flash_attention::testing::cut_out(
        whole, {.first_row = 0, .first_key = begin, .q = {kRows}, .kv = {end - begin}});
}

PartialResult attend(const Call& call) {
    const flash_attention::testing::RunResult result = flash_attention::testing::run(call);
    EXPECT_EQ(result.phase_two, 0) << result.error_text;
    PartialResult part;
    for (const uint32_t bits : result.outputs.out)
        part.out.push_back(flash_attention::testing::from_bits(call.description.dtype, bits));
    for (size_t i = 0; i < result.outputs.max.size(); i += 8) {
        part.max.push_back(flash_attention::testing::from_bits(DType::kFp32, result.outputs.max[i]));
        part.sum.push_back(flash_attention::testing::from_bits(DType::kFp32, result.outputs.sum[i]));
    }
    return part;
}

PartialResult merge_all(const Call& whole, const std::vector<PartialResult>& parts) {
    PartialResult merged = parts[0];
    for (size_t i = 1; i < parts.size(); i++) {
        RingCall call = tnd_call(whole.description.dtype, {0, kRows}, whole.description.heads, whole.description.d);
        call.softmax_layout = "TND";
        call.previous = merged;
        call.current = parts[i];
        const RingResult result = run(call);
        EXPECT_EQ(result.phase_two, 0) << result.text;
        merged = result.merged;
    }
    return merged;
}

// The gradients that a ring asks a part for.
BackwardCall backward_of(const Call& part, const BackwardCall& whole, const PartialResult& merged) {
    BackwardCall call = flash_attention::testing::make_backward_call(part);
    call.arguments.dy = whole.arguments.dy;
    call.arguments.attention_in.values = merged.out;
    call.arguments.softmax_max = merged.max;
    call.arguments.softmax_sum = merged.sum;
    return call;
}

class RingGradients : public ::testing::TestWithParam<const char*> {};

TEST_P(RingGradients, OfPartsAreThoseOfTheWhole) {
    const Call call = whole_call(GetParam());
    const BackwardCall whole = flash_attention::testing::make_backward_call(call);
    const flash_attention::reference::ScoreGradResult expected = flash_attention::reference::score_grad(whole.arguments);
    for (const int64_t count : {2, 3, 5}) {
        SCOPED_TRACE(fmt::format("{} parts", count));
        std::vector<Call> calls;
        std::vector<PartialResult> results;
        for (int64_t i = 0; i < count; i++) {
            calls.push_back(part_of(call, i * kKeys / count, (i + 1) * kKeys / count));
            results.push_back(attend(calls.back()));
        }
        const PartialResult merged = merge_all(call, results);
        std::vector<double> dq(expected.dq.values.size(), 0.0);
        std::vector<double> dk, dv;
        for (const Call& part : calls) {
            const BackwardCall backward = backward_of(part, whole, merged);
            const flash_attention::reference::ScoreGradResult exact = flash_attention::reference::score_grad(backward.arguments);
            const flash_attention::testing::BackwardResult result = flash_attention::testing::run(backward);
            ASSERT_EQ(result.phase_two, 0) << result.error_text;
            EXPECT_EQ(flash_attention::testing::lines(judge(backward, exact, result.gradients)), "");
            for (size_t i = 0; i < dq.size(); i++) dq[i] += exact.dq.values[i];
            dk.insert(dk.end(), exact.dk.values.begin(), exact.dk.values.end());
            dv.insert(dv.end(), exact.dv.values.begin(), exact.dv.values.end());
        }
        // That the parts make up the whole is a matter of what was merged: its roundings are those of the output, a unit
        // of the type, beside which sums and maxima, floats, are exact.
        const double unit = 8 * flash_attention::testing::unit_roundoff(call.description.dtype) + 0x1p-18;
        const auto expect_near = [&](const std::vector<double>& parts, const flash_attention::reference::Gradient& of_whole,
                                     const char* name) {
            ASSERT_EQ(parts.size(), of_whole.values.size());
            double largest = 0;
            for (const double x : of_whole.absolute) largest = std::max(largest, x);
            for (size_t i = 0; i < parts.size(); i++)
                ASSERT_NEAR(parts[i], of_whole.values[i], unit * largest) << name << " " << i;
        };
        expect_near(dq, expected.dq, "dq");
        expect_near(dk, expected.dk, "dk");
        expect_near(dv, expected.dv, "dv");
    }
}

INSTANTIATE_TEST_SUITE_P(Types, RingGradients, ::testing::Values("fp32", "fp16", "bf16"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace ring_attention_update::testing
