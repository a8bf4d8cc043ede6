// Precision, long sequences, memory, and the judge itself.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "opbase/parallel.h"
#include "reported.h"

namespace flash_attention::testing {
namespace {

// The first and the last rows, those around the powers of two, and some of the others.
std::vector<int64_t> rows_to_look_at(int64_t length) {
    std::vector<int64_t> rows = {0, 1, length - 2, length - 1};
    for (int64_t power = 64; power < length; power *= 2) rows.insert(rows.end(), {power - 1, power});
    std::mt19937_64 random(7);
    for (int i = 0; i < 20; i++) rows.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(length)));
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    return rows;
}

// Runs a long BNSD call and compares some of its rows with the reference.
void expect_sampled_rows_agree(const std::string& text) {
    const Call call = call_of(text);
    const std::vector<int64_t> rows = rows_to_look_at(call.description.q[0]);
    const Call part = sampled(call, rows);
    const Outputs outputs = sampled(call, outputs_of(call), rows);
    EXPECT_EQ(lines(judge(part, reference::score(part.arguments), outputs)), "") << text;
}

// PT-16: offsets of 16 bits wrap behind row 65535.
TEST(Long, PT_16_BeyondRow65536) {
    const std::string common = "layout=BNSD dtype=bf16 n=1 q=65537 kv=65537 mask=compressed ";
    expect_sampled_rows_agree(common + "d=64 mode=4 next=0 pre=" + reduced("4095", "31"));
    if (!reduced_tests()) expect_sampled_rows_agree(common + "d=16 mode=2");
}

// MLA-04: groups of heads with D above 256, and D != Dv, must not take a path of another kind.
TEST(Long, MLA_04_WideHeads) {
    const char* length = reduced("q=4096 kv=4096", "q=600 kv=600");
    expect_sampled_rows_agree(std::string("layout=BNSD dtype=bf16 n=2/1 d=512 mode=3 mask=compressed ") + length);
    expect_sampled_rows_agree(std::string("layout=BNSD dtype=bf16 n=2/1 d=320 dv=192 mode=3 mask=compressed ") +
                              length);
}

// CPU-07: the same for sinks and 16-bit types.
TEST(Long, CPU_07_SinkAndHalfPrecision) {
    const char* length = reduced("q=4096 kv=4096", "q=600 kv=600");
    expect_sampled_rows_agree(std::string("layout=BNSD dtype=fp16 n=4/1 d=64 mode=3 mask=compressed sink=normal ") +
                              length);
}

uint64_t workspace_of(const std::string& text) {
    PreparedCall prepared(call_of(text));
    EXPECT_EQ(prepared.phase_one(), 0) << text;
    return prepared.workspace_size();
}

// CPU-07, MLA-03, MLA-04: memory is linear in the length, whatever a call asks for; what phase two uses is the
// workspace and nothing else, which every run of these tests checks. Twice the length must not need more than twice the
// workspace, and no call may need as much as one matrix of scores. (Two threads, since each has its own part.)
TEST(Memory, CPU_07_MLA_03_MLA_04_LinearInTheLength) {
    opbase::set_thread_count(2);
    for (const char* text : {
             "layout=BNSD dtype=fp16 n=4/1 d=64 mode=3 mask=compressed sink=normal q={0} kv={0}",
             "layout=BNSD dtype=bf16 n=2/1 d=512 mode=3 mask=compressed q={0} kv={0}",
             "layout=BNSD dtype=bf16 n=2/1 d=320 dv=192 mode=3 mask=compressed q={0} kv={0}",
             "layout=TND dtype=bf16 n=2 d=192 dv=128 mode=3 mask=compressed q={0},3 kv={0},7",
             "layout=TND dtype=bf16 n=2 d=128 rope=64 mode=3 mask=compressed q={0} kv={0}",
             "layout=BSND dtype=fp32 n=2 d=64 pse=2:slopes q={0} kv={0}",
             "layout=BSND dtype=fp32 n=2 d=64 drop=exact keep=0.5 q={0} kv={0}",
             "layout=BNSD dtype=fp16 n=2 d=64 q=1 kv={0}",
         }) {
        const uint64_t half = workspace_of(fmt::format(fmt::runtime(text), 1024));
        const uint64_t whole = workspace_of(fmt::format(fmt::runtime(text), 2048));
        EXPECT_LE(whole, 2 * half) << text;
        EXPECT_LT(whole, uint64_t{2048} * 2048 * 4) << text;
    }
    opbase::set_thread_count(0);
}

// ASC-38: a number of tokens beyond the documented limit of other systems. There is no such limit here, and none of the
// sizes wraps.
TEST(Long, ASC_38_MoreThanAMillionTokens) {
    const int64_t tokens = reduced(1000001, 140001);
    const Call call = call_of(fmt::format(
        "layout=TND dtype=fp16 n=1 d=16 q={0} kv={0} mode=4 pre=3 next=0 mask=compressed values=positive", tokens));
    const Outputs outputs = outputs_of(call);
    // The rows of [T, 1, D] lie like those of [1, 1, S, D].
    Call dense = call;
    dense.description.layout = dense.arguments.input_layout = "BNSD";
    dense.arguments.query.shape = dense.arguments.key.shape = dense.arguments.value.shape = {1, 1, tokens, 16};
    const std::vector<int64_t> rows = rows_to_look_at(tokens);
    const Call part = sampled(dense, rows);
    EXPECT_EQ(lines(judge(part, reference::score(part.arguments), sampled(dense, outputs, rows))), "");
}

// CPU-23: a flat softmax over many values of one sign, which sums in 16 bits get wrong: the bound hardly grows with the
// number of keys. Values near the end of fp16 must not become infinite on the way to their mean.
TEST(Precision, CPU_23_FlatSoftmaxOverManyValues) {
    for (const int64_t keys : {int64_t{512}, int64_t{4096}, reduced<int64_t>(32768, 8200)}) {
        for (const char* dtype : {"fp16", "bf16", "fp32"}) {
            Call call = call_of(fmt::format("layout=BNSD n=2/1 d=128 q=1 kv={} dtype={}", keys, dtype));
            reference::ScoreArguments& a = call.arguments;
            set_values(call, a.query, [&](int64_t at) { return a.query.values[at] * 0.01; });
            set_values(call, a.value, [&](int64_t at) { return a.value.values[at] + 5; });
            expect_agrees(call);
            if (call.description.dtype != DType::kFp16) continue;
            set_values(call, a.value, [](int64_t at) { return 59000.0 + static_cast<double>(at % 7) * 160; });
            for (const double out : numbers(call, expect_agrees(call))) ASSERT_TRUE(std::isfinite(out));
        }
    }
}

// FA-03: one token in one of four sequences: the output is its value.
TEST(Precision, FA_03_OneTokenInTotal) {
    for (const char* dtype : {"bf16", "fp16", "fp32"}) {
        const Call call =
            call_of(std::string("layout=TND n=21/7 d=120 scale=10.954 q=0,0,0,1 kv=0,0,0,1 dtype=") + dtype);
        const Outputs outputs = expect_agrees(call);
        for (int64_t at = 0; at < 21 * 120; at++) {
            const int64_t n = at / 120;
            ASSERT_EQ(outputs.out[at],
                      to_bits(call.description.dtype, call.arguments.value.values[n / 3 * 120 + at % 120]));
        }
    }
}

// ASC-02: the softmax was not applied, so that the output was the mean of the values.
TEST(Precision, ASC_02_NotTheMeanOfTheValues) {
    const Call call = call_of("layout=TND dtype=fp16 n=16 d=80 q=64,128 kv=64,128");
    const std::vector<double> out = numbers(call, expect_agrees(call));
    for (const reference::Sequence& s : reference::sequences_of(call.arguments)) {
        for (int64_t column = 0; column < 16 * 80; column++) {
            double mean = 0;
            for (int64_t j = 0; j < s.kv_len; j++) {
                mean +=
                    call.arguments.value.values[(s.kv_begin + j) * 16 * 80 + column] / static_cast<double>(s.kv_len);
            }
            double furthest = 0;
            for (int64_t i = 0; i < s.q_len; i++) {
                furthest = std::max(furthest, std::fabs(out[(s.q_begin + i) * 16 * 80 + column] - mean));
            }
            ASSERT_GT(furthest, 0.1) << "sequence " << s.index << " column " << column;
        }
    }
}

// FA-32: no keys, in every mode: zeros, and no division by their number.
TEST(Sizes, FA_32_NoKeys) {
    for (const char* how : {"", "mode=2 mask=compressed", "mode=3 mask=compressed", "mode=4 mask=compressed",
                            "mode=6 prefix=0,0 mask=compressed", "sink=normal"}) {
        for (const char* dtype : {"bf16", "fp16", "fp32"}) {
            const Call call = call_of(fmt::format("layout=BSND b=2 n=4 d=64 q=16 kv=0 dtype={} {}", dtype, how));
            const Outputs outputs = expect_agrees(call);
            for (const std::vector<uint32_t>* bits : {&outputs.out, &outputs.max, &outputs.sum}) {
                EXPECT_TRUE(std::all_of(bits->begin(), bits->end(), [](uint32_t b) { return b == 0; })) << how;
            }
        }
    }
}

// PT-39: a comparison that took NaN for a match.
TEST(Judge, PT_39_NanMatchesNothingButNan) {
    const Call call = call_of("layout=BSND dtype=fp32 n=1 d=4 q=3 kv=5");
    Call with_nan = call;
    with_nan.arguments.value.values[2] = std::numeric_limits<double>::quiet_NaN();  // column 2 of every row
    const reference::ScoreResult expected = reference::score(call.arguments),
                                 expected_nan = reference::score(with_nan.arguments);
    const Outputs right = outputs_of(call), right_nan = outputs_of(with_nan);
    EXPECT_TRUE(judge(call, expected, right).empty());
    EXPECT_TRUE(judge(with_nan, expected_nan, right_nan).empty());
    EXPECT_FALSE(judge(call, expected, right_nan).empty()) << "a NaN in the result only";
    EXPECT_FALSE(judge(with_nan, expected_nan, right).empty()) << "a NaN in the reference only";
    for (const double wrong : {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
        Outputs infinite = right;
        infinite.out[5] = to_bits(DType::kFp32, wrong);
        EXPECT_FALSE(judge(call, expected, infinite).empty());
        infinite = right;
        std::fill_n(infinite.sum.begin(), 8, to_bits(DType::kFp32, wrong));
        EXPECT_FALSE(judge(call, expected, infinite).empty());
    }
}

}  // namespace
}  // namespace flash_attention::testing
