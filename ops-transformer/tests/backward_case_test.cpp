// Backward calls as text, and what they are made of.
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "entry_points.h"
#include "testing/backward_call.h"
#include "testing/random_cases.h"

namespace flash_attention::testing {
namespace {

std::string refusal(const std::string& text) {
    try {
        parse_case(text);
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "accepted";
}

TEST(BackwardCase, ReadsEveryKey) {
    const Case c = parse_case(
        "pass=backward layout=TND version=VarLenScoreV5 grad=UnpaddingScoreGradV5 pse=1:row dpse=wanted sink=normal "
        "given=operator strides=dy:expand,dq:padded,dk:offset,dv:every2,dpse:swapped,dsink:offset");
    EXPECT_TRUE(c.backward);
    EXPECT_EQ(c.version, Version::kVarLenV5);
    EXPECT_EQ(c.grad_version, Version::kUnpaddingGradV5);
    EXPECT_EQ(c.dpse, Dpse::kWanted);
    EXPECT_EQ(c.given, Given::kOperator);
    EXPECT_EQ(c.views[kDy], View::kExpand);
    EXPECT_EQ(c.views[kDsink], View::kOffset);
    EXPECT_TRUE(c.has(kDy) && c.has(kDpse) && c.has(kDsink));
    EXPECT_FALSE(c.has(kDqRope));
    EXPECT_FALSE(parse_case("layout=TND pse=1:row sink=normal").has(kDy));
}

TEST(BackwardCase, TextAndCaseAreInverse) {
    for (const char* text : {
             "layout=BSND dtype=fp32 pass=backward n=1 d=64 q=64 kv=64",
             "layout=TND dtype=bf16 pass=backward version=VarLenScoreV5 grad=UnpaddingScoreGradV3 n=2 d=8 rope=8 q=1 "
             "kv=1 "
             "mode=3 mask=compressed given=operator strides=dq_rope:padded,dk_rope:offset",
             "layout=BNSD dtype=fp16 pass=backward n=2 d=8 q=1 kv=1 pse=0:full dpse=empty",
         }) {
        EXPECT_EQ(to_string(parse_case(text)), text);
    }
    for (int64_t i = 0; i < 1000; i++) {
        for (const Case& c : {random_case(11, i, true), modifier_case(11, i, true)})
            EXPECT_TRUE(parse_case(to_string(c)) == c) << to_string(c);
    }
}

TEST(BackwardCase, RefusesWhatNoCallCanBeMadeFrom) {
    EXPECT_EQ(refusal("pass=sideways"), "pass=sideways: expected one of forward, backward");
    EXPECT_EQ(refusal("dpse=empty"), "grad, dpse and given need pass=backward");
    EXPECT_EQ(refusal("given=operator"), "grad, dpse and given need pass=backward");
    EXPECT_EQ(refusal("pass=backward dpse=wanted"), "dpse=wanted needs a bias");
    EXPECT_EQ(refusal("pass=backward grad=ScoreGradV2 sink=normal"),
              "grad=ScoreGradV2 does not have all arguments of the case, but ScoreGradV3 has");
    EXPECT_EQ(refusal("pass=backward grad=ScoreV2").substr(0, 39), "grad=ScoreV2: expected one of ScoreGrad");
}

TEST(BackwardCase, KnowsWhatTheOperatorsRefuse) {
    auto legal = [](const std::string& text) { return why_illegal(parse_case("pass=backward " + text)).empty(); };
    EXPECT_TRUE(legal("keep=0.5 drop=exact"));
    EXPECT_FALSE(legal("keep=0.5"));
    EXPECT_TRUE(legal("layout=TND stats=same_as_input"));
    EXPECT_FALSE(legal("layout=TND stats=TND"));
    EXPECT_FALSE(legal("layout=BSND stats=same_as_input"));
    EXPECT_TRUE(legal("layout=TND slack=2/0"));
    EXPECT_TRUE(legal("layout=TND slack=2/1 tail=1"));
    EXPECT_FALSE(legal("layout=TND slack=2/1"));
    EXPECT_TRUE(legal("strides=dy:expand"));
    EXPECT_FALSE(legal("strides=dq:expand"));
    EXPECT_FALSE(legal("mode=3 mask=2d"));  // as forward
}

TEST(BackwardCase, KnowsTheSmallestVersion) {
    auto smallest = [](const std::string& text) {
        return name_of(grad_version_of(parse_case("pass=backward " + text)));
    };
    EXPECT_EQ(smallest("layout=BSND"), "ScoreGrad");
    EXPECT_EQ(smallest("layout=BSND pse=0:full"), "ScoreGradV2");
    EXPECT_EQ(smallest("layout=BSND sink=normal"), "ScoreGradV3");
    EXPECT_EQ(smallest("layout=TND"), "UnpaddingScoreGrad");
    EXPECT_EQ(smallest("layout=TND pse=0:full"), "UnpaddingScoreGradV2");
    EXPECT_EQ(smallest("layout=TND rope=2"), "UnpaddingScoreGradV3");
    EXPECT_EQ(smallest("layout=TND stats=same_as_input"), "UnpaddingScoreGradV4");
    EXPECT_EQ(smallest("layout=TND sink=normal"), "UnpaddingScoreGradV5");
    EXPECT_EQ(smallest("layout=TND pse=0:full stats=same_as_input"), "UnpaddingScoreGradV5");
}

TEST(BackwardCall, HoldsRoundedResultsOfForward) {
    const BackwardCall call = make_backward_call(
        parse_case("pass=backward layout=TND dtype=fp16 n=2 d=8 dv=5 q=3,4 kv=6,0 slack=1/0 stats=same_as_input"));
    const reference::ScoreGradArguments& g = call.arguments;
    EXPECT_EQ(g.dy.shape, (std::vector<int64_t>{8, 2, 5}));
    EXPECT_EQ(g.attention_in.shape, g.dy.shape);
    const reference::ScoreResult r = reference::score(g.forward);
    for (size_t i = 0; i < r.attention_out.values.size(); i++) {
        EXPECT_EQ(g.attention_in.values[i], rounded(DType::kFp16, r.attention_out.values[i]));
        EXPECT_EQ(g.dy.values[i], rounded(DType::kFp16, g.dy.values[i]));
    }
    for (size_t row = 0; row < r.rows.size(); row++)
        EXPECT_EQ(g.softmax_sum.at(row), rounded(DType::kFp32, r.softmax_sum[row]));
    EXPECT_GT(g.softmax_sum[5], 1.0);
    EXPECT_EQ(g.softmax_sum[6], 0.0);  // the second sequence has no keys
}

// NaN in rows without keys and behind the sequences, and nowhere else.
TEST(BackwardCall, HidesNan) {
    const BackwardCall call =
        make_backward_call(parse_case("pass=backward layout=TND n=1 d=4 q=2,3 kv=2,0 slack=1/0 values=hidden_nan"));
    std::string pattern;
    for (const double value : call.arguments.dy.values) pattern += std::isfinite(value) ? '.' : 'x';
    EXPECT_EQ(pattern, "........xxxxxxxxxxxxxxxx");
    EXPECT_FALSE(std::isfinite(call.arguments.attention_in.values[8]));
}

}  // namespace
}  // namespace flash_attention::testing
