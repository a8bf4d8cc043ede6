// Forward, then backward with its results, for every version of both.
#include <gtest/gtest.h>

#include <cmath>

#include "entry_points.h"
#include "metamorphic.h"
#include "testing/backward_judge.h"

namespace flash_attention::testing {
namespace {

struct Pair {
    Version forward;
    Version backward;
};
constexpr Pair kDensePairs[] = {
    {Version::kScore, Version::kGrad},     {Version::kScoreV2, Version::kGradV2}, {Version::kScoreV3, Version::kGradV3},
    {Version::kScoreV4, Version::kGradV4}, {Version::kScoreV3, Version::kGradV4},
};
constexpr Pair kTndPairs[] = {
    {Version::kVarLen, Version::kUnpaddingGrad},     {Version::kVarLenV2, Version::kUnpaddingGradV2},
    {Version::kVarLenV3, Version::kUnpaddingGradV3}, {Version::kVarLenV4, Version::kUnpaddingGradV4},
    {Version::kVarLenV5, Version::kUnpaddingGradV5}, {Version::kScoreV4, Version::kGradV4},
    {Version::kVarLenV5, Version::kGradV4},
};

// What a version can do, from the least to the most.
constexpr const char* kDense[] = {
    "layout=BSND b=2 n=4/2 d=40 q=70 kv=90 mode=3 mask=compressed",
    "layout=BSH b=2 n=4/2 d=40 dv=17 q=130 kv=90 mode=1 mask=2d:rows pse=1:full dpse=wanted drop=exact keep=0.7",
    "layout=SBH b=2 n=2 d=16 q=70 kv=70 pse=2:slopes q_start=3 kv_start=1",
    "layout=BNSD b=2 n=2 d=16 q=70 kv=90 pse=0:row dpse=wanted",
    "layout=BNSD b=2 n=2 d=64 q=200 kv=90 mode=3 mask=compressed sink=normal",
};
constexpr const char* kTnd[] = {
    "layout=TND n=4/2 d=40 q=70,0,30 kv=90,5,60 mode=3 mask=compressed",
    "layout=TND n=4/2 d=40 dv=17 q=130,7 kv=90,20 mode=1 mask=total:rows pse=1:full dpse=wanted drop=exact keep=0.7",
    "layout=TND n=2 d=16 q=70,20 kv=70,20 pse=3:slopes q_start=3 kv_start=1",
    "layout=TND n=2 d=16 q=70,20 kv=30,90 pse=0:row dpse=wanted",
    "layout=TND n=2/1 d=16 q=70,20 kv=30,90 stats=same_as_input slack=3/0",
    "layout=TND n=2/1 d=16 q=70,20 kv=30,90 sink=normal",
    "layout=TND n=4/2 d=32 rope=16 q=50,20 kv=60,90 mode=3 mask=compressed",
    "layout=TND n=4/2 d=32 rope=16 q=50,20 kv=60,90 mode=3 mask=compressed sink=normal stats=same_as_input",
};

// Far from the gradients of the unrounded forward by no more than forward's errors bring in. In 16 bits these are in
// delta, whose terms are wrong by the bound of an output, about 2.25 roundoffs of the largest value: some four times an
// average one. `uncertain` holds the sums of their absolute values. In fp32 it is sums and exponents of both passes.
// Compared as a sum over all elements, since single ones may have no terms that are large.
void expect_true_gradients(const BackwardCall& call, const Gradients& got) {
    const Case& c = call.description;
    reference::ScoreGradArguments exact = call.arguments;
    const reference::ScoreResult r = reference::score(exact.forward);
    exact.attention_in = r.attention_out;
    exact.softmax_max = r.softmax_max;
    exact.softmax_sum = r.softmax_sum;
    const reference::ScoreGradResult expected = reference::score_grad(exact);
    const double tolerance = c.dtype == DType::kFp32 ? 100 * 0x1p-24 : 8 * unit_roundoff(c.dtype);
    for (size_t index = 0; index < kGradientCount; index++) {
        const reference::Gradient& g = gradient_of(expected, kGradientArguments[index]);
        if (!g.given() || got[index].empty()) continue;
        double difference = 0, size = 0;
        for (size_t at = 0; at < g.values.size(); at++) {
            difference +=
                std::fabs(from_bits(gradient_type(c, kGradientArguments[index]), got[index][at]) - g.values[at]);
            size += g.absolute[at] + g.uncertain[at];
        }
        EXPECT_LE(difference, tolerance * size) << name_of(kGradientArguments[index]) << " of " << rerun_hint(c);
    }
}

class RoundTrip : public Types {
  protected:
    template <size_t pairs, size_t texts>
    void expect_right(const Pair (&versions)[pairs], const char* const (&calls)[texts]) {
        for (const Pair& pair : versions) {
            int ran = 0;
            for (const char* text : calls) {
                Case c = parse_case(std::string("pass=backward ") + text);
                c.dtype = GetParam();
                if (c.rope > 0 && c.dtype != DType::kBf16) continue;
                c.given = Given::kOperator;
                c.version = pair.forward;
                c.grad_version = pair.backward;
                if (!why_illegal(c).empty()) continue;  // for a larger version
                ran++;
                const BackwardCall call = make_backward_call(c);
                const Gradients gradients = gradients_of(call);
                EXPECT_EQ(lines(judge(call, reference::score_grad(call.arguments), gradients)), "") << rerun_hint(c);
                expect_true_gradients(call, gradients);
            }
            EXPECT_GE(ran, 2) << name_of(pair.forward) << " and " << name_of(pair.backward);
        }
    }
};

TEST_P(RoundTrip, OfDenseBatches) {
    expect_right(kDensePairs, kDense);
}

TEST_P(RoundTrip, OfPackedSequences) {
    expect_right(kTndPairs, kTnd);
}

// All versions that can express a call give the same bits.
TEST_P(RoundTrip, VersionsAgree) {
    for (const char* text : {kDense[0], kDense[1], kDense[2], kDense[4], kTnd[0], kTnd[1], kTnd[2], kTnd[4], kTnd[5]}) {
        Case c = parse_case(std::string("pass=backward ") + text);
        c.dtype = GetParam();
        BackwardCall call = make_backward_call(c);
        const Gradients expected = gradients_of(call);
        for (const Version version : grad_versions_of(c)) {
            call.description.grad_version = version;
            if (!why_illegal(call.description).empty()) continue;
            EXPECT_TRUE(gradients_of(call) == expected) << rerun_hint(call.description);
        }
        if (c.varlen() && c.drop == DropShape::kNone) {
            call.description.grad_version = Version::kUnpaddingGradV5;
            const BackwardResult bound = run(call, {.max_workspace = true});
            EXPECT_EQ(bound.phase_one, 0) << bound.error_text;
            EXPECT_TRUE(bound.gradients == expected) << rerun_hint(call.description);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Types, RoundTrip, kAllTypes, type_name);

}  // namespace
}  // namespace flash_attention::testing
