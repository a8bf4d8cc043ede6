// Bias, dropout, sink, rope parts and the order of statistics in the reference, against numbers worked out by hand.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <limits>
#include <numeric>

#include "reference/bias.h"
#include "reference/score.h"
#include "small_example.h"

namespace flash_attention::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A tensor whose elements are their own positions, so that a value tells where it was read.
Tensor numbered(std::vector<int64_t> shape) {
    int64_t elements = 1;
    for (const int64_t extent : shape) elements *= extent;
    Tensor t{std::move(shape), std::vector<double>(elements)};
    std::iota(t.values.begin(), t.values.end(), 0.0);
    return t;
}

ScoreArguments dense_shapes(int64_t batch, int64_t heads, int64_t q_len, int64_t kv_len) {
    ScoreArguments a;
    a.input_layout = "BNSD";
    a.head_num = heads;
    a.query.shape = {batch, heads, q_len, 1};
    a.key.shape = a.value.shape = {batch, heads, kv_len, 1};
    return a;
}

ScoreArguments packed_shapes(int64_t heads, std::vector<int64_t> q_totals, std::vector<int64_t> kv_totals) {
    ScoreArguments a;
    a.input_layout = "TND";
    a.head_num = heads;
    a.query.shape = {q_totals.back(), heads, 1};
    a.key.shape = a.value.shape = {kv_totals.back(), heads, 1};
    a.actual_seq_qlen = std::move(q_totals);
    a.actual_seq_kvlen = std::move(kv_totals);
    return a;
}

double bias_at(const ScoreArguments& a, int64_t sequence, int64_t head, int64_t i, int64_t j) {
    const std::vector<Sequence> sequences = sequences_of(a);
    return Bias(a, sequences, a.head_num).at(sequences.at(sequence), head, i, j);
}

TEST(ReferenceBias, BeforeOrAfterTheScale) {
    ScoreArguments a = small_example();
    a.real_shift = Tensor{{1, 1, 2, 3}, {0, -1, -2, -1, 0, -1}};
    const ScoreResult before = score(a);
    expect_near(before.attention_out.values, {1.120872, 0.800715, 0.575402, 0.790453});
    expect_near(before.softmax_max, {0.5, 1});
    expect_near(before.softmax_sum, {1.974410, 1.829661});
    // |scale| * (sum of |q * k| + |bias|): 0.5 * (1 + 0), 0.5 * (0 + 1), 0.5 * (2 + 2)
    EXPECT_DOUBLE_EQ(before.rows[0].conditioning, 2.0);
    EXPECT_DOUBLE_EQ(before.rows[1].conditioning, 1.5);
    a.pse_type = 0;
    const ScoreResult after = score(a);
    expect_near(after.attention_out.values, {1.000000, 0.462842, 0.424790, 0.845302});
    expect_near(after.softmax_max, {0.5, 1});
    expect_near(after.softmax_sum, {1.446260, 1.503215});
    EXPECT_DOUBLE_EQ(after.rows[0].conditioning, 3.0);  // 0.5 * 2 + 2
    EXPECT_DOUBLE_EQ(after.rows[1].conditioning, 2.0);  // 0.5 * 2 + 1
}

TEST(ReferenceBias, DenseShapes) {
    ScoreArguments a = dense_shapes(2, 3, 4, 5);
    a.real_shift = numbered({2, 3, 4, 5});
    EXPECT_EQ(bias_at(a, 1, 2, 3, 4), 119);
    EXPECT_EQ(bias_at(a, 1, 0, 2, 1), 60 + 2 * 5 + 1);
    a.real_shift = numbered({1, 3, 4, 5});
    EXPECT_EQ(bias_at(a, 1, 2, 1, 4), 2 * 20 + 1 * 5 + 4);
    a.real_shift = numbered({2, 3, 1, 5});
    EXPECT_EQ(bias_at(a, 1, 2, 3, 4), 29);
    EXPECT_EQ(bias_at(a, 1, 1, 0, 4), 15 + 5 + 4);
    a.real_shift = numbered({1, 3, 1, 5});
    EXPECT_EQ(bias_at(a, 1, 2, 3, 0), 10);
    // With 1024 rows the tensor is whole.
    a = dense_shapes(1, 1, 1024, 1030);
    a.real_shift = numbered({1, 1, 1024, 1030});
    EXPECT_EQ(bias_at(a, 0, 0, 3, 7), 3 * 1030 + 7);
}

TEST(ReferenceBias, LastRowsOfADenseMatrix) {
    constexpr int64_t kLength = 3000, kAbove = kLength - 1024;  // rows that are not stored
    ScoreArguments a = dense_shapes(2, 2, kLength, kLength);
    a.real_shift = numbered({2, 2, 1024, kLength});
    auto stored = [](int64_t matrix, int64_t row, int64_t column) {
        return static_cast<double>((matrix * 1024 + row) * kLength + column);
    };
    EXPECT_EQ(bias_at(a, 1, 1, kLength - 1, 17), stored(3, 1023, 17));
    EXPECT_EQ(bias_at(a, 0, 1, kAbove, 5), stored(1, 0, 5));
    EXPECT_EQ(bias_at(a, 0, 0, kAbove - 1, 0), stored(0, 951, 952));       // row 1975
    EXPECT_EQ(bias_at(a, 0, 0, 1500, 1400), stored(0, 476, 1400 + 952));   // 476 = 1500 mod 1024, 952 = 1976 - 1024
    EXPECT_EQ(bias_at(a, 0, 0, 500, 500), stored(0, 500, 500 + kAbove));   // rows below 1024 stay where they are
    EXPECT_EQ(bias_at(a, 0, 0, 1500, 2047), stored(0, 476, kLength - 1));  // the last one that exists
    EXPECT_TRUE(std::isnan(bias_at(a, 0, 0, 1500, 2048)));
    EXPECT_TRUE(std::isnan(bias_at(a, 0, 0, 0, kLength - 1)));
    a.real_shift = numbered({1, 2, 1024, kLength});
    EXPECT_EQ(bias_at(a, 1, 1, kAbove + 2, 5), stored(1, 2, 5));
    // What depends on the distance alone has the right value at every pair that causal masks show.
    a.real_shift->values.assign(2 * 1024 * kLength, 0.0);
    for (int64_t r = 0; r < 1024; r++) {
        for (int64_t j = 0; j < kLength; j++)
            a.real_shift->values[r * kLength + j] = static_cast<double>(kAbove + r - j);
    }
    const std::vector<Sequence> sequences = sequences_of(a);
    const Bias bias(a, sequences, 2);
    for (int64_t i = 0; i < kLength; i++) {
        for (int64_t j = 0; j <= i; j += 1 + j % 7) {
            ASSERT_EQ(bias.at(sequences[0], 0, i, j), static_cast<double>(i - j)) << i << " " << j;
        }
    }
}

TEST(ReferenceBias, LastRowsForPackedSequences) {
    // The matrix has 1024 rows although no sequence has; sequences end in its bottom right corner.
    ScoreArguments a = packed_shapes(2, {2, 5}, {2, 5});
    a.real_shift = numbered({2, 2, 1024, 3});
    EXPECT_EQ(bias_at(a, 0, 0, 0, 0), 1022 * 3 + 1);
    EXPECT_EQ(bias_at(a, 1, 1, 2, 2), 4 * 1024 * 3 - 1);
    EXPECT_EQ(bias_at(a, 1, 0, 0, 0), (2 * 1024 + 1021) * 3);
    a.real_shift = numbered({1, 2, 1024, 3});
    EXPECT_EQ(bias_at(a, 1, 1, 2, 2), 2 * 1024 * 3 - 1);
    // 1030 rows, the first six of which follow from stored ones.
    a = packed_shapes(1, {1030, 1034}, {1030, 1034});
    a.real_shift = numbered({1, 1, 1024, 1030});
    EXPECT_EQ(bias_at(a, 0, 0, 5, 3), 5 * 1030 + 9);
    EXPECT_EQ(bias_at(a, 0, 0, 7, 3), 1 * 1030 + 3);
    EXPECT_TRUE(std::isnan(bias_at(a, 0, 0, 5, 1024)));
    EXPECT_EQ(bias_at(a, 1, 0, 0, 1), 1020 * 1030 + 1027);
}

TEST(ReferenceBias, PackedMatricesAndRows) {
    // Blocks of 2*3, 0 and 1*4 pairs for each of two heads; one row: 3, 2 and 4 keys.
    ScoreArguments a = packed_shapes(2, {2, 2, 3}, {3, 5, 9});
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{20}, {20, 1}, {4, 5}, {1, 20}}) {
        a.real_shift = numbered({20});
        a.real_shift->shape = shape;
        EXPECT_EQ(bias_at(a, 0, 1, 1, 2), 11) << shape.size();
        EXPECT_EQ(bias_at(a, 2, 0, 0, 0), 12) << shape.size();
        EXPECT_EQ(bias_at(a, 2, 1, 0, 3), 19) << shape.size();
    }
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{18}, {18, 1, 1}, {1, 1, 1, 18}, {3, 6}}) {
        a.real_shift = numbered({18});
        a.real_shift->shape = shape;
        EXPECT_EQ(bias_at(a, 0, 1, 1, 2), 5) << shape.size();
        EXPECT_EQ(bias_at(a, 0, 1, 0, 2), 5) << shape.size();
        EXPECT_EQ(bias_at(a, 2, 0, 0, 0), 10) << shape.size();
        EXPECT_EQ(bias_at(a, 2, 1, 0, 3), 17) << shape.size();
    }
}

TEST(ReferenceBias, PackedFormsAreToldApartInOrder) {
    ScoreArguments a = packed_shapes(1, {2}, {3});  // one row: 3 elements; whole: 6
    a.real_shift = numbered({3, 2});
    EXPECT_EQ(bias_at(a, 0, 0, 1, 2), 2);  // the first dimension says one row
    a.real_shift = numbered({2, 3});
    EXPECT_EQ(bias_at(a, 0, 0, 1, 2), 5);  // the number of elements says whole
    // The first dimension decides before the shape does.
    a = packed_shapes(1, {1, 2}, {1, 2});
    a.real_shift = numbered({2, 1, 1024, 1});  // one row: 2 elements
    EXPECT_EQ(bias_at(a, 1, 0, 0, 0), 1);
    a = packed_shapes(1, {2, 2, 2, 2}, {2, 2, 2, 2});
    a.real_shift = numbered({4, 1, 1024, 2});  // whole: 4 elements
    EXPECT_EQ(bias_at(a, 0, 0, 1, 1), 3);
    // The shape decides before the number of elements does: here all three forms have 1024 elements.
    std::vector<int64_t> totals(1024);
    std::iota(totals.begin(), totals.end(), 1);
    a = packed_shapes(1, totals, totals);
    a.real_shift = numbered({1, 1, 1024, 1});
    EXPECT_EQ(bias_at(a, 5, 0, 0, 0), 1023);
}

TEST(ReferenceBias, Slopes) {
    ScoreArguments a = dense_shapes(1, 1, 4, 4);
    a.real_shift = Tensor{{1}, {0.5}};
    auto matrix = [&](int64_t type, std::vector<int64_t> q_start, std::vector<int64_t> kv_start) {
        a.pse_type = type;
        a.q_start_idx = std::move(q_start);
        a.kv_start_idx = std::move(kv_start);
        std::vector<double> values;
        for (int64_t i = 0; i < 4; i++) {
            for (int64_t j = 0; j < 4; j++) values.push_back(bias_at(a, 0, 0, i, j));
        }
        return values;
    };
    const std::vector<double> plain{0, -.5, -1, -1.5, -.5, 0, -.5, -1, -1, -.5, 0, -.5, -1.5, -1, -.5, 0};
    expect_near(matrix(2, {}, {}), plain);
    expect_near(matrix(2, {0}, {2}), {-1, -1.5, -2, -2.5, -.5, -1, -1.5, -2, 0, -.5, -1, -1.5, -.5, 0, -.5, -1});
    expect_near(matrix(2, {2, 9}, {0, 9}), {-1, -.5, 0, -.5, -1.5, -1, -.5, 0, -2, -1.5, -1, -.5, -2.5, -2, -1.5, -1});
    const double r2 = -0.70710678, r3 = -0.8660254;
    expect_near(matrix(3, {}, {}), {0, -.5, r2, r3, -.5, 0, -.5, r2, r2, -.5, 0, -.5, r3, r2, -.5, 0});
    // One list alone has no effect.
    expect_near(matrix(2, {2}, {}), plain);
    expect_near(matrix(2, {}, {2}), plain);
    // A slope for each batch entry and head, or for each head.
    a = dense_shapes(2, 2, 4, 4);
    a.pse_type = 2;
    a.real_shift = Tensor{{2, 2}, {1, 2, 3, 4}};
    EXPECT_EQ(bias_at(a, 1, 0, 0, 2), -6);
    a.real_shift = Tensor{{2}, {1, 2}};
    EXPECT_EQ(bias_at(a, 1, 1, 0, 2), -4);
}

TEST(ReferenceBias, StartsOfAModeEightCallCountForTheFirstSequence) {
    ScoreArguments a = packed_shapes(1, {2, 5}, {2, 5});
    a.pse_type = 2;
    a.real_shift = Tensor{{1}, {1}};
    a.q_start_idx = {3};
    a.kv_start_idx = {1};
    EXPECT_EQ(bias_at(a, 0, 0, 0, 0), -2);
    EXPECT_EQ(bias_at(a, 1, 0, 0, 0), -2);
    a.sparse_mode = 8;
    EXPECT_EQ(bias_at(a, 1, 0, 0, 0), -2);  // without a mask there is no mode
    a.atten_mask = Mask{{2048, 2048}, {}};
    EXPECT_EQ(bias_at(a, 0, 0, 0, 0), -2);
    EXPECT_EQ(bias_at(a, 1, 0, 0, 0), 0);
}

// Slopes are added after the scale.
TEST(ReferenceBias, SlopesInTheSoftmax) {
    ScoreArguments a = small_example();
    a.pse_type = 2;
    a.real_shift = Tensor{{1, 1}, {0.25}};
    const ScoreResult r = score(a);
    // Row 0: scores 0.5, 0, 1 and bias 0, -0.25, -0.5; row 1: 1, 1, 0 and -0.25, 0, -0.25.
    expect_near(r.softmax_max, {0.5, 1});
    expect_near(r.softmax_sum, {2 + std::exp(-0.75), 1 + std::exp(-0.25) + std::exp(-1.25)});
    EXPECT_DOUBLE_EQ(r.rows[0].conditioning, 1.5);
}

TEST(ReferenceBias, MinusInfinityHidesItsKeyWhateverTheKeyHolds) {
    ScoreArguments open = small_example();
    open.atten_mask = Mask{{2, 3}, {0, 1, 0, 0, 1, 0}};
    open.sparse_mode = 1;
    ScoreArguments a = small_example();
    a.key.values[2] = a.value.values[3] = kNan;  // key 1
    for (const int64_t type : {0, 1}) {
        for (const double scale : {0.5, 0.0, -2.0}) {
            a.pse_type = type;
            a.scale_value = open.scale_value = scale;
            a.real_shift = Tensor{{1, 1, 1, 3}, {0, -kInfinity, 0}};
            const ScoreResult got = score(a), expected = score(open);
            EXPECT_EQ(got.attention_out.values, expected.attention_out.values);
            EXPECT_EQ(got.softmax_max, expected.softmax_max);
            EXPECT_EQ(got.softmax_sum, expected.softmax_sum);
            EXPECT_EQ(got.rows[0].visible, 2);
            EXPECT_EQ(got.rows[0].conditioning, expected.rows[0].conditioning);
            a.real_shift = Tensor{{1, 1, 2, 3}, {0, -kInfinity, 0, -kInfinity, -kInfinity, -kInfinity}};
            const ScoreResult hidden = score(a);
            EXPECT_EQ(hidden.rows[1].kind, RowKind::kHidden);
            EXPECT_EQ(hidden.rows[1].visible, 0);
            EXPECT_EQ(hidden.softmax_max[1], -FLT_MAX);
            EXPECT_EQ(hidden.attention_out.values[2], 0.0);
        }
    }
    // Slopes hide nothing: they only can make a weight 0.
    a = small_example();
    a.pse_type = 2;
    a.real_shift = Tensor{{1}, {kInfinity}};
    a.q_start_idx = {9};
    a.kv_start_idx = {0};
    EXPECT_EQ(score(a).rows[0].visible, 3);
    EXPECT_EQ(score(a).rows[0].kind, RowKind::kHidden);
}

// A row whose logits are all minus infinity counts as empty; a sink changes its statistics and not its output, whatever
// the values hold.
TEST(ReferenceSink, LogitsOfMinusInfinity) {
    ScoreArguments a = small_example();
    a.query.values = {1, 0, 1, 0};
    a.key.values = {-kInfinity, 1, -kInfinity, 1, -kInfinity, 0};
    a.value.values[3] = kNan;
    a.sink = {2.5};
    const ScoreResult r = score(a);
    EXPECT_EQ(r.attention_out.values, (std::vector<double>{0, 0, 0, 0}));
    EXPECT_EQ(r.softmax_max, (std::vector<double>{2.5, 2.5}));
    EXPECT_EQ(r.softmax_sum, (std::vector<double>{1, 1}));
}

TEST(ReferenceDropout, Example) {
    ScoreArguments a = small_example();
    a.keep_prob = 0.8;
    const ScoreResult without = score(a);  // no mask, no dropout
    expect_near(without.attention_out.values, {1.320157, 1.199285, 0.733044, 0.733044});
    EXPECT_EQ(without.rows[0].largest_value, 2.0);
    a.drop_mask = std::vector<uint8_t>{0x35};
    const ScoreResult r = score(a);
    expect_near(r.attention_out.values, {1.650196, 1.266201, 0.388406, 0.916305});
    expect_near(r.softmax_max, {1, 1});
    expect_near(r.softmax_sum, {1.974410, 2.367879});
    EXPECT_DOUBLE_EQ(r.rows[0].largest_value, 2 / static_cast<double>(0.8F));
    a.drop_mask = std::vector<uint8_t>{0x3B};  // row 0 keeps keys 0 and 1
    EXPECT_DOUBLE_EQ(score(a).rows[0].largest_value, 1 / static_cast<double>(0.8F));
    // A mask is applied for any probability.
    a.keep_prob = 1;
    a.drop_mask = std::vector<uint8_t>{0x35};
    expect_near(score(a).attention_out.values, {1.650196 * 0.8, 1.266201 * 0.8, 0.388406 * 0.8, 0.916305 * 0.8});
}

// Probability and scale are floats to the operator.
TEST(ReferenceDropout, NumbersAreRoundedToFloat) {
    ScoreArguments a;
    a.input_layout = "BSND";
    a.query = a.key = a.value = {{1, 1, 1, 1}, {1}};
    a.drop_mask = std::vector<uint8_t>{1};
    a.keep_prob = 0.1;
    a.scale_value = 0.1;
    EXPECT_DOUBLE_EQ(score(a).attention_out.values[0], 1 / static_cast<double>(0.1F));
    EXPECT_EQ(score(a).softmax_max[0], static_cast<double>(0.1F));
}

// With equal scores and values that are powers of two, the output tells which keys were kept.
TEST(ReferenceDropout, BitsRunOnOverHeadsAndSequences) {
    // Two heads; 2 rows x 3 keys, a sequence without rows, 1 row x 4 keys: bits 0-5, 6-11, 12-15, 16-19.
    ScoreArguments a = packed_shapes(2, {2, 2, 3}, {3, 5, 9});
    a.query.values.assign(6, 0.0);
    a.key.values.assign(18, 0.0);
    for (const int64_t j : {0, 1, 2, 0, 0, 0, 1, 2, 3}) {
        a.value.values.insert(a.value.values.end(), 2, std::ldexp(1.0, static_cast<int>(j)));
    }
    a.drop_mask = std::vector<uint8_t>{0b00101001, 0b10001100, 0b00000110};
    // In order: 100 101, 000 011, 0001, 0110.
    const std::vector<double> packed{1, 0, 5, 6, 8, 6};  // [T, N]: sums of 2^j over what is kept
    const ScoreResult r = score(a);
    for (size_t t = 0; t < packed.size(); t++) {
        EXPECT_DOUBLE_EQ(r.attention_out.values[t] * (t < 4 ? 3 : 4), packed[t]) << t;
    }
    // Dense: bit 3 * batch entry + ...; the last bit alone.
    a = dense_shapes(2, 1, 1, 3);
    a.query.values.assign(2, 0.0);
    a.key.values.assign(6, 0.0);
    a.value.values = {1, 2, 4, 1, 2, 4};
    a.drop_mask = std::vector<uint8_t>{0b00100010};
    EXPECT_DOUBLE_EQ(score(a).attention_out.values[0] * 3, 2);
    EXPECT_DOUBLE_EQ(score(a).attention_out.values[1] * 3, 4);
}

TEST(ReferenceSink, Example) {
    ScoreArguments a = small_example();
    a.sink = {0.25};
    const ScoreResult r = score(a);
    expect_near(r.attention_out.values, {1.065292, 0.967755, 0.611130, 0.611130});
    expect_near(r.softmax_max, {1, 1});
    expect_near(r.softmax_sum, {2.446777, 2.840246});
    a.sink = {3};  // above all scores: it is the maximum
    const ScoreResult high = score(a);
    expect_near(high.softmax_max, {3, 3});
    EXPECT_NEAR(high.softmax_sum[0], 1 + std::exp(-2.5) + std::exp(-3.0) + std::exp(-2.0), 1e-12);
    // Neither scale nor bias touches it.
    a.sink = {0.25};
    a.scale_value = 0;
    a.real_shift = Tensor{{1, 1, 1, 3}, {9, 9, 9}};
    EXPECT_EQ(score(a).softmax_max[0], 0.25);
    EXPECT_NEAR(score(a).softmax_sum[0], 1 + 3 * std::exp(-0.25), 1e-12);
}

TEST(ReferenceSink, BelongsToItsHead) {
    ScoreArguments a = dense_shapes(1, 2, 1, 1);
    a.query.values = {0, 0};
    a.key.values = {0, 0};
    a.value.values = {1, 1};
    a.sink = {0, std::log(3.0)};
    expect_near(score(a).attention_out.values, {0.5, 0.25});
}

TEST(ReferenceSink, RowsWithoutAnyWeight) {
    ScoreArguments a = small_example();
    a.sink = {-7};
    a.sparse_mode = 0;
    a.next_tokens = -1;
    a.atten_mask = Mask{{2, 3}, std::vector<uint8_t>(6, 0)};
    const ScoreResult masked = score(a);
    EXPECT_EQ(masked.rows[0].kind, RowKind::kOrdinary);
    EXPECT_EQ(masked.softmax_max[0], -7);
    EXPECT_EQ(masked.softmax_sum[0], 1);
    EXPECT_EQ(masked.attention_out.values[0], 0);
    // All visible logits minus infinity.
    a = small_example();
    a.sink = {-7};
    a.query.values = {1, 0, 1, 0};
    a.key.values = {-kInfinity, 1, -kInfinity, 1, -kInfinity, 0};
    const ScoreResult infinite = score(a);
    EXPECT_EQ(infinite.rows[0].kind, RowKind::kOrdinary);
    EXPECT_EQ(infinite.softmax_max[0], -7);
    EXPECT_EQ(infinite.softmax_sum[0], 1);
    EXPECT_EQ(infinite.attention_out.values[0], 0);
    // No keys at all: zeros even so.
    a.key = a.value = {{1, 0, 1, 2}, {}};
    EXPECT_EQ(score(a).rows[0].kind, RowKind::kNothing);
    EXPECT_EQ(score(a).softmax_max[0], 0);
    EXPECT_EQ(score(a).softmax_sum[0], 0);
}

TEST(ReferenceSink, NanAndInfinity) {
    ScoreArguments a = small_example();
    const ScoreResult absent = score(a);
    a.sink = {-kInfinity};
    const ScoreResult minus = score(a);
    EXPECT_EQ(minus.attention_out.values, absent.attention_out.values);
    EXPECT_EQ(minus.softmax_max, absent.softmax_max);
    EXPECT_EQ(minus.softmax_sum, absent.softmax_sum);
    for (const double sink : {kNan, kInfinity}) {
        a.sink = {sink};
        EXPECT_TRUE(std::isnan(score(a).attention_out.values[0]));
        EXPECT_TRUE(std::isnan(score(a).softmax_sum[0]));
        EXPECT_FALSE(std::isfinite(score(a).softmax_max[0]));
    }
    a.sink = {-kInfinity};
    a.sparse_mode = 1;
    a.atten_mask = Mask{{2, 3}, std::vector<uint8_t>(6, 1)};
    EXPECT_EQ(score(a).rows[0].kind, RowKind::kHidden);
}

// More features, which the value does not have.
TEST(ReferenceRope, IsPartOfTheScore) {
    ScoreArguments whole = packed_shapes(2, {2}, {3});
    whole.key.shape = {3, 1, 3};
    whole.query = {{2, 2, 3}, {1, 0, 2, 0, 2, -1, 1, 1, 1, -1, 0, 3}};
    whole.key.values = {1, 1, -1, 0, 1, 2, 2, 0, 1};
    whole.value = {{3, 1, 1}, {1, 2, 4}};
    ScoreArguments split = whole;
    split.query = {{2, 2, 2}, {1, 0, 0, 2, 1, 1, -1, 0}};
    split.key = {{3, 1, 2}, {1, 1, 0, 1, 2, 0}};
    split.query_rope = Tensor{{2, 2, 1}, {2, -1, 1, 3}};
    split.key_rope = Tensor{{3, 1, 1}, {-1, 2, 1}};
    const ScoreResult expected = score(whole), got = score(split);
    EXPECT_EQ(got.softmax_max, expected.softmax_max);
    EXPECT_EQ(got.softmax_sum, expected.softmax_sum);
    EXPECT_EQ(got.attention_out.values, expected.attention_out.values);
    for (size_t r = 0; r < got.rows.size(); r++) {
        EXPECT_EQ(got.rows[r].conditioning, expected.rows[r].conditioning);
    }
    EXPECT_DOUBLE_EQ(got.rows[0].conditioning, 4.0);  // key 1: |1 * 0| + |0 * 1| + |2 * 2|; key 2: 2 + 0 + 2
}

TEST(ReferenceStatistics, InTheOrderOfTheTokens) {
    // Sequences of 2, 0 and 1 rows and one row that belongs to nobody, two heads; each row's maximum is its score.
    ScoreArguments a = packed_shapes(2, {2, 2, 3}, {1, 2, 3});
    a.query = {{4, 2, 1}, {1, 2, 3, 4, 5, 6, 7, 8}};
    a.key.values.assign(6, 1.0);
    a.value.values.assign(6, 1.0);
    EXPECT_EQ(score(a).softmax_max, (std::vector<double>{1, 3, 2, 4, 5, 6, 0, 0}));
    a.softmax_out_layout = "same_as_input";
    const ScoreResult r = score(a);
    EXPECT_EQ(r.softmax_max, (std::vector<double>{1, 2, 3, 4, 5, 6, 0, 0}));
    EXPECT_EQ(r.softmax_sum, (std::vector<double>{1, 1, 1, 1, 1, 1, 0, 0}));
    EXPECT_EQ(r.rows[1].head, 1);
    EXPECT_EQ(r.rows[1].position, 0);
    EXPECT_EQ(r.rows[2].position, 1);
    EXPECT_EQ(r.rows[2].out_begin, 2);
    EXPECT_EQ(r.rows[7].sequence, -1);
    EXPECT_EQ(r.rows[7].head, 1);
    EXPECT_EQ(r.rows[7].out_begin, 7);
    // Other layouts have one order only.
    ScoreArguments dense = dense_shapes(1, 2, 2, 1);
    dense.query.values = {1, 2, 3, 4};
    dense.key.values = dense.value.values = {1, 1};
    dense.softmax_out_layout = "same_as_input";
    EXPECT_EQ(score(dense).softmax_max, (std::vector<double>{1, 2, 3, 4}));
}

}  // namespace
}  // namespace flash_attention::reference
