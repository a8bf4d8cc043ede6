// Sparse modes and windows that are legal, in every version that has them. Queries are 0 and values 1, so softmaxSum
// counts the visible keys of each row. Numbers name entries of the list of known mistakes.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "call.h"

namespace flash_attention::testing {
namespace {

constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();

TensorSpec byte_mask(std::vector<int64_t> shape) {
    return {.shape = std::move(shape), .dtype = ACL_BOOL};
}

// 5.7: a compressed mask stands for its pattern, whatever it holds.
TEST(AcceptedModes, ContentOfCompressedMasksIsNotRead) {
    Call call = dense_call();
    call.mask = compressed_mask();
    call.mask->without_data = false;
    call.sparse_mode = 3;
    for (const bool byte : {false, true}) {
        call.hidden = [=](int64_t) { return byte; };
        expect_counts(call, {3, 3}, 4, [](int64_t, int64_t, int64_t row) { return row + 3; });
    }
}

// 5.13, 5.14: a window of W tokens that ends with the token itself.
TEST(AcceptedModes, WindowOfWTokens) {
    Call call = dense_call("BSND", {.sq = 7, .skv = 7});
    call.mask = compressed_mask();
    call.sparse_mode = 4;
    call.pre = 2;
    call.next = 0;
    expect_counts_in(dense_versions(), call, {7, 7},
                     [](int64_t, int64_t, int64_t row) { return std::min<int64_t>(row + 1, 3); });
    call.pre = 3;  // one token more
    expect_counts(call, {7, 7}, 4, [](int64_t, int64_t, int64_t row) { return std::min<int64_t>(row + 1, 4); });
    call.next = 1;  // and a look at the next token
    expect_counts(call, {7, 7}, 4,
                  [](int64_t, int64_t, int64_t row) { return std::min<int64_t>(row + 1, 4) + (row < 6 ? 1 : 0); });
}

// 5.16: where mask and window say different things, both must allow a key.
TEST(AcceptedModes, MaskAndWindowIntersect) {
    Call call = dense_call("BNSD", {.sq = 5, .skv = 5});
    call.mask = byte_mask({5, 5});
    call.hidden = [](int64_t i) { return i % 5 == 0; };  // key 0
    call.pre = 1;
    call.next = 1;
    expect_counts_in(dense_versions(), call, {5, 5}, [](int64_t, int64_t, int64_t row) {
        return std::min<int64_t>(row + 1, 4) - std::max<int64_t>(row - 1, 1) + 1;
    });
}

TEST(AcceptedModes, PrefixOfFullMasks) {
    Call call = dense_call();
    call.sparse_mode = 5;
    call.prefix = list({2, 5});
    const auto visible = [](int64_t b, int64_t, int64_t row) { return b == 0 ? row + 3 : 5; };
    for (const auto& shape : {std::vector<int64_t>{2, 4, 3, 5}, {2, 1, 3, 5}}) {
        call.mask = byte_mask(shape);
        call.hidden = [](int64_t) { return false; };
        expect_counts_in(dense_versions(), call, {3, 3}, visible);
        call.hidden = [](int64_t i) { return i % 5 == 0; };  // key 0, inside every prefix
        expect_counts(call, {3, 3}, 4, [&](auto... at) { return visible(at...) - 1; });
    }
    // One batch entry makes all shapes of full masks the same.
    call = dense_call("BSND", {.b = 1});
    call.sparse_mode = 5;
    call.prefix = list({4});
    for (const auto& shape : {std::vector<int64_t>{1, 4, 3, 5}, {1, 1, 3, 5}, {3, 5}}) {
        call.mask = byte_mask(shape);
        expect_counts(call, {3}, 4, [](int64_t, int64_t, int64_t row) { return std::max<int64_t>(row + 3, 4); });
    }
}

// Without a valid list sparseMode 5 shows what the mask shows.
TEST(AcceptedModes, InvalidPrefixesOfFullMasks) {
    Call call = dense_call();
    call.sparse_mode = 5;
    call.mask = byte_mask({2, 1, 3, 5});
    call.hidden = [](int64_t i) { return i % 5 == 4; };

    for (const List& prefix :
         {List{}, list({}), list({3}), list({3, 3, 3}), list({3, 6}), list({1, 3}), list({-1, kHighest})}) {
        call.prefix = prefix;
        expect_counts_in(dense_versions(), call, {3, 3}, [](auto...) { return 4; });
    }
}

TEST(AcceptedModes, CompressedPrefixOfDenseBatches) {
    for (const auto& shape : {std::vector<int64_t>{3072, 2048}, {1, 1, 3072, 2048}}) {
        Call call = dense_call("SBH");
        call.sparse_mode = 6;
        call.mask = compressed_mask(shape);
        call.prefix = list({2, 4});
        expect_counts_in(dense_versions(), call, {3, 3},
                         [](int64_t b, int64_t, int64_t row) { return std::max<int64_t>(row + 3, b == 0 ? 2 : 4); });
        call = dense_call("BSND", {.sq = 6, .skv = 4});
        call.sparse_mode = 6;
        call.mask = compressed_mask(shape);
        call.prefix = list({2, 0});  // leaves two rows without keys
        expect_counts(call, {6, 6}, 4,
                      [](int64_t b, int64_t, int64_t row) { return std::max<int64_t>(row - 1, b == 0 ? 2 : 0); });
    }
}

TEST(AcceptedModes, CompressedPrefixOfSequences) {
    Call call = varlen_call({4, 0, 6, 2}, {6, 2, 4, 0});
    call.sparse_mode = 6;
    call.mask = compressed_mask({3072, 2048});
    call.prefix = list({4, 0, 2, 0});  // of sequences without rows or keys any entry does
    expect_counts_in(tnd_versions(), call, {4, 0, 6, 2}, [](int64_t s, int64_t, int64_t row) {
        if (s == 3) return kNoKeys;
        return s == 0 ? std::max<int64_t>(row + 3, 4) : std::max<int64_t>(row - 1, 2);
    });
}

// The documented splits of a batch over two cards.
TEST(AcceptedModes, SplitBatches) {
    Call call = varlen_call({3, 2}, {3, 6});
    call.mask = compressed_mask();
    call.sparse_mode = 7;
    call.pre = 6;
    call.next = -2;
    expect_counts_in(tnd_versions(), call, {3, 2},
                     [](int64_t s, int64_t, int64_t row) { return s == 0 ? row + 1 : row + 3; });
    // Sequences without rows do not take the band.
    call = varlen_call({3, 2, 0}, {3, 6, 1});
    call.mask = compressed_mask({1, 1, 2048, 2048});
    call.sparse_mode = 7;
    call.pre = 6;
    call.next = -2;
    expect_counts(call, {3, 2}, 4, [](int64_t s, int64_t, int64_t row) { return s == 0 ? row + 1 : row + 3; });

    call = varlen_call({3, 5, 4}, {4, 5, 4});
    call.mask = compressed_mask();
    call.sparse_mode = 8;
    call.pre = 4;
    call.next = 1;
    const auto visible = [](int64_t s, int64_t, int64_t row) {
        return s == 0 ? std::min<int64_t>(row + 3, 4) : row + 1;
    };
    expect_counts_in(tnd_versions(), call, {3, 5, 4}, visible);
    call = varlen_call({0, 3, 5, 4}, {2, 4, 5, 4});
    call.mask = compressed_mask();
    call.sparse_mode = 8;
    call.pre = kHighest;
    call.next = 1;
    expect_counts(call, {0, 3, 5, 4}, 4,
                  [&](int64_t s, int64_t head, int64_t row) { return visible(s - 1, head, row); });
}

// 4.14: windows, bands and prefixes mean nothing where there are no keys at all.
TEST(AcceptedModes, NothingToAttend) {
    for (const int64_t mode : {4, 6, 7, 8}) {
        Call call = varlen_call({3, 2}, {0, 0});
        call.mask = compressed_mask({mode == 6 ? 3072 : 2048, 2048});
        call.sparse_mode = mode;
        call.pre = call.next = -5;
        call.prefix = list({0, 0});
        expect_counts_in(tnd_versions(), call, {3, 2}, [](auto...) { return kNoKeys; });
    }
}

}  // namespace
}  // namespace flash_attention::testing
