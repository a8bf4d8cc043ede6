// The reference against grids and numbers that were worked out without it.
#include "reference/score.h"

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <limits>

#include "small_example.h"
#include "worked_grids.h"

namespace flash_attention::reference {
namespace {

using flash_attention::testing::worked_grids;
using flash_attention::testing::worked_prefix_grids;
using flash_attention::testing::worked_splits;
using flash_attention::testing::WorkedGrid;
using flash_attention::testing::WorkedSplit;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// An explicit mask with nothing hidden where the mode takes one, else the marker of a compressed one.
Mask open_mask(int64_t mode, int64_t q_len, int64_t kv_len) {
    if (mode >= 2 && mode != 5) return {{mode == 6 ? 3072 : 2048, 2048}, {}};
    return {{q_len, kv_len}, std::vector<uint8_t>(q_len * kv_len, 0)};
}

// A call with nothing but shapes.
ScoreArguments shapes_of(const WorkedGrid& grid) {
    ScoreArguments a;
    a.input_layout = "BSND";
    a.query.shape = {1, grid.q_len(), 1, 1};
    a.key.shape = a.value.shape = {1, grid.kv_len(), 1, 1};
    a.sparse_mode = grid.mode;
    a.pre_tokens = grid.pre;
    a.next_tokens = grid.next;
    a.atten_mask = open_mask(grid.mode, grid.q_len(), grid.kv_len());
    if (grid.prefix >= 0) a.prefix = {grid.prefix};
    return a;
}

// The keys that a row sees as a text like those of the grids.
std::string seen_keys(const ScoreArguments& a, const Sequence& s, int64_t i) {
    std::string keys;
    for (int64_t j = 0; j < s.kv_len; j++) keys += sees(a, s, 0, i, j) ? '1' : '0';
    return keys;
}

TEST(Reference, ShowsTheWorkedGrids) {
    std::vector<WorkedGrid> grids = worked_grids();
    grids.insert(grids.end(), worked_prefix_grids().begin(), worked_prefix_grids().end());
    for (const WorkedGrid& grid : grids) {
        const ScoreArguments a = shapes_of(grid);
        for (int64_t i = 0; i < grid.q_len(); i++) {
            EXPECT_EQ(seen_keys(a, sequences_of(a).at(0), i), grid.rows[i])
                << "mode " << grid.mode << " pre " << grid.pre << " next " << grid.next << " prefix " << grid.prefix
                << " row " << i;
        }
    }
}

TEST(Reference, ShowsTheWorkedSplits) {
    for (const WorkedSplit& split : worked_splits()) {
        ScoreArguments a;
        a.input_layout = "TND";
        a.query.shape = {split.q_totals.back(), 1, 1};
        a.key.shape = a.value.shape = {split.kv_totals.back(), 1, 1};
        a.actual_seq_qlen = split.q_totals;
        a.actual_seq_kvlen = split.kv_totals;
        a.sparse_mode = split.mode;
        a.pre_tokens = split.pre;
        a.next_tokens = split.next;
        a.atten_mask = open_mask(split.mode, 0, 0);
        for (const Sequence& s : sequences_of(a)) {
            // Nothing is said about trailing zeros: they have no rows.
            const int64_t rows = s.index < static_cast<int64_t>(split.sequences.size())
                                     ? static_cast<int64_t>(split.sequences[s.index].size())
                                     : 0;
            ASSERT_EQ(s.q_len, rows);
            for (int64_t i = 0; i < s.q_len; i++) {
                EXPECT_EQ(seen_keys(a, s, i), split.sequences[s.index][i])
                    << "mode " << split.mode << " pre " << split.pre << " sequence " << s.index << " row " << i;
            }
        }
    }
}

// In mode 5 a list that cannot be right leaves the mask alone to decide; one wrong entry spoils the list.
TEST(Reference, ModeFiveWithoutAValidListIsTheMaskAlone) {
    ScoreArguments a = shapes_of({5, 0, 0, {"1101", "1111"}});
    a.query.shape[0] = a.key.shape[0] = a.value.shape[0] = 2;
    a.atten_mask = Mask{{2, 4}, {0, 0, 1, 0, 0, 0, 0, 0}};
    auto first_row = [&](std::vector<int64_t> prefix) {
        a.prefix = std::move(prefix);
        return seen_keys(a, sequences_of(a).at(0), 0);
    };
    EXPECT_EQ(first_row({}), "1101");
    EXPECT_EQ(first_row({2}), "1101");
    EXPECT_EQ(first_row({2, 2, 2}), "1101");
    EXPECT_EQ(first_row({2, 1}), "1101");  // ends before the causal part
    EXPECT_EQ(first_row({2, 5}), "1101");  // ends behind the last key
    EXPECT_EQ(first_row({2, 4}), "1100");  // keys 0 to 2 by the causal part, without what the mask hides
    EXPECT_EQ(first_row({4, 2}), "1101");
    a.sparse_mode = 1;
    EXPECT_EQ(first_row({2, 4}), "1101");  // other modes do not look at it
}

TEST(Reference, SeesEverythingWithoutAMask) {
    ScoreArguments a = small_example();
    a.sparse_mode = 3;
    a.pre_tokens = a.next_tokens = -7;
    const ScoreResult r = score(a);
    expect_near(r.attention_out.values, {1.320157, 1.199285, 0.733044, 0.733044});
    expect_near(r.softmax_max, {1, 1});
    expect_near(r.softmax_sum, {1.974410, 2.367879});
    EXPECT_EQ(r.rows[0].visible, 3);
    EXPECT_DOUBLE_EQ(r.rows[0].conditioning, 1.0);
    EXPECT_DOUBLE_EQ(r.rows[0].largest_value, 2.0);
}

TEST(Reference, CausalExample) {
    ScoreArguments a = small_example();
    a.sparse_mode = 3;
    a.atten_mask = Mask{{2048, 2048}, {}};
    const ScoreResult r = score(a);
    expect_near(r.attention_out.values, {0.622459, 0.377541, 0.733044, 0.733044});
    expect_near(r.softmax_max, {0.5, 1});
    expect_near(r.softmax_sum, {1.606531, 2.367879});
    EXPECT_EQ(r.rows[0].visible, 2);
    EXPECT_DOUBLE_EQ(r.rows[0].largest_value, 1.0);
}

TEST(Reference, WindowExampleWithAHiddenRow) {
    ScoreArguments a = small_example();
    a.sparse_mode = 0;
    a.next_tokens = -1;
    a.atten_mask = open_mask(0, 2, 3);
    const ScoreResult r = score(a);
    expect_near(r.attention_out.values, {0, 0, 1, 0});
    EXPECT_EQ(r.softmax_max, (std::vector<double>{-FLT_MAX, 1}));
    EXPECT_EQ(r.softmax_sum, (std::vector<double>{FLT_MAX, 1}));
    EXPECT_EQ(r.rows[0].kind, RowKind::kHidden);
    EXPECT_EQ(r.rows[1].kind, RowKind::kOrdinary);
}

TEST(Reference, ModeOneHidesWhatTheMaskHides) {
    ScoreArguments a = small_example();
    a.sparse_mode = 1;
    a.pre_tokens = a.next_tokens = -9;
    a.atten_mask = Mask{{2, 3}, {0, 0, 7, 1, 1, 0}};
    const ScoreResult r = score(a);
    expect_near(r.attention_out.values, {0.622459, 0.377541, 2, 2});
}

// The same numbers in every layout; the values of head and batch entry (b, n) are those of the example times a factor.
TEST(Reference, KnowsTheLayouts) {
    constexpr int64_t kBatch = 2, kHeads = 2, kRows = 2, kKeys = 3, kDim = 2;
    const ScoreArguments one = small_example();
    for (const char* layout : {"BSH", "SBH", "BSND", "BNSD"}) {
        const std::string name = layout;
        auto spread = [&](const Tensor& from, int64_t positions, bool scaled) {
            Tensor to;
            if (name == "BSH") to.shape = {kBatch, positions, kHeads * kDim};
            if (name == "SBH") to.shape = {positions, kBatch, kHeads * kDim};
            if (name == "BSND") to.shape = {kBatch, positions, kHeads, kDim};
            if (name == "BNSD") to.shape = {kBatch, kHeads, positions, kDim};
            to.values.resize(kBatch * kHeads * positions * kDim);
            for (int64_t b = 0; b < kBatch; b++) {
                for (int64_t n = 0; n < kHeads; n++) {
                    for (int64_t s = 0; s < positions; s++) {
                        int64_t row = (b * positions + s) * kHeads + n;
                        if (name == "SBH") row = (s * kBatch + b) * kHeads + n;
                        if (name == "BNSD") row = (b * kHeads + n) * positions + s;
                        for (int64_t d = 0; d < kDim; d++) {
                            to.values[row * kDim + d] = from.values[s * kDim + d] * (scaled ? 1 + b * 10 + n : 1);
                        }
                    }
                }
            }
            return to;
        };
        ScoreArguments a = one;
        a.input_layout = name;
        a.head_num = kHeads;
        a.query = spread(one.query, kRows, false);
        a.key = spread(one.key, kKeys, false);
        a.value = spread(one.value, kKeys, true);
        const ScoreResult r = score(a);
        const Tensor expected = spread({{}, {1.320157, 1.199285, 0.733044, 0.733044}}, kRows, true);
        EXPECT_EQ(r.attention_out.shape, expected.shape);
        for (size_t i = 0; i < expected.values.size(); i++) {
            EXPECT_NEAR(r.attention_out.values[i], expected.values[i], 5e-5) << name << " at " << i;
        }
        EXPECT_EQ(r.rows.size(), static_cast<size_t>(kBatch * kHeads * kRows));
        EXPECT_EQ(r.rows[2].head, 1);
        EXPECT_EQ(r.rows[4].sequence, 1);
    }
}

// Rows and sums of each sequence come in its own [N, Sq_b] block; the last row belongs to nobody.
TEST(Reference, KnowsVariableLengths) {
    const ScoreArguments one = small_example();
    ScoreArguments a = one;
    a.input_layout = "TND";
    a.head_num = 2;
    a.query = {{4, 2, 2}, {}};
    for (const int row : {0, 1, 0, 1}) {  // sequences: rows 0 and 1, nothing, row 0; and a spare row
        for (int n = 0; n < 2; n++)
            a.query.values.insert(a.query.values.end(), {one.query.values[row * 2], one.query.values[row * 2 + 1]});
    }
    // Keys: the three of the example, two that nobody sees, none for the last sequence.
    a.key = {{5, 1, 2}, {1, 1, 0, 1, 2, 0, 9, 9, 9, 9}};
    a.value = {{5, 1, 2}, {1, 0, 0, 1, 2, 2, 9, 9, 9, 9}};
    a.actual_seq_qlen = {2, 2, 3, 0};
    a.actual_seq_kvlen = {3, 5, 5, 0};
    const ScoreResult r = score(a);
    EXPECT_EQ(r.attention_out.shape, (std::vector<int64_t>{4, 2, 2}));
    expect_near(r.attention_out.values,
                {1.320157, 1.199285, 1.320157, 1.199285, 0.733044, 0.733044, 0.733044, 0.733044,  //
                 0, 0, 0, 0, 0, 0, 0, 0});
    expect_near(r.softmax_sum, {1.974410, 2.367879, 1.974410, 2.367879, 0, 0, 0, 0});
    expect_near(r.softmax_max, {1, 1, 1, 1, 0, 0, 0, 0});
    EXPECT_EQ(r.rows[4].kind, RowKind::kNothing);
    EXPECT_EQ(r.rows[4].sequence, 2);
    EXPECT_EQ(r.rows[6].sequence, -1);
    EXPECT_EQ(r.rows[1].out_begin, 4);  // second row of head 0
}

TEST(Reference, KnowsTheMaskShapes) {
    ScoreArguments a;
    a.input_layout = "TND";
    a.head_num = 2;
    a.query.shape = {3, 2, 1};
    a.key.shape = a.value.shape = {5, 2, 1};
    a.actual_seq_qlen = {1, 3};
    a.actual_seq_kvlen = {3, 5};
    a.sparse_mode = 1;
    const std::vector<Sequence> s = sequences_of(a);
    auto mask_with = [&](std::vector<int64_t> shape, int64_t hidden) {
        int64_t count = 1;
        for (const int64_t extent : shape) count *= extent;
        a.atten_mask = Mask{shape, std::vector<uint8_t>(count, 0)};
        a.atten_mask->values[hidden] = 1;
    };
    mask_with({2, 3},
              1 * 3 + 1);  // [max Sq, max Skv]: row 1, key 1, of the second sequence only, as the first has one row
    EXPECT_FALSE(sees(a, s[1], 0, 1, 1));
    EXPECT_TRUE(sees(a, s[1], 0, 0, 1));
    EXPECT_TRUE(sees(a, s[0], 0, 0, 1));
    mask_with({3, 5}, 2 * 5 + 4);  // [all rows, all keys]: last of both
    EXPECT_FALSE(sees(a, s[1], 1, 1, 1));
    EXPECT_TRUE(sees(a, s[1], 1, 1, 0));
    mask_with({2, 1, 2, 3}, 6 + 0);  // a matrix for each sequence
    EXPECT_FALSE(sees(a, s[1], 1, 0, 0));
    EXPECT_TRUE(sees(a, s[0], 1, 0, 0));
    mask_with({2, 2, 2, 3}, 6 + 2);  // and for each head
    EXPECT_FALSE(sees(a, s[0], 1, 0, 2));
    EXPECT_TRUE(sees(a, s[0], 0, 0, 2));
    EXPECT_TRUE(sees(a, s[1], 1, 0, 2));
    mask_with({1, 1, 2, 3}, 0);  // one for all
    EXPECT_FALSE(sees(a, s[0], 0, 0, 0));
    EXPECT_FALSE(sees(a, s[1], 1, 0, 0));
}

TEST(Reference, NothingToAttendTo) {
    ScoreArguments a = small_example();
    a.key = {{1, 0, 1, 2}, {}};
    a.value = {{1, 0, 1, 2}, {}};
    const ScoreResult r = score(a);
    EXPECT_EQ(r.attention_out.values, (std::vector<double>{0, 0, 0, 0}));
    EXPECT_EQ(r.softmax_max, (std::vector<double>{0, 0}));
    EXPECT_EQ(r.softmax_sum, (std::vector<double>{0, 0}));
}

TEST(Reference, NanAndInfinity) {
    ScoreArguments a = small_example();
    a.key.values[2] = kNan;  // key 1
    EXPECT_TRUE(std::isnan(score(a).attention_out.values[0]));
    EXPECT_TRUE(std::isnan(score(a).softmax_sum[0]));
    a.sparse_mode = 1;
    a.atten_mask = Mask{{2, 3}, {0, 1, 0, 0, 1, 0}};  // hidden, it has no effect
    for (const double out : score(a).attention_out.values) EXPECT_TRUE(std::isfinite(out));

    // Logits of -infinity weigh nothing; a row that has no others counts as hidden.
    a = small_example();
    a.query.values = {1, 0, 1, 0};
    a.key.values = {-kInfinity, 1, -kInfinity, 1, 2, 0};
    expect_near(score(a).attention_out.values, {2, 2, 2, 2});
    EXPECT_EQ(score(a).softmax_sum[0], 1.0);
    a.key.values[4] = -kInfinity;
    const ScoreResult hidden = score(a);
    EXPECT_EQ(hidden.rows[0].kind, RowKind::kHidden);
    EXPECT_EQ(hidden.rows[0].visible, 3);
    EXPECT_EQ(hidden.softmax_max[0], -FLT_MAX);
    EXPECT_EQ(hidden.softmax_sum[0], FLT_MAX);
    EXPECT_EQ(hidden.attention_out.values[0], 0.0);

    // One NaN in a value spoils its column only.
    a = small_example();
    a.value.values[3] = kNan;
    const ScoreResult column = score(a);
    EXPECT_TRUE(std::isfinite(column.attention_out.values[0]));
    EXPECT_TRUE(std::isnan(column.attention_out.values[1]));
    EXPECT_EQ(column.rows[0].largest_value, 2.0);
}

TEST(Reference, ScaleMayBeZeroOrNegative) {
    ScoreArguments a = small_example();
    a.scale_value = 0;
    expect_near(score(a).attention_out.values, {1, 1, 1, 1});
    expect_near(score(a).softmax_sum, {3, 3});
    a.scale_value = -0.5;  // logits of row 0: -0.5, 0, -1
    const double sum = std::exp(-0.5) + 1 + std::exp(-1.0);
    EXPECT_NEAR(score(a).softmax_max[0], 0.0, 1e-15);
    EXPECT_NEAR(score(a).softmax_sum[0], sum, 1e-12);
    EXPECT_NEAR(score(a).attention_out.values[0], (std::exp(-0.5) + 2 * std::exp(-1.0)) / sum, 1e-12);
}

}  // namespace
}  // namespace flash_attention::reference
