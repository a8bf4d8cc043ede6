// The reference of backward against numbers that were worked out without it, and against central differences of the
// reference of forward.
#include "reference/score_grad.h"

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "small_example.h"
#include "testing/call.h"

namespace flash_attention::reference {
namespace {

using flash_attention::testing::Case;
using flash_attention::testing::make_call;
using flash_attention::testing::parse_case;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The arguments of backward that belong to a forward call, unrounded.
ScoreGradArguments backward_of(const ScoreArguments& forward, std::vector<double> dy) {
    const ScoreResult r = score(forward);
    return {forward, {r.attention_out.shape, std::move(dy)}, r.attention_out, r.softmax_max, r.softmax_sum};
}

ScoreGradArguments small_backward() {
    ScoreArguments a = small_example();
    a.sparse_mode = 3;
    a.atten_mask = Mask{{2048, 2048}, {}};
    return backward_of(a, {1, 0, 0, 1});
}

TEST(ReferenceGrad, WorkedExample) {
    const ScoreGradResult r = score_grad(small_backward());
    expect_near(r.dq.values, {0.117502, 0.000000, 0.042048, -0.098419});
    expect_near(r.dk.values, {0.117502, -0.309578, -0.117502, 0.112741, 0.000000, 0.196837});
    expect_near(r.dv.values, {0.622459, 0.422319, 0.377541, 0.422319, 0.000000, 0.155362});
    EXPECT_FALSE(r.dq_rope.given() || r.dk_rope.given() || r.dpse.given() || r.dsink.given());
}

TEST(ReferenceGrad, WorkedSink) {
    ScoreArguments a = small_example();
    a.sink = {0.25};
    expect_near(score_grad(backward_of(a, {1, 0, 0, 1})).dsink.values, {-0.307300});
}

// What the bounds are made of, by hand: one row and one visible key, so that p = 1 and dS = 0 as long as the output is
// the value.
TEST(ReferenceGrad, AddsUpMagnitudes) {
    ScoreArguments a;
    a.input_layout = "BSND";
    a.query = {{1, 1, 1, 2}, {3, -1}};
    a.key = {{1, 1, 1, 2}, {1, 2}};
    a.value = {{1, 1, 1, 2}, {-4, 5}};
    a.scale_value = 0.5;
    ScoreGradArguments backward = backward_of(a, {2, 1});
    backward.softmax_sum = {2};             // p = 1/2
    backward.attention_in.values = {1, 0};  // delta = 2
    const ScoreGradResult r = score_grad(backward);
    // x = 0.5 * (3 - 2), a sum of absolute values of 2.5, and M = 0.5
    const double p = 0.5, exponent = 2.5 + 0.5 + std::log(2.0), ds = p * (-8 + 5 - 2), added = 8 + 5 + 2;
    const double uncertain = std::fabs(ds) * exponent + p * added;
    EXPECT_DOUBLE_EQ(r.dv.values[0], p * 2);
    EXPECT_DOUBLE_EQ(r.dv.absolute[0], p * 2);
    EXPECT_DOUBLE_EQ(r.dv.uncertain[0], p * 2 * exponent);
    EXPECT_DOUBLE_EQ(r.dv.coefficients[0], 2);
    EXPECT_DOUBLE_EQ(r.dq.values[1], 0.5 * ds * 2);
    EXPECT_DOUBLE_EQ(r.dq.absolute[1], 0.5 * std::fabs(ds) * 2);
    EXPECT_DOUBLE_EQ(r.dq.uncertain[1], 0.5 * uncertain * 2);
    EXPECT_DOUBLE_EQ(r.dq.coefficients[1], 0.5 * 2);
    EXPECT_DOUBLE_EQ(r.dk.values[1], 0.5 * ds * -1);
    EXPECT_DOUBLE_EQ(r.dk.absolute[1], 0.5 * std::fabs(ds));
    EXPECT_DOUBLE_EQ(r.dk.uncertain[1], 0.5 * uncertain);
    EXPECT_DOUBLE_EQ(r.dk.coefficients[1], 0.5);
    EXPECT_DOUBLE_EQ(r.largest_factor, added);
    EXPECT_EQ(r.dq.terms, 1);
}

TEST(ReferenceGrad, HiddenRowsAndPairsAddNothing) {
    ScoreArguments a = small_example();
    a.sparse_mode = 1;
    a.atten_mask = Mask{{2, 3}, {1, 1, 1, 0, 0, 1}};
    const ScoreGradResult clean = score_grad(backward_of(a, {1, 2, 0, 1}));
    EXPECT_EQ(clean.dq.values[0], 0.0);
    EXPECT_EQ(clean.dk.values[4], 0.0);
    // NaN in row 0, which is hidden, and in key 2, which nobody sees.
    for (const int d : {0, 1}) {
        a.query.values[d] = kNan;
        a.key.values[4 + d] = kInfinity;
        a.value.values[4 + d] = kNan;
    }
    ScoreGradArguments backward = backward_of(a, {kNan, kInfinity, 0, 1});
    EXPECT_EQ(backward.softmax_sum[0], static_cast<double>(FLT_MAX));
    backward.attention_in.values[0] = kNan;
    const ScoreGradResult r = score_grad(backward);
    EXPECT_EQ(r.dq.values, clean.dq.values);
    EXPECT_EQ(r.dk.values, clean.dk.values);
    EXPECT_EQ(r.dv.values, clean.dv.values);
}

TEST(ReferenceGrad, VisibleNanSpoilsWhatUsesIt) {
    ScoreGradArguments backward = small_backward();
    backward.dy.values[0] = kNan;  // of row 0, which sees keys 0 and 1
    const ScoreGradResult r = score_grad(backward);
    auto pattern = [](const Gradient& g) {
        std::string text;
        for (const double value : g.values) text += std::isfinite(value) ? '.' : 'x';
        return text;
    };
    EXPECT_EQ(pattern(r.dq), "xx..");
    EXPECT_EQ(pattern(r.dk), "xxxx..");
    EXPECT_EQ(pattern(r.dv), "x.x...");
}

// A sink of minus infinity takes no part. Any other one does, even where its weight underflows.
TEST(ReferenceGrad, SinksUseTheGradientOfTheOutput) {
    ScoreArguments a = small_example();
    a.sink = {-kInfinity};
    EXPECT_EQ(score_grad(backward_of(a, {kNan, 0, 0, 1})).dsink.values[0], 0.0);
    a.sink = {-1e6};
    EXPECT_TRUE(std::isnan(score_grad(backward_of(a, {kNan, 0, 0, 1})).dsink.values[0]));
}

// A logit of minus infinity has weight 0; a row that has no others counts as hidden.
TEST(ReferenceGrad, LogitsOfMinusInfinity) {
    ScoreArguments a = small_example();
    a.query.values = {1, 0, 1, 0};
    a.key.values = {-kInfinity, 1, 0, 1, 2, 0};
    const ScoreGradResult some = score_grad(backward_of(a, {1, 2, 0, 1}));
    EXPECT_TRUE(std::isnan(some.dq.values[0]));  // 0 times the infinite feature
    EXPECT_TRUE(std::isfinite(some.dq.values[1]));
    EXPECT_EQ(some.dv.values[0], 0.0);
    EXPECT_EQ(some.dv.uncertain[0], 0.0);
    EXPECT_EQ(some.dk.values[0], 0.0);
    a.key.values[2] = a.key.values[4] = -kInfinity;
    EXPECT_EQ(score_grad(backward_of(a, {1, 2, 0, 1})).dq.values, (std::vector<double>{0, 0, 0, 0}));
}

// A parameter of the forward call and where its gradient is.
struct Parameter {
    const char* name;
    std::vector<double>* values;
    const Gradient* gradient;
};

// The derivative of sum of dy * O by `value`. Central differences of two steps, joined so that their errors of second
// order cancel: what is left is of the fourth order of the step, about 1e-11 here, and rounding, 1e-16 / step.
double difference(const ScoreArguments& a, const std::vector<double>& dy, double& value) {
    const double original = value;
    auto loss = [&](double at) {
        value = at;
        const ScoreResult r = score(a);
        value = original;
        double sum = 0;
        for (size_t i = 0; i < dy.size(); i++) sum += dy[i] * r.attention_out.values[i];
        return sum;
    };
    auto slope = [&](double step) { return (loss(original + step) - loss(original - step)) / (2 * step); };
    constexpr double kStep = 0x1p-9;
    return (4 * slope(kStep / 2) - slope(kStep)) / 3;
}

// Relative to the sum of absolute values of a gradient's terms and to 1.
constexpr double kDifferenceBound = 1e-8;
constexpr uint64_t kSeed = 20240607;
constexpr size_t kMostElements = 24;  // of a tensor

void expect_derivatives(const Case& c) {
    ScoreArguments a = make_call(c).arguments;
    std::mt19937_64 random(kSeed);
    std::normal_distribution<double> normal;
    std::vector<double> dy(score(a).attention_out.values.size());
    for (double& value : dy) value = normal(random);
    const ScoreGradResult r = score_grad(backward_of(a, dy));
    std::vector<Parameter> parameters{{"dq", &a.query.values, &r.dq},
                                      {"dk", &a.key.values, &r.dk},
                                      {"dv", &a.value.values, &r.dv},
                                      {"dsink", &a.sink, &r.dsink}};
    if (a.query_rope) parameters.push_back({"dq_rope", &a.query_rope->values, &r.dq_rope});
    if (a.key_rope) parameters.push_back({"dk_rope", &a.key_rope->values, &r.dk_rope});
    if (c.slopes() || c.compressed_bias()) {
        EXPECT_EQ(r.dpse.values, std::vector<double>(a.real_shift->values.size(), 0.0));
    } else if (a.real_shift) {
        parameters.push_back({"dpse", &a.real_shift->values, &r.dpse});
    }
    size_t moving = 0;
    for (const Parameter& p : parameters) {
        ASSERT_EQ(p.values->size(), p.gradient->values.size()) << p.name;
        for (size_t n = 0; n < std::min(kMostElements, p.values->size()); n++) {
            const size_t at = p.values->size() <= kMostElements ? n : random() % p.values->size();
            const double gradient = p.gradient->values[at];
            if (!std::isfinite((*p.values)[at])) {
                EXPECT_EQ(gradient, 0.0) << p.name << " " << at << " of " << to_string(c);
                continue;
            }
            const double expected = difference(a, dy, (*p.values)[at]);
            moving += std::fabs(expected) > 1e-3;
            EXPECT_NEAR(gradient, expected, kDifferenceBound * (1 + p.gradient->absolute[at]))
                << p.name << " " << at << " of " << to_string(c) << ", seed " << kSeed;
        }
    }
    EXPECT_GT(moving, 0U) << "nothing depends on anything in " << to_string(c);
}

TEST(ReferenceGrad, AgreesWithCentralDifferences) {
    RecordProperty("seed", std::to_string(kSeed));
    for (const char* text : {
             "layout=BSND n=1 d=3 q=4 kv=5",
             "layout=BSH b=2 n=4/2 d=3 dv=2 q=4 kv=5 mode=0 pre=2 next=1 mask=2d:nothing",
             "layout=SBH b=2 n=3/1 d=4 q=5 kv=7 mode=1 mask=bn:rows seed=3",
             "layout=BNSD b=2 n=2 d=5 dv=1 q=6 kv=5 mode=2 mask=compressed",
             "layout=BNSD b=2 n=4/2 d=3 q=7 kv=4 mode=3 mask=compressed scale=-0.7",
             "layout=BSND b=1 n=2 d=3 q=7 kv=7 mode=4 pre=3 next=1 mask=compressed",
             "layout=BSND b=2 n=2/1 d=3 q=5 kv=6 mode=5 mask=b1:random prefix=3,6",
             "layout=BSND b=2 n=2/1 d=3 q=5 kv=6 mode=6 mask=compressed prefix=3,6",
             "layout=TND n=4/2 d=3 dv=2 q=3,0,5,2 kv=4,2,6,0 tail=1 slack=2/1",
             "layout=TND n=2/1 d=3 q=3,4 kv=4,6 mode=7 pre=6 next=-2 mask=compressed stats=same_as_input",
             "layout=TND n=2/1 d=3 q=3,4 kv=4,6 mode=8 pre=9 next=1 mask=compressed",
             "layout=TND dtype=bf16 n=4/2 d=4 dv=3 rope=2 q=3,4 kv=4,6 mode=3 mask=compressed sink=normal",
             // Every form of the bias, both places.
             "layout=BSND b=2 n=2/1 d=3 q=5 kv=6 pse=1:full scale=0.4",
             "layout=BNSD b=2 n=2 d=3 q=5 kv=6 pse=0:full1 scale=0.4",
             "layout=BSH b=2 n=2 d=3 q=5 kv=6 mode=1 mask=2d:rows pse=1:row scale=0.4",
             "layout=SBH b=2 n=2/1 d=3 q=5 kv=6 pse=0:row1:minus_inf scale=0.4",
             "layout=TND n=2/1 d=3 q=5,0,2 kv=6,3,4 pse=1:full:minus_inf scale=0.4 stats=same_as_input",
             "layout=TND n=2/1 d=3 q=5,0,2 kv=6,3,4 pse=0:full_any scale=0.4",
             "layout=TND n=2/1 d=3 q=5,0,2 kv=6,3,4 pse=0:row scale=0.4",
             "layout=TND n=2/1 d=3 q=5,0,2 kv=6,3,4 pse=1:row_any scale=0.4",
             "layout=BSND n=1 d=1 q=1024 kv=2 pse=1:full",  // as many rows as a compressed bias has
             "layout=BSND b=2 n=2 d=3 q=6 kv=6 pse=2:slopes q_start=2 kv_start=5",
             "layout=TND n=2 d=3 q=6,3 kv=6,3 pse=3:slopes1",
             "layout=TND n=2 d=3 q=6,3 kv=6,3 mode=3 mask=compressed pse=1:compressed:alibi",
             // Dropout and sink, alone and with others.
             "layout=BSND b=2 n=2/1 d=3 q=5 kv=6 drop=exact keep=0.6",
             "layout=BSND b=1 n=2 d=3 q=5 kv=6 drop=exact",
             "layout=BNSD b=2 n=3 d=3 dv=2 q=5 kv=6 sink=normal",
             "layout=BSND b=2 n=4/2 d=3 q=7 kv=5 mode=3 mask=compressed pse=0:full drop=odd keep=0.7 sink=normal",
             "layout=TND n=4/2 d=5 dv=3 q=5,0,2 kv=6,3,4 mode=2 mask=compressed pse=1:full drop=longer keep=0.7 "
             "sink=minus_inf stats=same_as_input",
         }) {
        const Case c = parse_case(text);
        ASSERT_EQ(testing::why_illegal(c), "") << text;
        expect_derivatives(c);
    }
}

// The row products are those of the output that is given, and weights come of the statistics that are given: a caller
// may pass those of keys that it has merged with others.
TEST(ReferenceGrad, TakesOutputAndStatisticsAsGiven) {
    const ScoreGradArguments whole = backward_of(small_example(), {1, 2, 3, 4});
    const ScoreGradResult expected = score_grad(whole);
    ScoreGradArguments part = whole;  // keys 1 and 2
    for (Tensor* t : {&part.forward.key, &part.forward.value}) {
        t->shape[1] = 2;
        t->values.erase(t->values.begin(), t->values.begin() + 2);
    }
    const ScoreGradResult r = score_grad(part);
    for (size_t i = 0; i < 4; i++) {
        EXPECT_NEAR(r.dk.values[i], expected.dk.values[i + 2], 1e-15);
        EXPECT_NEAR(r.dv.values[i], expected.dv.values[i + 2], 1e-15);
    }
}

}  // namespace
}  // namespace flash_attention::reference
