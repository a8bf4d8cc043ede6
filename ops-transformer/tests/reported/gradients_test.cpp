// Situations of the backward pass: calls whose gradients are what the formulas give, and those that show one fault.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "opbase/parallel.h"
#include "reported.h"

namespace flash_attention::testing {
namespace {

BackwardCall backward_of(const std::string& text) {
    const Case c = parse_case("pass=backward " + text);
    EXPECT_EQ(why_illegal(c), "") << text;
    return make_backward_call(c);
}

class GradientsAgree : public ::testing::TestWithParam<Reported> {};

TEST_P(GradientsAgree, InEveryElement) {
    for (const std::string& text : GetParam().calls) {
        const Case c = parse_case("pass=backward " + text);
        EXPECT_EQ(why_illegal(c), "") << text;
        EXPECT_EQ(lines(check_backward_case(c)), "");
    }
}

std::vector<std::string> with_numbers(const std::string& text, const std::vector<int64_t>& numbers) {
    std::vector<std::string> texts;
    for (const int64_t number : numbers) texts.push_back(fmt::format(fmt::runtime(text), number));
    return texts;
}

std::vector<std::string> in_all_types(const std::vector<std::string>& texts) {
    std::vector<std::string> all;
    for (const std::string& text : texts) {
        for (const char* dtype : {"fp32", "fp16", "bf16"}) all.push_back(text + " dtype=" + dtype);
    }
    return all;
}

std::vector<std::string> head_dimensions() {
    std::vector<std::string> texts;
    for (const char* sizes :
         {"d=64", "d=72", "d=80", "d=96", "d=128", "d=192 dv=128", "d=192", "d=256", "d=512", "d=576 dv=512"}) {
        texts.push_back(fmt::format("layout=TND dtype=bf16 n=1 {} q=30,70 kv=30,70 mode=3 mask=compressed", sizes));
        for (const char* layout : {"BSH", "SBH", "BSND", "BNSD"})
            texts.push_back(
                fmt::format("layout={} dtype=bf16 b=2 n=2/1 {} q=9 kv=70 mode=3 mask=compressed", layout, sizes));
    }
    return texts;
}

const std::vector<Reported>& situations() {
    static const std::vector<Reported> all = {
        {"FA-14", with_numbers("layout=TND dtype=bf16 n=4 d=64 q=7,13 kv=30,15 mode={} mask=compressed", {2, 3})},
        // Group sizes 1, 2, 3, 4, 6 and 12, none of them the number of key heads.
        {"GRAD-08", with_numbers("layout=TND dtype=fp32 n=12/{} d=48 dv=32 q=10,27 kv=10,27 mode=3 mask=compressed",
                                 {12, 6, 4, 3, 2, 1})},
        {"ASC-30",
         {"layout=TND dtype=bf16 n=1 d=64 q=513,200,400,100,500,40,250,150 kv=513,200,400,100,500,40,250,150",
          "layout=TND dtype=bf16 n=1 d=96 q=562 kv=562"}},
        {"PT-33", {"layout=BNSD dtype=fp32 n=4 d=64 q=100 kv=100", "layout=BNSD dtype=fp32 n=8/2 d=64 q=100 kv=100"}},
        {"ASC-21", head_dimensions()},
        {"ASC-24", with_numbers("layout=BSND dtype=fp16 n=2/1 d={} q=64 kv=64",
                                {1, 3, 7, 8, 15, 17, 40, 59, 63, 72, 100, 129, 200, 201, 224, 250, 511})},
        {"MLA-03",
         {"layout=TND dtype=bf16 n=2 d=192 dv=128 q=50,100,1 kv=50,100,1 mode=3 mask=compressed",
          "layout=BSND dtype=bf16 n=2 d=192 dv=128 q=100 kv=100 mode=3 mask=compressed"}},
        {"FA-27",
         {"layout=BSND dtype=bf16 n=2 d=192 dv=128 q=200 kv=200 mode=3 mask=compressed",
          "layout=BSH dtype=bf16 n=2 d=192 dv=128 q=200 kv=200 mode=3 mask=compressed"}},
        {"PT-23", in_all_types({"layout=BNSD b=5 n=4 d=8 q=10 kv=10"})},
        // Gradients have the type of their input; statistics are always floats.
        {"RING-11", in_all_types({"layout=TND n=2/1 d=16 q=5,4 kv=5,4"})},
        {"CPU-13", {"layout=BSND dtype=fp32 n=2 d=64 q=512 kv=512 mode=4 pre=64 next=64 mask=compressed"}},
        {"FA-07", with_numbers("layout=BNSD dtype=fp32 n=1 d=16 q=12 kv=5 mode=4 next={} mask=compressed",
                               {5, 6, 7, 11, 12, 2147483647})},
        {"SINK-06",
         {"layout=TND dtype=bf16 n=16/2 d=64 q=128 kv=128 mode=4 pre=127 next=0 mask=compressed sink=large",
          "layout=TND dtype=bf16 n=16/2 d=64 q=70,1 kv=128,50 mode=4 pre=30 next=0 mask=compressed "
          "sink=normal"}},
        // Rows and keys that no sequence has: gradients there are zero, data there may be anything.
        {"ASC-16",
         {"layout=TND dtype=fp16 n=4 d=64 q=2,3 kv=2,3 slack=3/3 tail=1 mode=3 mask=compressed",
          "layout=TND dtype=fp16 n=4 d=64 q=2,3 kv=2,3 slack=3/3 tail=1 mode=3 mask=compressed "
          "values=hidden_nan",
          "layout=TND dtype=bf16 n=2/1 d=80 q=130,0,7 kv=140,3,9 slack=70/1 tail=2 values=hidden_nan"}},
        {"PT-36", {"layout=TND dtype=fp16 n=4 d=64 q=96,0,0,128,96,64,0,32 kv=96,0,0,128,96,64,0,32"}},
    };
    return all;
}

INSTANTIATE_TEST_SUITE_P(Reported, GradientsAgree, ::testing::ValuesIn(situations()), test_name);

bool all_zero(const std::vector<double>& values, int64_t begin, int64_t end) {
    return std::all_of(values.begin() + begin, values.begin() + end, [](double value) { return value == 0; });
}

// PT-07: `dy` with the strides of the output, expanded, transposed: right, and the same bits for the same numbers.
TEST(Strides, PT_07_OfTheGradientOfTheOutput) {
    const std::string text = "layout=BNSD b=2 n=2 d=32 q=49 kv=49 dtype=";
    for (const char* dtype : {"fp32", "fp16", "bf16"}) {
        const Gradients packed = gradients_of(backward_of(text + dtype));
        for (const char* view : {"offset", "padded", "swapped", "transposed", "every2"})
            EXPECT_TRUE(expect_agrees(backward_of(text + dtype + " strides=dy:" + view)) == packed) << view;
        for (const char* view : {"expand", "expand_last"})
            expect_agrees(backward_of(text + dtype + " strides=dy:" + view));
    }
}

// PT-01: a window as a mode, as a mask and as a bias of -infinity, with blocks of keys that late rows do not see.
TEST(Windows, PT_01_InThreeForms) {
    const std::string sizes = "layout=BNSD dtype=fp32 n=1 d=4 q=640 kv=640 ";
    expect_agrees(backward_of(sizes + "mode=4 pre=9 next=0 mask=compressed"));
    Call masked = call_of(sizes + "mode=1 mask=2d:nothing");
    set_mask(masked, {640, 640}, [](int64_t, int64_t, int64_t i, int64_t j) { return j > i || j < i - 9; });
    expect_agrees(make_backward_call(masked));
    Call biased = call_of(sizes + "pse=0:full");
    set_bias(biased, 0, {1, 1, 640, 640}, [](int64_t, int64_t, int64_t i, int64_t j) {
        return j > i || j < i - 9 ? -std::numeric_limits<double>::infinity() : 0.0;
    });
    expect_agrees(make_backward_call(biased));
}

// PT-26: a bias that reaches 1024 where keys are visible, and a mask; a length that is one more than a multiple of 128.
TEST(Bias, PT_26_LargeBiasAndMask) {
    const int64_t length = reduced(1025, 257);
    Call call = call_of(fmt::format("layout=BNSD dtype=bf16 n=1 d=64 mode=2 mask=compressed q={0} kv={0}", length));
    set_bias(call, 1, {1, 1, length, length},
             [](int64_t, int64_t, int64_t i, int64_t j) { return static_cast<double>(i - j) * 8; });  // 8 = 1 / scale
    expect_agrees(make_backward_call(call));
}

// PT-38: a row without keys has no weights, so its dy counts for nothing.
TEST(RowsWithoutKeys, PT_38_TheirGradientCountsForNothing) {
    Call forward = call_of("layout=BNSD dtype=fp32 n=1 d=4 q=4 kv=4 mode=1 mask=2d");
    set_mask(forward, {4, 4}, [](int64_t, int64_t, int64_t i, int64_t) { return i == 3; });
    BackwardCall call = make_backward_call(forward);
    std::vector<Gradients> results;
    for (const double dy : {0.0, 1.0, std::numeric_limits<double>::quiet_NaN()}) {
        std::fill(call.arguments.dy.values.begin() + 12, call.arguments.dy.values.end(), dy);
        results.push_back(expect_agrees(call));
        EXPECT_TRUE(all_zero(numbers(call, results.back(), kDq), 12, 16)) << dy;
        EXPECT_TRUE(results.back() == results.front()) << dy;
    }
}

// PT-05: a hidden key gets no gradient, and what it holds shows nowhere.
TEST(HiddenData, PT_05_AnyBits) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    for (const double poison : {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity, 1e10}) {
        Call forward = call_of("layout=BNSD dtype=fp32 n=1 d=4 q=2 kv=2 mode=1 mask=2d");
        set_mask(forward, {2, 2}, [](int64_t, int64_t, int64_t, int64_t j) { return j == 1; });
        const Gradients clean = gradients_of(make_backward_call(forward));
        std::fill_n(forward.arguments.key.values.begin() + 4, 4, poison);
        std::fill_n(forward.arguments.value.values.begin() + 4, 4, poison);
        const BackwardCall call = make_backward_call(forward);
        const Gradients gradients = expect_agrees(call);
        EXPECT_TRUE(gradients == clean) << poison;
        EXPECT_TRUE(all_zero(numbers(call, gradients, kDk), 4, 8)) << poison;
        EXPECT_TRUE(all_zero(numbers(call, gradients, kDv), 4, 8)) << poison;
    }
}

// FA-05: keys of a sequence without queries; its neighbours are right.
TEST(Sequences, FA_05_KeysWithoutQueries) {
    const BackwardCall call = backward_of("layout=TND dtype=fp32 n=2 d=32 q=150,0,150 kv=100,100,100");
    const Gradients gradients = expect_agrees(call);
    constexpr int64_t kWidth = 2 * 32;
    for (const Argument gradient : {kDk, kDv}) {
        const std::vector<double> values = numbers(call, gradients, gradient);
        EXPECT_TRUE(all_zero(values, 100 * kWidth, 200 * kWidth));
        EXPECT_FALSE(all_zero(values, 99 * kWidth, 100 * kWidth));
        EXPECT_FALSE(all_zero(values, 200 * kWidth, 201 * kWidth));
    }
}

// VARLEN-14: a token of one sequence moves no gradient of another.
TEST(Sequences, VARLEN_14_DoNotInfluenceEachOther) {
    const BackwardCall call = backward_of("layout=TND dtype=fp32 n=1 d=8 q=3,2,4 kv=3,2,4 mode=3 mask=compressed");
    const Gradients before = gradients_of(call);
    constexpr int64_t kFirst = 3 * 8, kLast = 5 * 8;  // elements of the second sequence
    for (const auto tensor :
         {&reference::ScoreArguments::query, &reference::ScoreArguments::key, &reference::ScoreArguments::value}) {
        BackwardCall changed = call;
        (changed.arguments.forward.*tensor).values[kFirst + 8] += 1;
        refresh_results(changed);
        const Gradients after = expect_agrees(changed);
        EXPECT_FALSE(after == before);
        for (const size_t gradient : {0, 1, 2}) {
            for (size_t at = 0; at < before[gradient].size(); at++) {
                const auto index = static_cast<int64_t>(at);
                if (index >= kFirst && index < kLast) continue;
                EXPECT_EQ(after[gradient][at], before[gradient][at]) << at;
            }
        }
    }
}

// FA-20: groups of heads and several sequences, the same bits in every run.
TEST(Determinism, FA_20_SameBitsInEveryRun) {
    const BackwardCall call = backward_of("layout=TND dtype=fp16 n=6/3 d=64 q=113,90,297 kv=203,97,400");
    const Gradients first = expect_agrees(call);
    for (int run = 1; run < reduced(20, 4); run++) EXPECT_TRUE(gradients_of(call) == first) << run;
}

// FA-22: with the identity for value and dy, forward gives the weights that dropout left, and dv their transpose: the
// two have zeros at the same places, for any number of threads.
TEST(Dropout, FA_22_BothPassesDropTheSame) {
    for (const char* dtype : {"fp32", "fp16", "bf16"}) {
        Call forward = call_of(std::string("layout=BNSD n=2 d=64 q=64 kv=64 keep=0.5 drop=from_seed drop_seed=1234 "
                                           "dtype=") +
                               dtype);
        const auto identity = [](int64_t at) { return at / 64 % 64 == at % 64 ? 1.0 : 0.0; };
        set_values(forward, forward.arguments.value, identity);
        BackwardCall call = make_backward_call(forward);
        set_values(forward, call.arguments.dy, identity);
        for (const int threads : {1, 8}) {
            opbase::set_thread_count(threads);
            const std::vector<double> weights = numbers(forward, expect_agrees(forward));
            const std::vector<double> dv = numbers(call, expect_agrees(call), kDv);
            int64_t kept = 0;
            for (int64_t at = 0; at < 2 * 64 * 64; at++) {
                const int64_t n = at / 4096, i = at / 64 % 64, j = at % 64;
                kept += weights[at] != 0;
                EXPECT_EQ(weights[at] != 0, dv[(n * 64 + j) * 64 + i] != 0) << n << " " << i << " " << j;
            }
            EXPECT_NEAR(static_cast<double>(kept), 4096, 5 * 45.3);  // five standard deviations of 8192 bits
        }
        opbase::set_thread_count(0);
    }
}

// FA-33: the gradient of a sink of each size, also where rows have no keys and the sink is all there is.
TEST(Sink, FA_33_SinksOfAllSizes) {
    for (const char* text : {"layout=BNSD dtype=fp32 n=4/2 d=16 q=5 kv=9 mode=4 pre=1 next=0 mask=compressed",
                             "layout=BNSD dtype=fp32 n=4/2 d=16 q=9 kv=5 mode=3 mask=compressed"}) {
        Call forward = call_of(text);
        forward.arguments.sink = {-2, 0, 3, 30};
        forward.description.sink = Sink::kNormal;
        const BackwardCall call = make_backward_call(forward);
        const std::vector<double> dsink = numbers(call, expect_agrees(call), kDsink);
        ASSERT_EQ(dsink.size(), 4U);
        for (int n = 0; n < 3; n++) EXPECT_NE(dsink[n], 0) << n;
    }
}

// ASC-43: a padded batch with a mask and the packed sequences have the same gradients; padding has none.
TEST(Shapes, ASC_43_PaddedBatchAndPackedSequences) {
    const int64_t lengths[] = {128, 100, 37, 1};
    constexpr int64_t kBatch = 4, kRows = 128, kWidth = 2 * 64;
    Call dense = call_of("layout=SBH dtype=bf16 b=4 n=2 d=64 q=128 kv=128 mode=1 mask=b1");
    set_mask(dense, {kBatch, 1, kRows, kRows},
             [&](int64_t b, int64_t, int64_t i, int64_t j) { return j > i || j >= lengths[b]; });
    Call packed = call_of("layout=TND dtype=bf16 n=2 d=64 q=128,100,37,1 kv=128,100,37,1 mode=3 mask=compressed");
    // From every element of a packed tensor to that of the padded one.
    std::vector<int64_t> place;
    for (int64_t b = 0; b < kBatch; b++) {
        for (int64_t at = 0; at < lengths[b] * kWidth; at++)
            place.push_back((at / kWidth * kBatch + b) * kWidth + at % kWidth);
    }
    const auto pack = [&](const reference::Tensor& from, reference::Tensor& to) {
        for (size_t at = 0; at < place.size(); at++) to.values[at] = from.values[place[at]];
    };
    pack(dense.arguments.query, packed.arguments.query);
    pack(dense.arguments.key, packed.arguments.key);
    pack(dense.arguments.value, packed.arguments.value);
    BackwardCall padded = make_backward_call(dense), alone = make_backward_call(packed);
    std::vector<double> dy(padded.arguments.dy.values.size(), 0.0);  // zero for padding
    for (const int64_t at : place) dy[at] = padded.arguments.dy.values[at];
    padded.arguments.dy.values = dy;
    pack(padded.arguments.dy, alone.arguments.dy);
    const Gradients of_padded = expect_agrees(padded), of_alone = expect_agrees(alone);
    // Each is within the bound of one reference.
    const reference::ScoreGradResult exact = reference::score_grad(alone.arguments);
    for (const Argument gradient : {kDq, kDk, kDv}) {
        std::vector<double> a = numbers(padded, of_padded, gradient);
        const std::vector<double> b = numbers(alone, of_alone, gradient);
        for (size_t at = 0; at < place.size(); at++) {
            const double bound =
                2 * gradient_bound(exact, gradient_of(exact, gradient), at, DType::kBf16, DType::kBf16);
            EXPECT_NEAR(a[place[at]], b[at], bound) << name_of(gradient) << " " << at;
            a[place[at]] = 0;
        }
        EXPECT_TRUE(all_zero(a, 0, static_cast<int64_t>(a.size()))) << name_of(gradient) << " of padding";
    }
}

}  // namespace
}  // namespace flash_attention::testing
