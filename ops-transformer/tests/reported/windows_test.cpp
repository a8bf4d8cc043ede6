// Which keys a row sees: causal alignment, windows and their edges. Counting, moving one key at a time, and comparing
// ways of saying the same.
#include <fmt/format.h>

#include <algorithm>

#include "reported.h"

namespace flash_attention::testing {
namespace {

constexpr int64_t kNoLimit = 2147483647;

using Counts = std::vector<int64_t>;

// CPU-04: one query against a longer history; the two causal modes differ the most there.
TEST(Causal, CPU_04_OneQueryOfTheTwoAlignments) {
    Call call = call_of("layout=BNSD dtype=fp32 n=2 d=8 q=1 kv=9 mode=2 mask=compressed");
    EXPECT_EQ(visible_counts(call), Counts(2, 1));
    const Outputs outputs = expect_agrees(call);
    for (int64_t n = 0; n < 2; n++) {
        for (int64_t d = 0; d < 8; d++) {
            EXPECT_EQ(outputs.out[n * 8 + d], to_bits(DType::kFp32, call.arguments.value.values[n * 9 * 8 + d]))
                << "the only visible key is the first";
        }
    }
    call = call_of("layout=BNSD dtype=fp32 n=2 d=8 q=1 kv=9 mode=3 mask=compressed");
    EXPECT_EQ(visible_counts(call), Counts(2, 9));
    expect_agrees(call);
}

// PT-11: five queries, two keys.
TEST(Causal, PT_11_MoreQueriesThanKeys) {
    const Call top_left = call_of("layout=BNSD dtype=fp32 n=1 d=8 q=5 kv=2 mode=2 mask=compressed");
    EXPECT_EQ(visible_counts(top_left), (Counts{1, 2, 2, 2, 2}));
    expect_agrees(top_left);
    const Call bottom_right = call_of("layout=BNSD dtype=fp32 n=1 d=8 q=5 kv=2 mode=3 mask=compressed");
    EXPECT_EQ(visible_counts(bottom_right), (Counts{0, 0, 0, 1, 2}));
    const std::vector<double> out = numbers(bottom_right, expect_agrees(bottom_right));
    EXPECT_TRUE(std::all_of(out.begin(), out.begin() + 3 * 8, [](double x) { return x == 0; }));
    EXPECT_TRUE(std::all_of(out.begin() + 3 * 8, out.end(), [](double x) { return x != 0; }));
}

// ASC-07: a dense path that forgot to be causal. No row may depend on a later key, dense or packed, and both agree.
TEST(Causal, ASC_07_NoRowDependsOnALaterKey) {
    const Call dense = call_of("layout=BSND dtype=bf16 b=2 n=4 d=64 q=96 kv=96 mode=2 mask=compressed");
    expect_only_visible_keys_count(dense, 11);
    Call packed = call_of("layout=TND dtype=bf16 n=4 d=64 q=96,96 kv=96,96 mode=2 mask=compressed");
    expect_only_visible_keys_count(packed, 11);
    // Rows of BSND lie like those of TND.
    packed.arguments.query.values = dense.arguments.query.values;
    packed.arguments.key.values = dense.arguments.key.values;
    packed.arguments.value.values = dense.arguments.value.values;
    EXPECT_TRUE(outputs_of(packed) == outputs_of(dense)) << "dense and packed differ";
}

// ASC-03: settings of a window that let a query see the token after it.
TEST(Window, ASC_03_NextTokensIsExact) {
    const std::string text = "layout=TND dtype=fp32 n=4 d=32 q=4 kv=12 mode=4 pre=7 mask=compressed next=";
    expect_only_visible_keys_count(call_of(text + "0"), 12);
    expect_only_visible_keys_count(call_of(text + "1"), 12);
    Counts without, with_one;
    for (int64_t n = 0; n < 4; n++) {
        without.insert(without.end(), {8, 8, 8, 8});
        with_one.insert(with_one.end(), {9, 9, 9, 8});  // the last row has no key after it
    }
    EXPECT_EQ(visible_counts(call_of(text + "0")), without);
    EXPECT_EQ(visible_counts(call_of(text + "1")), with_one);
}

// CPU-01: the window of a decoding step covers its own token.
TEST(Window, CPU_01_TheLastEightKeys) {
    const Call call = call_of("layout=BNSD dtype=fp32 n=4/2 d=16 q=1 kv=40 mode=4 pre=7 next=0 mask=compressed");
    EXPECT_EQ(visible_counts(call), Counts(4, 8));
    expect_only_visible_keys_count(call, 40);  // keys 32 to 39 have an effect, the others have not
}

// FA-09: a window of W tokens that ends with the token itself is preTokens = W - 1.
TEST(Window, FA_09_AWindowOfWTokens) {
    for (const int64_t window : {1, 4, 16, 40}) {
        const Call call = call_of(
            fmt::format("layout=BNSD dtype=fp32 n=1 d=8 q=16 kv=16 mode=4 pre={} next=0 mask=compressed", window - 1));
        Counts expected;
        for (int64_t i = 0; i < 16; i++) expected.push_back(std::min(i + 1, window));
        EXPECT_EQ(visible_counts(call), expected) << "window " << window;
        expect_agrees(call);
    }
}

// FA-11: zero is a bound, not "no bound".
TEST(Window, FA_11_ZeroIsABound) {
    const std::string text = "layout=BNSD dtype=fp32 n=1 d=8 q=10 kv=10 mode=4 mask=compressed ";
    EXPECT_EQ(visible_counts(call_of(text + "pre=0 next=0")), Counts(10, 1));
    EXPECT_EQ(visible_counts(call_of(text + "pre=0 next=3")), (Counts{4, 4, 4, 4, 4, 4, 4, 3, 2, 1}));
    EXPECT_EQ(visible_counts(call_of(text + "pre=3 next=0")), (Counts{1, 2, 3, 4, 4, 4, 4, 4, 4, 4}));
}

// FA-07: a right bound beyond the last key must not be cut before it is moved to the bottom right corner.
TEST(Window, FA_07_BoundsBeyondTheLastKey) {
    const std::string text = "layout=BNSD dtype=fp32 n=1 d=16 q=12 kv=5 mode=4 mask=compressed";
    const Call open = call_of("layout=BNSD dtype=fp32 n=1 d=16 q=12 kv=5");
    const Outputs everything = expect_agrees(open);
    for (const int64_t next : {int64_t{5}, int64_t{6}, int64_t{7}, int64_t{10}, int64_t{11}, int64_t{12}, kNoLimit,
                               int64_t{9223372036854775807}}) {
        for (const char* pre : {"2147483647", "9223372036854775807"}) {
            const Call call = call_of(fmt::format("{} pre={} next={}", text, pre, next));
            Counts expected;
            for (int64_t i = 0; i < 12; i++) {
                expected.push_back(std::clamp<int64_t>(i - 7 + std::min<int64_t>(next, 100) + 1, 0, 5));
            }
            EXPECT_EQ(visible_counts(call), expected) << "next " << next;
            const Outputs outputs = expect_agrees(call);
            EXPECT_EQ(outputs == everything, next >= 11) << "next " << next;
        }
    }
}

// CPU-13: a window to both sides that was ignored.
TEST(Window, CPU_13_TwoSidedWindowIsNotIgnored) {
    const Call call = call_of("layout=BSND dtype=fp32 n=2 d=64 q=150 kv=150 mode=4 pre=64 next=64 mask=compressed");
    Call open = call;
    open.arguments.atten_mask.reset();
    EXPECT_FALSE(outputs_of(call) == outputs_of(open));
    Counts expected;
    for (int64_t n = 0; n < 2; n++) {
        for (int64_t i = 0; i < 150; i++) {
            expected.push_back(std::min<int64_t>(149, i + 64) - std::max<int64_t>(0, i - 64) + 1);
        }
    }
    EXPECT_EQ(visible_counts(call), expected);
    expect_only_visible_keys_count(call, 7);
}

// PT-01, ASC-11: a window whose first key blocks are hidden from late rows, said in four ways. With -inf as the
// running maximum of such a block, rows became NaN.
TEST(Window, PT_01_ASC_11_FourWaysToSayAWindow) {
    const Call band = call_of("layout=BNSD dtype=fp32 n=1 d=4 q=640 kv=640 mode=4 pre=9 next=0 mask=compressed");
    expect_agrees(band);
    auto outside = [](int64_t, int64_t, int64_t i, int64_t j) { return j > i || j < i - 9; };
    Call mask = band;
    mask.description.mode = mask.arguments.sparse_mode = 1;
    mask.description.mask = MaskShape::kPlain;
    set_mask(mask, {640, 640}, outside);
    const Outputs by_mask = expect_agrees(mask);
    mask.description.byte_mask = true;
    EXPECT_TRUE(expect_agrees(mask) == by_mask) << "BOOL and UINT8 differ";
    Call bias = call_of("layout=BNSD dtype=fp32 n=1 d=4 q=640 kv=640");
    set_bias(bias, 0, {1, 1, 640, 640}, [&](int64_t b, int64_t n, int64_t i, int64_t j) {
        return outside(b, n, i, j) ? -std::numeric_limits<double>::infinity() : 0.0;
    });
    expect_agrees(bias);
    // The causal padding mask of the second report: rows from 100 on see the same keys.
    Call padded = call_of("layout=BNSD dtype=fp32 n=8 d=64 q=128 kv=128 mode=1 mask=11 scale=0.08838834764831845");
    auto hidden = [](int64_t, int64_t, int64_t i, int64_t j) { return j > i || j >= 100; };
    set_mask(padded, {1, 1, 128, 128}, hidden);
    expect_agrees(padded);
    padded.arguments.atten_mask.reset();
    set_bias(padded, 0, {1, 8, 128, 128}, [&](int64_t b, int64_t n, int64_t i, int64_t j) {
        return hidden(b, n, i, j) ? -std::numeric_limits<double>::infinity() : 0.0;
    });
    expect_agrees(padded);
}

// ASC-47: compressed masks stand for a pattern. Nobody builds or reads them.
TEST(Window, ASC_47_TheContentOfACompressedMaskIsNotRead) {
    for (const char* text : {"mode=2 mask=compressed", "mode=3 mask=compressed",
                             "mode=4 pre=30 next=10 mask=compressed", "mode=6 prefix=80 mask=compressed"}) {
        const std::string common = "layout=BSND dtype=bf16 n=2 d=128 q=100 kv=130 ";
        const Outputs canonical = outputs_of(call_of(common + text));
        EXPECT_TRUE(outputs_of(call_of(common + text + ":random")) == canonical) << text;
    }
}

// VARLEN-14: packed documents must not see each other.
TEST(Window, VARLEN_14_SequencesDoNotInfluenceEachOther) {
    expect_only_visible_keys_count(call_of("layout=TND dtype=fp32 n=1 d=8 q=3,2,4 kv=3,2,4 mode=3 mask=compressed"), 9);
    expect_only_visible_keys_count(call_of("layout=TND dtype=fp32 n=2/1 d=8 q=3,70,4 kv=90,2,40"), 13);
    expect_only_visible_keys_count(call_of("layout=TND dtype=bf16 n=2 d=8 q=3,2,4 kv=9,9,9 mode=0 mask=total:random"),
                                   27);
}

}  // namespace
}  // namespace flash_attention::testing
