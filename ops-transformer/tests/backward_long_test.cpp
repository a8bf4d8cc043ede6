// Gradients of long sequences, where sums are hard: over keys for dq, over query rows for dk and dv, over both for biases
// and sinks. Chosen cases, not drawn ones.
#include <gtest/gtest.h>

#include <iostream>

#include "testing/backward_judge.h"
#include "testing/reduced.h"

namespace flash_attention::testing {
namespace {

// The reduced lengths still have several parts of keys and groups of blocks of rows.
const std::string kKeys = reduced(" kv=32768 ", " kv=4500 ");
const std::string kRows = reduced(" q=32768 ", " q=1700 ");
const std::string kSquare = reduced(" q=1537 kv=1537 ", " q=260 kv=260 ");
const std::string kWindow = reduced(" q=2500 kv=4200 ", " q=140 kv=2101 ");

class LongGradients : public ::testing::TestWithParam<DType> {
  protected:
    void expect_right(const std::vector<std::string>& texts) {
        GradientAccuracy accuracy;
        for (const std::string& text : texts) {
            Case c = parse_case("pass=backward " + text);
            c.dtype = GetParam();
            EXPECT_EQ(why_illegal(c), "") << text;
            std::string wrong;
            for (const std::string& sentence : check_backward_case(c, &accuracy)) wrong += sentence + "\n";
            EXPECT_EQ(wrong, "");
        }
        std::cout << accuracy.table();
    }
};

TEST_P(LongGradients, AgreeWithTheReference) {
    expect_right({
        // Nearly uniform: all keys weigh the same, the sums have as many terms as keys, or as rows.
        "layout=BNSD n=1 d=64 q=9 scale=0.001" + kKeys,
        "layout=BNSD n=1 d=64 q=3 scale=0 values=positive" + kKeys,
        "layout=BNSD n=1 d=64 kv=9 scale=0.001" + kRows,
        "layout=BNSD n=4/1 d=16 kv=3 scale=0 values=positive" + kRows,
        // One high key among equals.
        "layout=BNSD n=2/1 d=64 q=9 values=high_key" + kKeys,
        "layout=BSND n=2/1 d=64 kv=9 values=high_key given=operator" + kRows,
        // Scores of several hundreds.
        "layout=BSND n=1 d=128 q=9 values=large given=operator" + kKeys,
        "layout=BSND n=1 d=128 q=9 values=large scale=-0.08838834764831845" + kKeys,
        // All products of one sign.
        "layout=BSH n=1 d=768 q=65 values=positive kv=1025",
        // Causal squares and windows over many blocks.
        "layout=BSH n=1 d=64 mode=3 mask=compressed" + kSquare,
        "layout=SBH n=1 d=32 mode=4 pre=200 next=70 mask=compressed" + kWindow,
        "layout=TND n=4/1 d=64 q=1,130,2 mode=3 mask=compressed" + kKeys.substr(0, kKeys.size() - 1) + ",200,100",
    });
}

TEST_P(LongGradients, AgreeWithTheReferenceUnderModifiers) {
    expect_right({
        "layout=BNSD n=1 d=64 q=9 scale=0.001 pse=0:row dpse=wanted" + kKeys,
        "layout=BNSD n=1 d=16 kv=9 scale=0.001 pse=0:row dpse=wanted" + kRows,
        "layout=BNSD n=2/1 d=64 q=9 pse=1:full:large dpse=wanted" + kKeys,
        "layout=BNSD n=2/1 d=64 q=9 scale=0.001 sink=normal" + kKeys,
        "layout=BNSD n=2/1 d=16 kv=5 sink=normal given=operator" + kRows,
        "layout=BNSD n=2/1 d=64 q=9 scale=0.001 drop=exact keep=0.5" + kKeys,
        "layout=BSND n=1 d=16 kv=5 scale=0 drop=longer keep=0.05" + kRows,
    });
}

// Roundings of all products go the same way.
TEST_P(LongGradients, EqualFeatures) {
    std::vector<std::string> texts;
    for (const char* d : {"64", "128", "768"}) {
        for (const char* scale : {"0.05", "1"})
            texts.push_back(
                std::string("layout=BSND n=2 q=65 kv=130 strides=q:expand_last,k:expand_last,dy:expand_last d=") + d +
                " scale=" + scale);
    }
    expect_right(texts);
}

INSTANTIATE_TEST_SUITE_P(Types, LongGradients, ::testing::Values(DType::kFp32, DType::kFp16, DType::kBf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace flash_attention::testing
