// attenMaskOptional, sparse modes 0 to 4 and their windows with one mistake: 161002 and the exact sentence. The legal
// calls have Sq 3, Skv 5 (dense, B 2) and the lengths q 3, 0, 4 and kv 5, 2, 4 (TND), N 4/2, D 8, float, without a
// mask. Numbers name entries of the list of known mistakes.
#include <gtest/gtest.h>

#include <limits>

#include "call.h"

namespace flash_attention::testing {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();

Call dense() {
    return dense_call();
}
Call tnd() {
    return varlen_call();
}

void set_mask(Call& call, int64_t mode, std::vector<int64_t> shape) {
    call.sparse_mode = mode;
    call.mask = byte_tensor(std::move(shape), ACL_BOOL);
}

TEST(RefusalsMask, DenseMasks) {
    expect_all_refused(
        dense_versions(), dense,
        {
            {"5.1",
             [](Call& c) {
                 c = dense_call("BNSD", {.b = 16, .skv = 1500});
                 c.mask = byte_tensor({16, 1, 1, 1500});
             },
             "attenMaskOptional shape [16, 1, 1, 1500] is not supported: expected [16, N, Sq, Skv], [16, 1, Sq, Skv], "
             "[1, 1, Sq, Skv] or [Sq, Skv] with N=4, Sq=3, Skv=1500. Expand the mask over the query axis"},
            {"5.2",
             [](Call& c) {
                 c.mask = byte_tensor({2, 5});
             },
             "attenMaskOptional shape [2, 5] is not supported: expected [2, N, Sq, Skv], [2, 1, Sq, Skv], [1, 1, Sq, "
             "Skv] or [Sq, Skv] with N=4, Sq=3, Skv=5. Expand the mask over the query axis"},
            {"5.1 heads only",
             [](Call& c) {
                 c.mask = byte_tensor({1, 4, 3, 5});
                 c.sparse_mode = 1;
             },
             "attenMaskOptional shape [1, 4, 3, 5] is not supported: expected [2, N, Sq, Skv], [2, 1, Sq, Skv], [1, 1, "
             "Sq, Skv] or [Sq, Skv] with N=4, Sq=3, Skv=5. Expand the mask over the query axis"},
            {"5.1 other heads",
             [](Call& c) {
                 c.mask = byte_tensor({2, 2, 3, 5});
             },
             "attenMaskOptional shape [2, 2, 3, 5] is not supported: expected [2, N, Sq, Skv], [2, 1, Sq, Skv], [1, 1, "
             "Sq, Skv] or [Sq, Skv] with N=4, Sq=3, Skv=5. Expand the mask over the query axis"},
            {"5.1 other batch",
             [](Call& c) {
                 c.mask = byte_tensor({3, 1, 3, 5});
             },
             "attenMaskOptional shape [3, 1, 3, 5] is not supported: expected [2, N, Sq, Skv], [2, 1, Sq, Skv], [1, 1, "
             "Sq, Skv] or [Sq, Skv] with N=4, Sq=3, Skv=5. Expand the mask over the query axis"},
            {"5.3",
             [](Call& c) {
                 c.mask = byte_tensor({2, 3, 5});
             },
             "attenMaskOptional must have 2 or 4 dimensions: got 3"},
            {"5.3 vector",
             [](Call& c) {
                 c.mask = byte_tensor({5});
                 c.sparse_mode = 3;
             },
             "attenMaskOptional must have 2 or 4 dimensions: got 1"},
            {"5.5",
             [](Call& c) {
                 c.mask = byte_tensor({4096, 4096});
                 c.sparse_mode = 3;
             },
             "sparseMode 3 needs a compressed attenMaskOptional of shape [2048, 2048]: got [4096, 4096]. Use "
             "sparseMode 0 or 1 for a full mask"},
            {"5.5 mode 2",
             [](Call& c) {
                 c.mask = byte_tensor({3, 5});
                 c.sparse_mode = 2;
             },
             "sparseMode 2 needs a compressed attenMaskOptional of shape [2048, 2048]: got [3, 5]. Use sparseMode 0 or "
             "1 for a full mask"},
            {"5.5 mode 4",
             [](Call& c) {
                 c.mask = byte_tensor({2, 1, 2048, 2048});
                 c.sparse_mode = 4;
             },
             "sparseMode 4 needs a compressed attenMaskOptional of shape [2048, 2048]: got [2, 1, 2048, 2048]. Use "
             "sparseMode 0 or 1 for a full mask"},
            {"5.6",
             [](Call& c) {
                 set_mask(c, 6, {2048, 2048});
             },
             "sparseMode 6 needs a compressed attenMaskOptional of shape [3072, 2048]: got [2048, 2048]. Use "
             "sparseMode 0 or 1 for a full mask"},
            {"5.6 full mask",
             [](Call& c) {
                 set_mask(c, 6, {2, 1, 3072, 2048});
             },
             "sparseMode 6 needs a compressed attenMaskOptional of shape [3072, 2048]: got [2, 1, 3072, 2048]. Use "
             "sparseMode 0 or 1 for a full mask"},
            {"mode 5, one mask for all",
             [](Call& c) {
                 set_mask(c, 5, {3, 5});
             },
             "attenMaskOptional shape [3, 5] is not supported by sparseMode 5: expected [2, N, Sq, Skv] or [2, 1, Sq, "
             "Skv] with N=4, Sq=3, Skv=5"},
            {"mode 5, one mask in four dimensions",
             [](Call& c) {
                 set_mask(c, 5, {1, 1, 3, 5});
             },
             "attenMaskOptional shape [1, 1, 3, 5] is not supported by sparseMode 5: expected [2, N, Sq, Skv] or [2, "
             "1, Sq, Skv] with N=4, Sq=3, Skv=5"},
            {"mode 5, compressed",
             [](Call& c) {
                 set_mask(c, 5, {3072, 2048});
             },
             "attenMaskOptional shape [3072, 2048] is not supported by sparseMode 5: expected [2, N, Sq, Skv] or [2, "
             "1, Sq, Skv] with N=4, Sq=3, Skv=5"},
            {"5.10",
             [](Call& c) {
                 c.mask = byte_tensor({3, 5});
                 c.sparse_mode = 9;
             },
             "sparseMode 9 is not supported: expected 0..6"},
            {"5.10 negative",
             [](Call& c) {
                 c.mask = byte_tensor({3, 5});
                 c.sparse_mode = -1;
             },
             "sparseMode -1 is not supported: expected 0..6"},
            {"5.11 mode 7",
             [](Call& c) {
                 c.mask = byte_tensor({2048, 2048});
                 c.sparse_mode = 7;
             },
             "sparseMode 7 is not supported: expected 0..6"},
            {"5.11 mode 8",
             [](Call& c) {
                 c.mask = byte_tensor({2048, 2048});
                 c.sparse_mode = 8;
             },
             "sparseMode 8 is not supported: expected 0..6"},
        });
}

// 5.12: windows beside the whole matrix. Sq 3, Skv 5.
TEST(RefusalsMask, DenseWindows) {
    struct Window {
        int64_t mode, pre, next;
    };
    for (const Window& window : {Window{0, -4, 2},
                                 {0, -1, -1},
                                 {0, -5, 7},
                                 {0, 9, -3},
                                 {0, 1, -2},
                                 {0, kLowest, kHighest},
                                 {0, kHighest, kLowest},
                                 {0, kLowest, kLowest},
                                 // the bottom right corner lies two keys further to the right
                                 {4, -3, 9},
                                 {4, -2, 1},
                                 {4, 9, -5},
                                 {4, 3, -4},
                                 {4, 1, -3},
                                 {4, kLowest, kHighest},
                                 {4, kHighest, kLowest}}) {
        SCOPED_TRACE(::testing::Message() << "mode " << window.mode);
        Call call = dense();
        call.sparse_mode = window.mode;
        call.pre = window.pre;
        call.next = window.next;
        call.mask = window.mode == 4 ? byte_tensor({2048, 2048}) : byte_tensor({3, 5});
        for (const Version version : dense_versions()) {
            call.version = version;
            expect_refused(call, 161002,
                           "preTokens " + std::to_string(window.pre) + " and nextTokens " +
                               std::to_string(window.next) + " leave no visible position for Sq=3, Skv=5");
        }
    }
}

TEST(RefusalsMask, TndMasks) {
    expect_all_refused(
        tnd_versions(), tnd,
        {
            {"3.7",
             [](Call& c) {
                 c.mask = TensorSpec{.shape = {4, 5}, .dtype = ACL_FLOAT16};
             },
             "attenMaskOptional dtype FLOAT16 is not supported: expected BOOL or UINT8 (1 = position is masked out). "
             "An additive float mask belongs into realShiftOptional"},
            {"5.3",
             [](Call& c) {
                 set_mask(c, 0, {1, 4, 5});
             },
             "attenMaskOptional must have 2 or 4 dimensions: got 3"},
            {"5.5 mode 7",
             [](Call& c) {
                 set_mask(c, 7, {3072, 2048});
             },
             "sparseMode 7 needs a compressed attenMaskOptional of shape [2048, 2048]: got [3072, 2048]. Use "
             "sparseMode 0 or 1 for a full mask"},
            {"5.5 mode 8",
             [](Call& c) {
                 set_mask(c, 8, {7, 11});
             },
             "sparseMode 8 needs a compressed attenMaskOptional of shape [2048, 2048]: got [7, 11]. Use sparseMode 0 "
             "or 1 for a full mask"},
            {"5.6",
             [](Call& c) {
                 set_mask(c, 6, {2048, 2048});
             },
             "sparseMode 6 needs a compressed attenMaskOptional of shape [3072, 2048]: got [2048, 2048]. Use "
             "sparseMode 0 or 1 for a full mask"},
            {"5.5",
             [](Call& c) {
                 set_mask(c, 3, {4, 5});
             },
             "sparseMode 3 needs a compressed attenMaskOptional of shape [2048, 2048]: got [4, 5]. Use sparseMode 0 or "
             "1 for a full mask"},
            {"5.10",
             [](Call& c) {
                 set_mask(c, 9, {4, 5});
             },
             "sparseMode 9 is not supported: expected 0, 1, 2, 3, 4, 6, 7 or 8"},
            {"5.10 negative",
             [](Call& c) {
                 set_mask(c, kLowest, {4, 5});
             },
             "sparseMode -9223372036854775808 is not supported: expected 0, 1, 2, 3, 4, 6, 7 or 8"},
            {"5.11",
             [](Call& c) {
                 set_mask(c, 5, {3, 4, 4, 5});
             },
             "sparseMode 5 is not supported: expected 0, 1, 2, 3, 4, 6, 7 or 8"},
            {"5.23",
             [](Call& c) {
                 set_mask(c, 0, {7, 5});
             },
             "attenMaskOptional shape [7, 5] is not supported: expected [maxSq, maxSkv] = [4, 5], [sumSq, sumSkv] = "
             "[7, 11], or [1, 1, maxSq, maxSkv], [B, 1, maxSq, maxSkv], [B, N, maxSq, maxSkv] with B=3, N=4"},
            {"5.23 4-D sums",
             [](Call& c) {
                 set_mask(c, 1, {1, 1, 7, 11});
             },
             "attenMaskOptional shape [1, 1, 7, 11] is not supported: expected [maxSq, maxSkv] = [4, 5], [sumSq, "
             "sumSkv] = [7, 11], or [1, 1, maxSq, maxSkv], [B, 1, maxSq, maxSkv], [B, N, maxSq, maxSkv] with B=3, N=4"},
            {"5.23 heads only",
             [](Call& c) {
                 set_mask(c, 1, {1, 4, 4, 5});
             },
             "attenMaskOptional shape [1, 4, 4, 5] is not supported: expected [maxSq, maxSkv] = [4, 5], [sumSq, "
             "sumSkv] = [7, 11], or [1, 1, maxSq, maxSkv], [B, 1, maxSq, maxSkv], [B, N, maxSq, maxSkv] with B=3, N=4"},
        });
}

TEST(RefusalsMask, TndWindows) {
    expect_all_refused(
        tnd_versions(), tnd,
        {
            {"mode 0, next < 0",
             [](Call& c) {
                 set_mask(c, 0, {4, 5});
                 c.next = -1;
             },
             "sparseMode 0: nextTokens -1 is not supported by VarLen operators: expected at least 0"},
            {"5.12",
             [](Call& c) {
                 set_mask(c, 0, {4, 5});
                 c.pre = -4;
                 c.next = 2;
             },
             "preTokens -4 and nextTokens 2 leave no visible position for Sq=3, Skv=5"},
            {"mode 0, short pre",
             [](Call& c) {
                 c = varlen_call({3, 9}, {5, 4});
                 set_mask(c, 0, {9, 5});
                 c.pre = 4;
             },
             "sparseMode 0: batch 1 has Sq 9, Skv 4, and preTokens 4 leaves rows without visible key: expected at "
             "least 5"},
            {"mode 0, lowest pre",
             [](Call& c) {
                 set_mask(c, 0, {4, 5});
                 c.pre = kLowest;
                 c.next = kHighest;
             },
             "sparseMode 0: batch 0 has Sq 3, Skv 5, and preTokens -9223372036854775808 leaves rows without visible "
             "key: expected at least -2"},
            {"5.17",
             [](Call& c) {
                 c = varlen_call({3, 0, 9}, {5, 2, 4});
                 set_mask(c, 3, {2048, 2048});
             },
             "sparseMode 3: batch 2 has Sq 9 > Skv 4 (rows without visible key)"},
            {"5.18",
             [](Call& c) {
                 c = varlen_call({3, 9}, {5, 4});
                 set_mask(c, 4, {2048, 2048});
                 c.pre = 100;
                 c.next = 0;
             },
             "sparseMode 4: batch 1 has Sq 9, Skv 4, and preTokens 100, nextTokens 0 leave rows without visible key: "
             "expected preTokens >= 0, preTokens + nextTokens >= 0 and nextTokens >= 5"},
            {"5.18 pre",
             [](Call& c) {
                 set_mask(c, 4, {2048, 2048});
                 c.pre = -1;
             },
             "sparseMode 4: batch 0 has Sq 3, Skv 5, and preTokens -1, nextTokens 2147483647 leave rows without "
             "visible key: expected preTokens >= 0, preTokens + nextTokens >= 0 and nextTokens >= -2"},
            {"5.18 sum",
             [](Call& c) {
                 c = varlen_call({3}, {9});
                 set_mask(c, 4, {2048, 2048});
                 c.pre = 1;
                 c.next = -2;
             },
             "sparseMode 4: batch 0 has Sq 3, Skv 9, and preTokens 1, nextTokens -2 leave rows without visible key: "
             "expected preTokens >= 0, preTokens + nextTokens >= 0 and nextTokens >= -6"},
        });
}

}  // namespace
}  // namespace flash_attention::testing
