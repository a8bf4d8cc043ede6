// Calls that look odd and are legal. Queries are 0 and values 1, so softmaxSum counts the visible keys of each row.
// Numbers name entries of the list of known mistakes.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "call.h"

namespace flash_attention::testing {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();

const Sizes kSizes;
const std::vector<int64_t> kDenseRows(kSizes.b, kSizes.sq);

int64_t all_keys(int64_t, int64_t, int64_t) {
    return kSizes.skv;
}
int64_t no_keys(int64_t, int64_t, int64_t) {
    return kNoKeys;
}

TensorSpec byte_mask(std::vector<int64_t> shape) {
    return {.shape = std::move(shape), .dtype = ACL_UINT8};
}

// 4.2
TEST(Accepted, LayoutsInAnyLetterCase) {
    for (const auto& [upper, mixed] : {std::pair{"BSH", "bsh"}, {"SBH", "sBh"}, {"BSND", "Bsnd"}, {"BNSD", "bnsd"}}) {
        Call call = dense_call(upper);
        expect_counts(call, kDenseRows, kSizes.n, all_keys);
        call.layout = mixed;
        expect_counts(call, kDenseRows, kSizes.n, all_keys);
    }
    Call call = varlen_call({3, 1}, {5, 5});
    call.layout = "tnd";
    expect_counts(call, {3, 1}, 4, all_keys);
}

TEST(Accepted, PlainFormats) {
    Call call = dense_call();
    call.query->format = ACL_FORMAT_NCHW;
    call.key->format = ACL_FORMAT_NHWC;
    call.value->format = ACL_FORMAT_NC;
    call.max->format = ACL_FORMAT_NCL;
    call.sum->format = ACL_FORMAT_NCDHW;
    call.out->format = ACL_FORMAT_NCHW;
    call.mask = byte_mask({3, 5});
    call.mask->format = ACL_FORMAT_NCL;
    expect_counts(call, kDenseRows, kSizes.n, all_keys);
}

// An expanded key may have more pairs with the query than an integer counts, as long as few are visible.
TEST(Accepted, MorePairsThanCanBeCounted) {
    constexpr int64_t kHeads = 70000, kKeys = int64_t{1} << 47;
    Call call = dense_call("BNSD", {.b = 1, .n = kHeads, .nkv = 1, .sq = 1, .skv = 1, .d = 1, .dv = 1});
    call.key->shape[2] = call.value->shape[2] = kKeys;
    call.key->strides = call.value->strides = {1, 1, 0, 1};
    call.key->storage = call.value->storage = {1};
    call.mask = byte_mask({2048, 2048});
    call.sparse_mode = 2;
    const Outcome outcome = run(call);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_EQ(outcome.sum, std::vector<float>(kHeads * 8, 1.0F));
}

TEST(Accepted, ArgumentsThatDoNotMatterHere) {
    Call call = dense_call();
    call.prefix = std::vector<int64_t>{0};  // 5.21
    call.padding_mask = TensorSpec{.shape = {7, 7}, .dtype = ACL_INT64, .without_data = true};
    call.softmax_out = TensorSpec{.shape = {0}, .without_data = true};
    for (const int64_t inner_precise : {int64_t{0}, int64_t{1}, int64_t{2}, kLowest, kHighest}) {
        call.inner_precise = inner_precise;
        expect_counts(call, kDenseRows, kSizes.n, all_keys);
    }
    call.sparse_mode = 77;  // 5.8: not looked at without a mask
    call.pre = call.next = kLowest;
    expect_counts(call, kDenseRows, kSizes.n, all_keys);
    call.softmax_out = TensorSpec{.shape = {2, 4, 3, 5}};  // reserved: never written
    expect_counts(call, kDenseRows, kSizes.n, all_keys);
}

TEST(Accepted, AnyFiniteScale) {
    for (const double scale : {0.0, -0.25, 1e-30, -3e38}) {
        Call call = dense_call();
        call.scale = scale;
        expect_counts(call, kDenseRows, kSizes.n, all_keys);
    }
}

TEST(Accepted, FullMasksOfEveryShape) {
    for (const aclDataType dtype : {ACL_BOOL, ACL_UINT8}) {
        for (const int64_t mode : {0, 1}) {
            Call call = dense_call();
            call.sparse_mode = mode;
            // Key i is hidden from row i.
            call.hidden = [](int64_t i) { return i % kSizes.skv == i / kSizes.skv % kSizes.sq; };
            for (const auto& shape : {std::vector<int64_t>{3, 5}, {1, 1, 3, 5}, {2, 1, 3, 5}, {2, 4, 3, 5}}) {
                call.mask = byte_mask(shape);
                call.mask->dtype = dtype;
                expect_counts_in(dense_versions(), call, kDenseRows, [](auto...) { return kSizes.skv - 1; });
            }
            // A mask of its own for each batch entry (and head): the first so many keys are hidden.
            const auto hides = [](int64_t matrix) { return (matrix + 1) % kSizes.skv; };
            call.hidden = [=](int64_t i) { return i % kSizes.skv < hides(i / (kSizes.skv * kSizes.sq)); };
            call.mask->shape = {2, 1, 3, 5};
            expect_counts_in(dense_versions(), call, kDenseRows,
                             [=](int64_t b, auto...) { return kSizes.skv - hides(b); });
            call.mask->shape = {2, 4, 3, 5};
            expect_counts_in(dense_versions(), call, kDenseRows,
                             [=](int64_t b, int64_t n, int64_t) { return kSizes.skv - hides(b * kSizes.n + n); });
        }
    }
    Call call = dense_call("BNSD", {.b = 1});
    call.mask = byte_mask({1, 4, 3, 5});
    expect_counts_in(dense_versions(), call, {kSizes.sq}, all_keys);
}

TEST(Accepted, CompressedMasks) {
    for (const auto& shape : {std::vector<int64_t>{2048, 2048}, {1, 1, 2048, 2048}}) {
        Call call = dense_call();
        call.mask = compressed_mask(shape);
        call.sparse_mode = 2;
        expect_counts_in(dense_versions(), call, kDenseRows, [](int64_t, int64_t, int64_t row) { return row + 1; });
        call.sparse_mode = 3;
        expect_counts_in(dense_versions(), call, kDenseRows, [](int64_t, int64_t, int64_t row) { return row + 3; });
        call.sparse_mode = 4;
        call.pre = 1;
        call.next = 0;
        expect_counts_in(dense_versions(), call, kDenseRows, [](auto...) { return 2; });
    }
}

// 5.15
TEST(Accepted, WindowsOfAnySize) {
    Call call = dense_call();
    call.mask = byte_mask({3, 5});
    for (const int64_t mode : {0, 4}) {
        call.sparse_mode = mode;
        if (mode == 4) call.mask = compressed_mask();
        for (const int64_t edge :
             {int64_t{5}, int64_t{65536}, int64_t{std::numeric_limits<int32_t>::max()}, kHighest}) {
            call.pre = call.next = edge;
            expect_counts(call, kDenseRows, kSizes.n, all_keys);
        }
        call.pre = kHighest;
        call.next = 0;
        expect_counts(call, kDenseRows, kSizes.n,
                      [=](int64_t, int64_t, int64_t row) { return mode == 4 ? row + 3 : row + 1; });
    }
}

// 5.22
TEST(Accepted, RowsWithoutVisibleKeys) {
    Call call = dense_call("BSND", {.sq = 5, .skv = 3});
    call.mask = compressed_mask();
    call.sparse_mode = 3;
    expect_counts_in(dense_versions(), call, {5, 5},
                     [](int64_t, int64_t, int64_t row) { return std::max<int64_t>(row - 1, 0); });

    call = dense_call();
    call.mask = byte_mask({3, 5});
    call.hidden = [](int64_t i) { return i / 5 == 1; };
    expect_counts_in(dense_versions(), call, kDenseRows,
                     [](int64_t, int64_t, int64_t row) { return row == 1 ? 0 : 5; });

    call = dense_call();
    call.mask = byte_mask({3, 5});
    call.pre = 2;
    call.next = -2;  // row 2 sees key 0
    expect_counts_in(dense_versions(), call, kDenseRows,
                     [](int64_t, int64_t, int64_t row) { return row == 2 ? 1 : 0; });
}

// 4.14
TEST(Accepted, NothingToAttend) {
    for (const char* layout : {"BSH", "SBH", "BSND", "BNSD"}) {
        expect_counts_in(dense_versions(), dense_call(layout, {.skv = 0}), kDenseRows, no_keys);
        expect_counts_in(dense_versions(), dense_call(layout, {.nkv = 0}), kDenseRows, no_keys);
        expect_counts_in(dense_versions(), dense_call(layout, {.d = 0, .dv = 0}), kDenseRows, no_keys);
        expect_counts_in(dense_versions(), dense_call(layout, {.dv = 0}), kDenseRows, no_keys);
    }
    Call call = dense_call("BNSD", {.skv = 0});
    call.mask = compressed_mask();
    call.sparse_mode = 4;
    call.pre = call.next = -5;  // a window means nothing without keys
    call.query->without_data = true;
    expect_counts_in(dense_versions(), call, kDenseRows, no_keys);
}

TEST(Accepted, EmptyOutputs) {
    for (const Sizes& sizes : {Sizes{.b = 0}, Sizes{.sq = 0}, Sizes{.n = 0, .nkv = 0}}) {
        for (const char* layout : {"SBH", "BNSD"}) {
            Call call = dense_call(layout, sizes);
            call.max->without_data = call.sum->without_data = call.out->without_data = true;
            const Outcome outcome = run(call);
            EXPECT_EQ(outcome.code, 0) << outcome.text;
            EXPECT_EQ(outcome.workspace_size, 0U);
            EXPECT_FALSE(outcome.executor_is_null);
        }
    }
    const Outcome outcome = run(varlen_call({0, 0}, {5, 2}));
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_EQ(outcome.workspace_size, 0U);
}

// 6.4, 6.8, and rows that belong to no sequence (6.6)
TEST(Accepted, Lists) {
    const auto keys = [](int64_t s, auto...) { return std::vector<int64_t>{7, 5, 2}[s]; };
    expect_counts_in(tnd_versions(), varlen_call({3, 0, 4}, {7, 5, 2}), {3, 0, 4}, keys);
    expect_counts_in(tnd_versions(), varlen_call({0, 3, 1}, {0, 5, 2}), {0, 3, 1}, keys);
    // a sequence without keys between others
    expect_counts_in(tnd_versions(), varlen_call({3, 2, 4}, {7, 0, 2}), {3, 2, 4},
                     [&](int64_t s, auto...) { return s == 1 ? kNoKeys : keys(s); });

    Call call = varlen_call({3, 1, 4}, {7, 5, 2});
    call.q_ends->insert(call.q_ends->end(), {0, 0});
    call.kv_ends->insert(call.kv_ends->end(), {0, 0});
    expect_counts_in(tnd_versions(), call, {3, 1, 4}, keys);

    // seven rows and three keys more than the lists say; the rows are zero
    const auto keys_or_none = [&](int64_t s, auto...) { return s == 3 ? kNoKeys : keys(s); };
    call = varlen_call({3, 1, 4, 7}, {7, 5, 2, 3});
    call.q_ends->back() = call.kv_ends->back() = 0;
    expect_counts_in(tnd_versions(), call, {3, 1, 4, 7}, keys_or_none);
    call.q_ends->pop_back();
    call.kv_ends->pop_back();
    expect_counts_in(tnd_versions(), call, {3, 1, 4, 7}, keys_or_none);

    call = varlen_call({6}, {4});  // no sequence at all
    call.q_ends = call.kv_ends = std::vector<int64_t>{0};
    expect_counts_in(tnd_versions(), call, {6}, no_keys);
}

// 4.12
TEST(Accepted, TndStatisticsOfOtherShapes) {
    Call call = varlen_call({3, 3}, {5, 5});
    for (const auto& shape : {std::vector<int64_t>{2, 4, 3, 8}, {4, 6, 8}, {24, 8}, {1, 1, 1, 24, 1, 8}}) {
        call.max->shape = shape;
        call.sum->shape = {24, 8};
        expect_counts_in(tnd_versions(), call, {3, 3}, all_keys);
    }
}

// 5.23
TEST(Accepted, VarLenMasksOfEveryShape) {
    const std::vector<int64_t> rows{3, 0, 4}, keys{5, 2, 4};
    Call call = varlen_call(rows, keys);
    for (const int64_t mode : {0, 1}) {
        call.sparse_mode = mode;
        call.hidden = [](int64_t i) { return i % 5 == 0; };  // key 0 of every sequence
        for (const auto& shape : {std::vector<int64_t>{4, 5}, {1, 1, 4, 5}, {3, 1, 4, 5}, {3, 4, 4, 5}}) {
            call.mask = byte_mask(shape);
            expect_counts_in(tnd_versions(), call, rows, [&](int64_t s, auto...) { return keys[s] - 1; });
        }
        call.hidden = [](int64_t i) { return i % 5 < i / 20 / 4; };  // as many keys as the sequence's number
        expect_counts_in(tnd_versions(), call, rows, [&](int64_t s, auto...) { return keys[s] - s; });

        call.mask = byte_mask({7, 11});
        // Visible: keys 1 and 2 of sequence 0 and keys 0, 1, 2 of sequence 2, whose block starts at (3, 7).
        call.hidden = [](int64_t i) {
            const int64_t row = i / 11, column = i % 11;
            return row < 3 ? column != 1 && column != 2 : column < 7 || column > 9;
        };
        expect_counts_in(tnd_versions(), call, rows, [](int64_t s, auto...) { return s == 0 ? 2 : 3; });
    }
}

TEST(Accepted, VarLenCompressedMasks) {
    const std::vector<int64_t> rows{3, 0, 4}, keys{5, 2, 4};
    Call call = varlen_call(rows, keys);
    call.mask = compressed_mask();
    call.sparse_mode = 2;
    expect_counts(call, rows, 4, [](int64_t, int64_t, int64_t row) { return row + 1; });
    call.sparse_mode = 3;
    expect_counts(call, rows, 4, [&](int64_t s, int64_t, int64_t row) { return row + 1 + keys[s] - rows[s]; });
    call.sparse_mode = 4;
    call.pre = 0;
    call.next = 0;
    expect_counts(call, rows, 4, [](auto...) { return 1; });
    // Mode 4 accepts sequences without keys, mode 3 does not: its rule has no exception for them.
    call = varlen_call({3, 2}, {5, 0});
    call.mask = compressed_mask({1, 1, 2048, 2048});
    call.sparse_mode = 4;
    call.pre = kHighest;
    call.next = 0;
    expect_counts(call, {3, 2}, 4, [](int64_t s, int64_t, int64_t row) { return s == 1 ? kNoKeys : row + 3; });
    call.sparse_mode = 3;
    expect_refused(call, 161002, "sparseMode 3: batch 1 has Sq 2 > Skv 0 (rows without visible key)");
}

TEST(Accepted, LengthsThatAreNoMultipleOfAnything) {  // 1.4
    Call call = dense_call("BSND", {.b = 1, .n = 2, .nkv = 1, .sq = 513, .skv = 1025, .d = 3, .dv = 1});
    call.mask = compressed_mask();
    call.sparse_mode = 3;
    expect_counts(call, {513}, 2, [](int64_t, int64_t, int64_t row) { return row + 513; });
}

}  // namespace
}  // namespace flash_attention::testing
