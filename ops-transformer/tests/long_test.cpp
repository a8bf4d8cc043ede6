// Long sequences, where sums are hard: chosen cases, not drawn ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "testing/judge.h"
#include "testing/reduced.h"

namespace flash_attention::testing {
namespace {

// The reduced lengths still have several groups of key blocks, and biases more than the 1024 stored rows.
const std::string kLength = reduced("kv=32768", "kv=2300");
const std::string kLonger = reduced("kv=131072", "kv=8192");
const std::string kSecond = reduced(",9000,100", ",1100,100");
const std::string kSquare = reduced(" q=1537 kv=1537 ", " q=260 kv=260 ");
const std::string kWindow = reduced(" q=1025 kv=1601 ", " q=140 kv=401 ");
const std::string kBiasSquare = reduced(" q=2500 kv=2500 ", " q=1030 kv=1030 ");

class LongSequences : public ::testing::TestWithParam<DType> {};

TEST_P(LongSequences, AgreeWithTheReference) {
    const std::string dtype = " dtype=" + std::string(name_of(GetParam())) + " ";
    Accuracy accuracy;
    for (const std::string& text : {
             // Nearly uniform: all keys weigh the same, the sum has as many terms as keys.
             "layout=BNSD n=1 d=64 q=33 scale=0.001" + dtype + kLength,
             "layout=BNSD n=1 d=64 q=3 scale=0" + dtype + kLength,
             // One high key among equals.
             "layout=BNSD n=2/1 d=64 q=9 values=high_key" + dtype + kLength,
             "layout=BNSD n=1 d=16 q=1 values=high_key" + dtype + kLonger,
             // Logits of several hundreds.
             "layout=BSND n=1 d=128 q=17 values=large" + dtype + kLength,
             "layout=BSND n=1 d=128 q=17 values=large scale=-0.08838834764831845" + dtype + kLength,
             // All products of one sign: the scores themselves are the hard sums.
             "layout=BSH n=1 d=768 q=65 values=positive kv=1025" + dtype,
             // Decoding: few rows, groups of heads.
             "layout=TND n=8/1 d=128 q=1,1,2 mode=3 mask=compressed " + dtype + kLength + kSecond,
             // Causal squares and windows over many blocks.
             "layout=BSH n=1 d=64 mode=3 mask=compressed" + dtype + kSquare,
             "layout=SBH n=1 d=80 mode=4 pre=200 next=70 mask=compressed" + dtype + kWindow,
         }) {
        EXPECT_EQ(lines(check_case(parse_case(text), &accuracy)), "");
    }
    std::cout << accuracy.table();
}

TEST_P(LongSequences, AgreeWithTheReferenceUnderModifiers) {
    const std::string dtype = " dtype=" + std::string(name_of(GetParam())) + " ";
    Accuracy accuracy;
    std::vector<std::string> texts{
        // The bias alone decides, as far as anything does: logits of r alone are nearly equal.
        "layout=BNSD n=1 d=64 q=33 scale=0.001 pse=0:row" + dtype + kLength,
        "layout=BNSD n=2/1 d=64 q=9 pse=1:full:large" + dtype + kLength,
        "layout=SBH n=1 d=64 q=17 pse=0:row:minus_inf values=hidden_nan" + dtype + kLength,
        // Distances of thousands: with the usual slopes most keys weigh nothing, with these all do.
        "layout=TND n=2 d=64 q=9 pse=2:slopes1:alibi q_start=32000 kv_start=0" + dtype + kLength,
        "layout=TND n=2 d=64 q=9 pse=3:slopes1 q_start=-7 kv_start=4000000" + dtype + kLength,
        // A sink against many keys that weigh nearly as much together, and one far above or below all of them.
        "layout=BNSD n=2/1 d=64 q=9 scale=0.001 sink=normal" + dtype + kLength,
        "layout=BNSD n=4/1 d=64 q=9 values=high_key sink=normal" + dtype + kLength,
        "layout=BSND n=4/2 d=64 q=9 values=large sink=large" + dtype + kLength,
        // Half of the weights, or nearly all of them, are dropped out of a sum that is formed of all.
        "layout=BNSD n=2/1 d=64 q=17 scale=0.001 drop=exact keep=0.5" + dtype + kLength,
        "layout=BSND n=1 d=64 q=5 scale=0 drop=longer keep=0.05" + dtype + kLength,
        "layout=TND n=8/1 d=128 q=1,1,2 drop=rounded keep=0.9 stats=same_as_input" + dtype + kLength + kSecond,
        "layout=BNSD n=2/1 d=64 q=9 pse=1:row drop=odd keep=0.7 sink=normal mode=6 mask=compressed" + dtype + kLength +
            " prefix=" + kLength.substr(3),
        // Rows far above the 1024 stored ones.
        "layout=BSH n=1 d=4 mode=3 mask=compressed pse=1:compressed" + dtype + kBiasSquare,
    };
    if (GetParam() == DType::kBf16)
        texts.push_back("layout=TND n=8/1 d=512 rope=64 q=1,2 mode=3 mask=compressed" + dtype + kLength + ",100");
    for (const std::string& text : texts) {
        EXPECT_EQ(why_illegal(parse_case(text)), "") << text;
        EXPECT_EQ(lines(check_case(parse_case(text), &accuracy)), "");
    }
    std::cout << accuracy.table();
}

// All features of a row are equal, and so are the products of a score: in a chain of sums their roundings all go the
// same way, which is the worst that the bound of a score has to hold for.
TEST_P(LongSequences, EqualFeatures) {
    Accuracy accuracy;
    for (const char* d : {"64", "128", "256", "768"}) {
        for (const char* scale : {"0.05", "1"}) {
            const Case c =
                parse_case(std::string("layout=BSND n=2 q=65 kv=130 strides=q:expand_last,k:expand_last d=") + d +
                           " scale=" + scale + " dtype=" + std::string(name_of(GetParam())));
            EXPECT_EQ(lines(check_case(c, &accuracy)), "");
        }
    }
    // A bias that cancels the products leaves a small maximum, of which a few units in the last place are nothing.
    for (const char* text : {"d=513 seed=350", "d=310 seed=340", "d=127 seed=305"}) {
        EXPECT_EQ(
            lines(check_case(
                parse_case("layout=BSND n=1 dv=1 q=513 kv=2 pse=1:full strides=q:expand_last,k:expand_last dtype=" +
                           std::string(name_of(GetParam())) + " " + text),
                &accuracy)),
            "");
    }
    std::cout << accuracy.table();
}

// Found by a search over all c for what hurts most: key 0 is c in every feature, so that its score is a long sum of
// equal products; key 1 has the same score from products that need no rounding. The weights must be equal.
TEST(EqualProducts, HaveAnExactCounterpart) {
    constexpr int64_t kFeatures = 768;
    for (const float c : {0.346112013F, 0.309108019F, 0.449964017F, 0.483088017F, 0.480108023F, 0.450392008F}) {
        Call call = make_call(parse_case("layout=BSND dtype=fp32 n=1 d=768 q=1 kv=2 scale=1"));
        reference::ScoreArguments& a = call.arguments;
        const double exact = std::floor(64.0 * static_cast<double>(c)) / 64.0;
        std::fill(a.query.values.begin(), a.query.values.end(), 1.0);
        std::fill_n(a.key.values.begin(), kFeatures, static_cast<double>(c));
        std::fill_n(a.key.values.begin() + kFeatures, kFeatures, exact);
        a.key.values.back() = rounded(DType::kFp32, c * 768.0 - exact * 767.0);
        std::fill_n(a.value.values.begin(), kFeatures, 1.0);
        std::fill_n(a.value.values.begin() + kFeatures, kFeatures, -1.0);
        const RunResult result = run(call);
        ASSERT_EQ(result.phase_two, 0) << result.error_text;
        EXPECT_EQ(lines(judge(call, reference::score(a), result.outputs)), "") << "c = " << c;
    }
}

INSTANTIATE_TEST_SUITE_P(Types, LongSequences, ::testing::Values(DType::kFp32, DType::kFp16, DType::kBf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace flash_attention::testing
