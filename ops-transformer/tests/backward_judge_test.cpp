// The judge of backward judged: right gradients pass, and each kind of wrong gradient or broken promise is found.
#include "testing/backward_judge.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backward_stand_in.h"
#include "testing/random_cases.h"

namespace flash_attention::testing {
namespace {

constexpr const char* kTypical[] = {
    "pass=backward layout=BSND dtype=fp32 n=2/1 d=16 q=9 kv=17 mode=3 mask=compressed",
    "pass=backward layout=BNSD dtype=fp16 b=2 n=2 d=33 dv=7 q=17 kv=9 mode=1 mask=2d:rows pse=1:full dpse=wanted "
    "sink=normal strides=dy:expand,dq:padded,dk:every2,dv:swapped,dpse:transposed,dsink:offset",
    "pass=backward layout=TND dtype=bf16 n=4/2 d=16 dv=8 rope=4 q=3,0,5 kv=7,2,9 tail=1 slack=2/1 mode=3 "
    "mask=compressed sink=normal stats=same_as_input strides=dq_rope:padded,dk_rope:every2",
    "pass=backward layout=TND dtype=fp32 n=2/1 d=16 q=5,3 kv=7,0 pse=0:row dpse=wanted drop=exact keep=0.7",
};

std::string verdict(const char* text, const Damage& damage = {}) {
    return lines(check_backward_case(parse_case(text), nullptr, stand_in(damage)));
}

TEST(BackwardJudge, AcceptsTheRoundedReference) {
    for (const char* text : kTypical) EXPECT_EQ(verdict(text), "") << text;
}

// All kinds of cases, as random_test draws them for the library: harness and reference can express them all.
TEST(BackwardJudge, AcceptsTheRoundedReferenceOfRandomCases) {
    constexpr uint64_t kSeed = 7;
    for (const Case& c : mixed_cases(kSeed, 64, true)) {
        Case small = c;
        small.given = Given::kReference;
        EXPECT_EQ(lines(check_backward_case(small, nullptr, stand_in())), "") << "seed " << kSeed;
    }
}

// One element of each gradient, wrong by four roundings of 16 bits and more than those of fp32 sums.
TEST(BackwardJudge, FindsAWrongElement) {
    for (const char* text : kTypical) {
        const Case c = parse_case(text);
        const double wrong = c.dtype == DType::kFp32 ? 1e-4 : 0.05;
        for (const Argument gradient : kGradientArguments) {
            if (!c.has(gradient)) continue;
            Damage damage;
            damage.results = [&](reference::ScoreGradResult& r) {
                auto& g = const_cast<reference::Gradient&>(gradient_of(r, gradient));
                // Where the sum is largest, the relative error is too.
                size_t at = 0;
                for (size_t i = 0; i < g.values.size(); i++) {
                    if (std::fabs(g.values[i]) > std::fabs(g.values[at])) at = i;
                }
                g.values[at] += wrong * (std::fabs(g.values[at]) + g.absolute[at]);
            };
            EXPECT_NE(verdict(text, damage).find(name_of(gradient)), std::string::npos)
                << name_of(gradient) << " of " << text;
        }
    }
}

// Mistakes that an implementation could make.
TEST(BackwardJudge, FindsWrongFormulas) {
    auto with_arguments = [](auto change) {
        Damage damage;
        damage.arguments = change;
        return damage;
    };
    using Arguments = reference::ScoreGradArguments;
    EXPECT_NE(verdict(kTypical[0], with_arguments([](Arguments& a) { a.forward.scale_value *= 1.01; })), "");
    EXPECT_NE(verdict(kTypical[0], with_arguments([](Arguments& a) { a.forward.sparse_mode = 2; })), "");
    EXPECT_NE(verdict(kTypical[1], with_arguments([](Arguments& a) { a.forward.pse_type = 0; })), "");
    EXPECT_NE(verdict(kTypical[1], with_arguments([](Arguments& a) { a.forward.sink[0] += 0.1; })), "");
    EXPECT_NE(verdict(kTypical[2], with_arguments([](Arguments& a) { a.forward.softmax_out_layout.clear(); })), "");
    EXPECT_NE(verdict(kTypical[2], with_arguments([](Arguments& a) { a.forward.key_rope->values[0] += 1; })), "");
    EXPECT_NE(verdict(kTypical[3], with_arguments([](Arguments& a) { a.forward.keep_prob = 1; })), "");
    EXPECT_NE(verdict(kTypical[3], with_arguments([](Arguments& a) { a.forward.drop_mask->at(0) ^= 4; })), "");
    EXPECT_NE(verdict(kTypical[3], with_arguments([](Arguments& a) { a.softmax_sum[0] *= 1.001; })), "");
    EXPECT_NE(verdict(kTypical[3], with_arguments([](Arguments& a) { a.attention_in.values[0] += 0.01; })), "");
}

// A row product that forgets the statistics' rounding is right; the row without visible keys must not get a bit.
TEST(BackwardJudge, DemandsExactZeros) {
    const char* text = "pass=backward layout=BSND dtype=fp32 n=1 d=4 q=5 kv=3 mode=3 mask=compressed";
    EXPECT_EQ(verdict(text), "");
    Damage damage;
    damage.results = [](reference::ScoreGradResult& r) { r.dq.values[0] = 1e-40; };  // row 0 sees nothing
    EXPECT_NE(verdict(text, damage), "");
    const char* behind = "pass=backward layout=TND dtype=fp32 n=1 d=4 q=2 kv=3 slack=0/1 values=hidden_nan";
    EXPECT_EQ(verdict(behind), "");
    damage.results = [](reference::ScoreGradResult& r) { r.dk.values[3 * 4] = 1e-40; };  // key 3 belongs to nobody
    EXPECT_NE(verdict(behind, damage), "");
    const char* slopes = "pass=backward layout=BSND n=1 d=4 q=3 kv=3 pse=2:slopes dpse=wanted";
    EXPECT_EQ(verdict(slopes), "");
    damage.results = [](reference::ScoreGradResult& r) { r.dpse.values[0] = 1e-40; };
    EXPECT_NE(verdict(slopes, damage), "");
}

TEST(BackwardJudge, ComparesPatternsOfNan) {
    Damage to_nan, to_number;
    to_nan.results = [](reference::ScoreGradResult& r) { r.dv.values[3] = std::nan(""); };
    EXPECT_NE(verdict(kTypical[0], to_nan), "");
    const char* text = "pass=backward layout=BSND dtype=fp32 n=1 d=4 q=3 kv=16 values=minus_inf seed=1";
    EXPECT_EQ(verdict(text), "");
    to_number.results = [](reference::ScoreGradResult& r) {
        for (double& value : r.dq.values) value = std::isfinite(value) ? value : 0.0;
    };
    EXPECT_NE(verdict(text, to_number), "");
}

TEST(BackwardJudge, NoticesBrokenPromises) {
    auto broken_by = [](Argument argument, int64_t byte) {
        Damage damage;
        damage.memory = [=](CallMemory& memory) { static_cast<uint8_t*>(memory.address(argument))[byte] ^= 0x10; };
        return verdict(kTypical[1], damage);
    };
    for (const Argument input : {kQuery, kKey, kValue, kMask, kPse, kSink, kDy, kOut, kMax, kSum})
        EXPECT_NE(broken_by(input, 0).find("changed the input"), std::string::npos) << name_of(input);
    EXPECT_NE(broken_by(kDk, 2).find("storage of dk"), std::string::npos);  // between two elements
    EXPECT_NE(broken_by(kDq, -1).find("outside of the storage of dq"), std::string::npos);
    EXPECT_NE(broken_by(kDsink, 0).find("storage of dsink"), std::string::npos);  // in front of the first element
}

// One term of weight dS = -1/2 by coefficient 2, in fp32, bf16 and fp16.
TEST(BackwardJudge, BoundsAreTheStatedOnes) {
    reference::ScoreGradResult r;
    r.largest_factor = 8;
    r.dq = {{1}, {-1}, {1}, {6}, {2}, 1024};
    const double fp32 = ((40 + 2) * 1 + 4 * 6) * 0x1p-24, smallest = 0x1p-126 * 8 * 2;
    auto bound = [&r](DType dtype, DType result) { return gradient_bound(r, r.dq, 0, dtype, result); };
    EXPECT_NEAR(bound(DType::kFp32, DType::kFp32), fp32 + 0x1p-24 + smallest, 1e-20);
    EXPECT_NEAR(bound(DType::kBf16, DType::kBf16), fp32 + 1.25 * 0x1p-8 + 0x1p-8, 1e-12);
    EXPECT_NEAR(bound(DType::kFp16, DType::kFp16), fp32 + 1.25 * 0x1p-11 + 0x1p-25 * 2 + 0x1p-11 + 0x1p-25, 1e-12);
    EXPECT_NEAR(bound(DType::kBf16, DType::kFp32), fp32 + 1.25 * 0x1p-8 + 0x1p-24, 1e-12);
    r.dq = {{1}, {0}, {0}, {0}, {2}, 1};  // weights that underflow in double too
    EXPECT_NEAR(bound(DType::kFp32, DType::kFp32), smallest + 0x1p-126, 1e-45);
}

TEST(BackwardJudge, RemembersTheWorstCase) {
    GradientAccuracy accuracy;
    const Case c = parse_case(kTypical[1]);
    accuracy.note(c, kDk, 3.0, 4.0);
    accuracy.note(c, kDk, 2.0, 4.0);
    EXPECT_EQ(accuracy.worst(DType::kFp16, kDk).ratio, 0.75);
    EXPECT_EQ(accuracy.worst(DType::kFp16, kDq).elements, 0);
    EXPECT_NE(accuracy.table().find(to_string(c)), std::string::npos);
}

TEST(BackwardJudge, RefusalsAreSentences) {
    EXPECT_NE(verdict("pass=backward layout=BSND n=1 d=4 q=2 kv=2 keep=0.5").find("refused with 161002"),
              std::string::npos);
}

// Statistics and output of the forward operator are as good as those of the reference.
TEST(BackwardJudge, TakesTheResultsOfForward) {
    for (const char* text : kTypical) {
        Case c = parse_case(text);
        const BackwardCall from_reference = make_backward_call(c);
        c.given = Given::kOperator;
        const BackwardCall from_operator = make_backward_call(c);
        ASSERT_EQ(from_operator.arguments.softmax_sum.size(), from_reference.arguments.softmax_sum.size());
        for (size_t row = 0; row < from_operator.arguments.softmax_sum.size(); row++) {
            const double sum = from_reference.arguments.softmax_sum[row];
            EXPECT_NEAR(from_operator.arguments.softmax_sum[row], sum, 1e-3 * sum) << text;  // the bound of forward
        }
        EXPECT_EQ(lines(check_backward_case(c, nullptr, stand_in())), "") << text;
    }
}

}  // namespace
}  // namespace flash_attention::testing
