// Cases that are chosen, not drawn: long sequences, where sums are hard, and shapes at the ends of what is legal.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "testing/judge.h"

namespace flash_attention::testing {
namespace {

// Under a sanitizer sequences are shorter.
#ifdef FUSION_REDUCED_TESTS
constexpr const char* kLength = "kv=4096";
constexpr const char* kLonger = "kv=8192";
constexpr const char* kSquare = " q=385 kv=385 ";
constexpr const char* kWindow = " q=257 kv=401 ";
#else
constexpr const char* kLength = "kv=32768";
constexpr const char* kLonger = "kv=131072";
constexpr const char* kSquare = " q=1537 kv=1537 ";
constexpr const char* kWindow = " q=1025 kv=1601 ";
#endif

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
             "layout=TND n=8/1 d=128 q=1,1,2 mode=3 mask=compressed " + dtype + kLength + ",9000,100",
             // Causal squares and windows over many blocks.
             "layout=BSH n=1 d=64 mode=3 mask=compressed" + dtype + kSquare,
             "layout=SBH n=1 d=80 mode=4 pre=200 next=70 mask=compressed" + dtype + kWindow,
         }) {
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

// Each is legal and has to succeed; there is nothing, or almost nothing, to compute.
TEST(EdgesOfTheLegal, AgreeWithTheReference) {
    for (const char* text : {
             "layout=BSND n=1 d=1 q=1 kv=1",
             "layout=BSND n=2 d=8 q=0 kv=4",            // no rows
             "layout=BSND b=0 n=2 d=8 q=4 kv=4",        // no batch
             "layout=BSND n=2 d=8 q=4 kv=0",            // no keys: zeros, not the values of a hidden row
             "layout=SBH b=2 n=2/1 d=8 q=4 kv=0",       //
             "layout=BNSD n=2 d=0 q=4 kv=4",            // no features
             "layout=BSND n=2 d=8 dv=0 q=4 kv=4",       // no values
             "layout=TND n=2 d=8 q=0,0 kv=3,4",         // no rows in any sequence
             "layout=TND n=2 d=8 q=3,4 kv=0,0",         // no keys in any sequence
             "layout=TND n=2 d=8 q=0,5,0 kv=0,6,0",     // empty sequences at both ends
             "layout=TND n=3 d=8 q=4 kv=5 slack=6/7",   // rows and keys that belong to nobody
             "layout=TND n=3 d=8 q=0 kv=0 slack=6/7",   // no others
             "layout=TND n=3 d=8 q=4,2 kv=5,1 tail=3",  //
             "layout=BSND n=2 d=8 q=9 kv=7 mode=1 mask=2d:all",
             "layout=TND n=2 d=8 q=9,3 kv=7,2 mode=0 mask=total:all",
             "layout=BSND n=2 d=64 q=70 kv=5 mode=3 mask=compressed",  // 65 hidden rows in front
             "layout=BSND n=2 d=64 q=200 kv=200 mode=0 pre=-3 next=150 mask=2d:nothing",
             "layout=BSND n=2 d=64 q=200 kv=200 mode=4 pre=9223372036854775807 next=-100 mask=compressed",
             "layout=BSND n=2 d=64 q=65 kv=65 mode=2 pre=-9223372036854775808 next=-9223372036854775808 "
             "mask=compressed",
             "layout=BSND n=300 d=3 q=2 kv=3",
             "layout=BSND b=70 n=1 d=3 q=2 kv=3",
         }) {
        EXPECT_EQ(why_illegal(parse_case(text)), "") << text;
        EXPECT_EQ(lines(check_case(parse_case(text))), "");
    }
}

}  // namespace
}  // namespace flash_attention::testing
