// Bias, prefix, dropout, sink and the order of statistics; and that no argument is taken and forgotten.
#include <algorithm>
#include <cmath>

#include "opbase/parallel.h"
#include "reported.h"

namespace flash_attention::testing {
namespace {

// The published slopes of ALiBi, also for head counts that are no power of two: those of the next smaller power, then
// every second one of its double.
double alibi_slope(int64_t heads, int64_t head) {
    int64_t power = 1;
    while (2 * power <= heads) power *= 2;
    const double exponent = head < power ? static_cast<double>(head + 1) / static_cast<double>(power)
                                         : static_cast<double>(2 * (head - power) + 1) / static_cast<double>(2 * power);
    return std::exp2(-8 * exponent);
}

// ALIBI-05: a bias that never reached the scores.
TEST(Alibi, ALIBI_05_FortyHeads) {
    const Call without = call_of("layout=BNSD dtype=fp16 b=2 n=40 d=128 q=33 kv=33 mode=2 mask=compressed");
    const Outputs plain = outputs_of(without);
    Outputs of_type[2];
    for (const int64_t type : {0, 1}) {
        Call call = without;
        set_bias(call, type, {1, 40, 33, 33}, [](int64_t, int64_t n, int64_t i, int64_t j) {
            return alibi_slope(40, n) * static_cast<double>(j - i);
        });
        of_type[type] = expect_agrees(call);
        EXPECT_FALSE(of_type[type] == plain) << "the bias has no effect";
    }
    EXPECT_FALSE(of_type[0] == of_type[1]) << "the type has no effect";
}

// FA-16: the last row of a whole matrix, and that row alone with a bias of one row.
TEST(Alibi, FA_16_ARowAloneIsTheRowOfTheMatrix) {
    constexpr int64_t kKeys = 37, kHeads = 8, kDim = 64;
    auto bias = [](int64_t i, int64_t n, int64_t j) { return -alibi_slope(kHeads, n) * static_cast<double>(i - j); };
    Call whole = call_of("layout=BNSD dtype=fp32 n=8 d=64 q=37 kv=37 mode=3 mask=compressed");
    set_bias(whole, 0, {1, kHeads, kKeys, kKeys},
             [&](int64_t, int64_t n, int64_t i, int64_t j) { return bias(i, n, j); });
    const std::vector<double> all = numbers(whole, expect_agrees(whole));
    Call last = call_of("layout=BNSD dtype=fp32 n=8 d=64 q=1 kv=37");
    last.arguments.key = whole.arguments.key;
    last.arguments.value = whole.arguments.value;
    for (int64_t n = 0; n < kHeads; n++) {
        std::copy_n(whole.arguments.query.values.begin() + (n * kKeys + kKeys - 1) * kDim, kDim,
                    last.arguments.query.values.begin() + n * kDim);
    }
    set_bias(last, 0, {1, kHeads, 1, kKeys}, [&](int64_t, int64_t n, int64_t, int64_t j) { return bias(36, n, j); });
    const std::vector<double> row = numbers(last, expect_agrees(last));
    const reference::ScoreResult expected = reference::score(last.arguments);
    for (int64_t at = 0; at < kHeads * kDim; at++) {
        const int64_t n = at / kDim;
        // Each may be off by its bound.
        const double bound =
            2 * bound_of(Quantity::kOut, DType::kFp32, expected.rows[n], expected.attention_out.values[at]);
        EXPECT_NEAR(row[at], all[(n * kKeys + kKeys - 1) * kDim + at % kDim], bound);
    }
    // The one row counts for all rows of a longer query.
    Call longer = call_of("layout=BNSD dtype=fp32 n=8 d=64 q=5 kv=37");
    longer.arguments.real_shift = last.arguments.real_shift;
    longer.arguments.pse_type = 0;
    expect_agrees(longer);
}

// The heads [begin, end) of a BNSD call of one batch entry.
reference::Tensor heads_of(const reference::Tensor& tensor, int64_t begin, int64_t end) {
    const int64_t head = tensor.shape[2] * tensor.shape[3];
    return {{1, end - begin, tensor.shape[2], tensor.shape[3]},
            std::vector<double>(tensor.values.begin() + begin * head, tensor.values.begin() + end * head)};
}

// FA-18: slopes belong to the heads that they are given for; nobody derives them from the number of heads.
TEST(Alibi, FA_18_HalfOfTheHeads) {
    for (const int64_t type : {2, 3}) {
        Call eight = call_of("layout=BNSD dtype=fp32 n=8 d=16 q=16 kv=16 mode=2 mask=compressed");
        Call four = call_of("layout=BNSD dtype=fp32 n=4 d=16 q=16 kv=16 mode=2 mask=compressed");
        reference::Tensor slopes{{8}, {}};
        for (int64_t n = 0; n < 8; n++) slopes.values.push_back(alibi_slope(8, n));
        eight.arguments.pse_type = four.arguments.pse_type = type;
        four.arguments.query = heads_of(eight.arguments.query, 4, 8);
        four.arguments.key = heads_of(eight.arguments.key, 4, 8);
        four.arguments.value = heads_of(eight.arguments.value, 4, 8);
        four.arguments.real_shift =
            reference::Tensor{{1, 4}, std::vector<double>(slopes.values.begin() + 4, slopes.values.end())};
        eight.arguments.real_shift = std::move(slopes);
        const Outputs all = expect_agrees(eight), half = expect_agrees(four);
        EXPECT_TRUE(
            std::equal(half.out.begin(), half.out.end(), all.out.begin() + static_cast<int64_t>(all.out.size()) / 2));
        EXPECT_TRUE(
            std::equal(half.sum.begin(), half.sum.end(), all.sum.begin() + static_cast<int64_t>(all.sum.size()) / 2));
    }
}

// PT-26: a bias of up to +1024 on visible keys, with a mask and a length that is no multiple of any block: the maximum
// has to include the bias.
TEST(Bias, PT_26_LargeBiasAndMask) {
    for (const char* dtype : {"bf16", "fp16", "fp32"}) {
        for (const int64_t type : {0, 1}) {
            const int64_t length = reduced(1025, 257);
            const std::string sizes = " q=" + std::to_string(length) + " kv=" + std::to_string(length);
            Call call = call_of("layout=BNSD n=1 d=64 mode=2 mask=compressed dtype=" + (dtype + sizes));
            const double unscale = type == 1 ? 8 : 1;  // 1 / scale
            set_bias(call, type, {1, 1, length, length},
                     [&](int64_t, int64_t, int64_t i, int64_t j) { return static_cast<double>(i - j) * unscale; });
            expect_agrees(call);
        }
    }
}

// ASC-09: what is an additive mask elsewhere (0 keeps, -10000 drops) is a bias here. (As attenMaskOptional a tensor of
// floats is refused.)
TEST(Bias, ASC_09_AdditiveMask) {
    for (const char* dtype : {"bf16", "fp16", "fp32"}) {
        Call call = call_of(std::string("layout=BNSD n=4 d=32 q=8 kv=4 dtype=") + dtype);
        for (const int64_t type : {0, 1}) {
            set_bias(call, type, {1, 4, 1, 4},
                     [](int64_t, int64_t, int64_t, int64_t j) { return j < 2 ? 0.0 : -10000.0; });
            expect_agrees(call);
            EXPECT_EQ(visible_counts(call), std::vector<int64_t>(32, 2)) << "keys 2 and 3 have weight";
        }
    }
}

// PREFIX-02: the first key behind the prefix is not in it.
TEST(Prefix, PREFIX_02_BothForms) {
    constexpr int64_t kPrefix[] = {0, 6, 10};
    Call explicit_mask = call_of("layout=BNSD dtype=fp32 b=3 n=1 d=8 q=10 kv=10 mode=5 prefix=0,6,10 mask=b1");
    set_mask(explicit_mask, {3, 1, 10, 10},
             [&](int64_t b, int64_t, int64_t i, int64_t j) { return j > i && j >= kPrefix[b]; });
    const Call compressed =
        call_of("layout=BNSD dtype=fp32 b=3 n=1 d=8 q=10 kv=10 mode=6 prefix=0,6,10 mask=compressed");
    std::vector<int64_t> expected;
    for (const int64_t prefix : kPrefix) {
        for (int64_t i = 0; i < 10; i++) expected.push_back(std::max(i + 1, prefix));
    }
    EXPECT_EQ(visible_counts(explicit_mask), expected);
    EXPECT_EQ(visible_counts(compressed), expected);
    expect_agrees(explicit_mask);
    expect_agrees(compressed);
    expect_only_visible_keys_count(compressed, 30);
    // Fewer queries than keys, and more.
    EXPECT_EQ(visible_counts(call_of("layout=BNSD n=1 d=8 q=4 kv=6 mode=6 prefix=4 mask=compressed")),
              (std::vector<int64_t>{4, 4, 5, 6}));
    EXPECT_EQ(visible_counts(call_of("layout=BNSD n=1 d=8 q=6 kv=4 mode=6 prefix=2 mask=compressed")),
              (std::vector<int64_t>{2, 2, 2, 2, 3, 4}));
}

// FA-33: a sink of each size; zero alone would hide that it is missing.
TEST(Sink, FA_33_SinksOfAllSizes) {
    Call call = call_of("layout=BNSD dtype=fp32 n=4/2 d=16 q=5 kv=9 mode=4 pre=1 next=0 mask=compressed");
    const Outputs without = outputs_of(call);
    call.arguments.sink = {-2, 0, 3, 30};
    const Outputs with = expect_agrees(call);
    for (int64_t row = 0; row < 20; row++) {
        EXPECT_NE(with.sum[row * 8], without.sum[row * 8]) << "row " << row;
        EXPECT_NE(with.out[row * 16], without.out[row * 16]) << "row " << row;
    }
    // Rows without keys: the sink is all there is.
    call = call_of("layout=BNSD dtype=fp32 n=4/2 d=16 q=9 kv=5 mode=3 mask=compressed");
    call.arguments.sink = {-2, 0, 3, 30};
    const Outputs outputs = expect_agrees(call);
    for (int64_t n = 0; n < 4; n++) {
        EXPECT_EQ(outputs.max[n * 9 * 8], to_bits(DType::kFp32, call.arguments.sink[n]));
        EXPECT_EQ(outputs.sum[n * 9 * 8], to_bits(DType::kFp32, 1));
        EXPECT_EQ(outputs.out[n * 9 * 16], 0U);
    }
}

// FA-22: with values that are the identity matrix the output is the matrix of weights, from which the dropout mask can
// be read: the bits are those that were given, for any number of threads and blocks.
TEST(Dropout, FA_22_TheMaskCanBeReadOff) {
    for (const int64_t keys : {64, 61}) {
        Call call = call_of("layout=BSND dtype=fp32 n=2/1 d=64 q=130 keep=0.5 drop=exact kv=" + std::to_string(keys));
        set_values(call, call.arguments.value, [](int64_t at) { return at / 64 == at % 64 ? 1.0 : 0.0; });
        const Outputs dropped = expect_agrees(call);
        Call plain = call;
        plain.arguments.drop_mask.reset();
        const std::vector<double> weights = numbers(plain, expect_agrees(plain)), out = numbers(call, dropped);
        const std::vector<uint8_t>& bits = *call.arguments.drop_mask;
        int64_t kept = 0;
        for (int64_t bit = 0; bit < 2 * 130 * keys; bit++) {
            const int64_t n = bit / (130 * keys), i = bit / keys % 130, j = bit % keys;
            const int64_t at = (i * 2 + n) * 64 + j;
            const bool keep = (bits[bit / 8] >> (bit % 8)) & 1;
            kept += keep ? 1 : 0;
            // Weights are at most 1, and each result is within 2^-24 * (40 + 4 A) of the right one; A is below 15.
            ASSERT_NEAR(out[at], keep ? 2 * weights[at] : 0.0, keep ? 3 * 100 * 0x1p-24 : 0.0) << "bit " << bit;
            ASSERT_GT(weights[at], 0) << "nothing could be read here";
        }
        EXPECT_GT(kept, 100);
        EXPECT_LT(kept, 2 * 130 * keys - 100);
        for (const int threads : {1, 8}) {
            opbase::set_thread_count(threads);
            EXPECT_TRUE(outputs_of(call) == dropped) << threads << " threads";
        }
        opbase::set_thread_count(0);
    }
}

// FA-25: [T, N, 8] in both orders, the same numbers at other places.
TEST(Statistics, FA_25_TwoOrders) {
    const std::string text = "layout=TND dtype=fp16 n=4 d=32 q=1,1,1,512 kv=1,1,1,512";
    const Call call = call_of(text);
    const Outputs blocks = outputs_of(call), tokens = outputs_of(call_of(text + " stats=same_as_input"));
    ASSERT_EQ(blocks.sum.size(), size_t{515 * 4 * 8});
    EXPECT_TRUE(blocks.out == tokens.out);
    for (const reference::Sequence& s : reference::sequences_of(call.arguments)) {
        for (int64_t n = 0; n < 4; n++) {
            for (int64_t i = 0; i < s.q_len; i++) {
                const int64_t in_block = (s.q_begin * 4 + n * s.q_len + i) * 8,
                              of_token = ((s.q_begin + i) * 4 + n) * 8;
                ASSERT_EQ(blocks.max[in_block], tokens.max[of_token]);
                ASSERT_EQ(blocks.sum[in_block], tokens.sum[of_token]);
            }
        }
    }
}

// SOFT-03: an argument that is accepted, stored and never used. Each of them changes the results of some call.
TEST(Arguments, SOFT_03_EachHasAnEffect) {
    struct Change {
        const char* argument;
        const char* call;
        std::function<void(reference::ScoreArguments&)> make;
    };
    const char* banded = "layout=BSND n=2/1 d=16 q=20 kv=30 mode=4 pre=5 next=3 mask=compressed";
    const char* windowed = "layout=BSND n=2/1 d=16 q=20 kv=30 mode=0 pre=5 next=13 mask=2d:nothing";
    const char* prefixed = "layout=BSND n=2/1 d=16 q=20 kv=30 mode=6 prefix=20 mask=compressed";
    const char* biased = "layout=BSND n=2/1 d=16 q=20 kv=20 pse=1:full";
    const char* sloped = "layout=BSND n=2/1 d=16 q=20 kv=20 pse=2:slopes q_start=3 kv_start=1";
    const char* dropped = "layout=BSND n=2/1 d=16 q=20 kv=20 keep=0.5 drop=exact";
    const char* sunk = "layout=BSND n=2/1 d=16 q=20 kv=20 sink=normal";
    const char* packed = "layout=TND n=2/1 d=16 q=9,11 kv=12,18";
    const char* split = "layout=TND n=2/1 d=16 q=9,11 kv=12,18 mode=7 pre=40 next=0 mask=compressed";
    const char* roped = "layout=TND dtype=bf16 n=2/1 d=16 rope=8 q=9 kv=12 mode=3 mask=compressed";
    using Arguments = reference::ScoreArguments;
    const std::vector<Change> changes = {
        {"query", packed, [](Arguments& a) { a.query.values[3] += 1; }},
        {"key", packed, [](Arguments& a) { a.key.values[3] += 1; }},
        {"value", packed, [](Arguments& a) { a.value.values[3] += 1; }},
        {"scaleValue", packed, [](Arguments& a) { a.scale_value *= 1.5; }},
        {"actualSeqQLen", packed,
         [](Arguments& a) {
             a.actual_seq_qlen = {10, 20};
         }},
        {"actualSeqKvLen", packed,
         [](Arguments& a) {
             a.actual_seq_kvlen = {13, 30};
         }},
        {"softmaxOutLayout", packed, [](Arguments& a) { a.softmax_out_layout = "same_as_input"; }},
        {"preTokens, mode 4", banded, [](Arguments& a) { a.pre_tokens = 6; }},
        {"nextTokens, mode 4", banded, [](Arguments& a) { a.next_tokens = 4; }},
        {"preTokens, mode 0", windowed, [](Arguments& a) { a.pre_tokens = 6; }},
        {"nextTokens, mode 0", windowed, [](Arguments& a) { a.next_tokens = 12; }},
        {"nextTokens, mode 7", split, [](Arguments& a) { a.next_tokens = -2; }},
        {"sparseMode", banded, [](Arguments& a) { a.sparse_mode = 2; }},
        {"attenMask", windowed, [](Arguments& a) { a.atten_mask->values[0] = 1; }},
        {"no attenMask", banded, [](Arguments& a) { a.atten_mask.reset(); }},
        {"prefix", prefixed, [](Arguments& a) { a.prefix = {21}; }},
        {"realShift", biased, [](Arguments& a) { a.real_shift->values[7] += 1; }},
        {"pseType", biased, [](Arguments& a) { a.pse_type = 0; }},
        {"slopes", sloped, [](Arguments& a) { a.real_shift->values[1] *= 2; }},
        {"pseType of slopes", sloped, [](Arguments& a) { a.pse_type = 3; }},
        {"qStartIdx", sloped, [](Arguments& a) { a.q_start_idx = {4}; }},
        {"kvStartIdx", sloped, [](Arguments& a) { a.kv_start_idx = {2}; }},
        {"dropMask", dropped, [](Arguments& a) { a.drop_mask->at(3) ^= 0x10; }},
        {"keepProb", dropped, [](Arguments& a) { a.keep_prob = 0.25; }},
        {"sink", sunk, [](Arguments& a) { a.sink[1] += 1; }},
        {"queryRope", roped, [](Arguments& a) { a.query_rope->values[3] += 1; }},
        {"keyRope", roped, [](Arguments& a) { a.key_rope->values[3] += 1; }},
    };
    for (const Change& change : changes) {
        const Call call = call_of(change.call);
        Call changed = call;
        change.make(changed.arguments);
        EXPECT_FALSE(expect_agrees(changed) == expect_agrees(call)) << change.argument << " has no effect";
    }
    // headNum says where heads begin in layouts with H.
    const Call two = call_of("layout=BSH n=2 d=16 q=5 kv=7");
    Call four = call_of("layout=BSH n=4 d=8 q=5 kv=7 scale=0.25");
    four.arguments.query = two.arguments.query;
    four.arguments.key = two.arguments.key;
    four.arguments.value = two.arguments.value;
    EXPECT_FALSE(expect_agrees(four).out == expect_agrees(two).out) << "headNum has no effect";
}

}  // namespace
}  // namespace flash_attention::testing
