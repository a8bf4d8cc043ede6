// aclnnFlashAttentionVarLenScore with one mistake: 161002 and the exact sentence. The legal call has the lengths q 3,
// 0, 4 and kv 5, 2, 4 (Tq 7, Tkv 11), N 4/2, D 8, float, without a mask. Numbers name entries of the list of known
// mistakes.
#include <gtest/gtest.h>

#include <limits>

#include "call.h"

namespace flash_attention::testing {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();

Call legal() {
    return varlen_call();
}

void set_mask(Call& call, int64_t mode, std::vector<int64_t> shape) {
    call.sparse_mode = mode;
    call.mask = TensorSpec{.shape = std::move(shape), .dtype = ACL_BOOL, .without_data = true};
}

TEST(RefusalsVarLen, TensorsAndLayout) {
    expect_all_refused(
        legal,
        {
            {"3.3", [](Call& c) { c.value->dtype = ACL_BF16; },
             "query, key and value must have the same dtype: got FLOAT, FLOAT, BFLOAT16"},
            {"3.4", [](Call& c) { set_dtype(c, ACL_INT32); },
             "query dtype INT32 is not supported: expected FLOAT16, BFLOAT16 or FLOAT"},
            {"3.5", [](Call& c) { c.out->dtype = ACL_BF16; },
             "attentionOutOut dtype BFLOAT16 must equal query dtype FLOAT"},
            {"3.6", [](Call& c) { c.sum->dtype = ACL_FLOAT16; },
             "softmaxSumOut dtype FLOAT16 is not supported: expected FLOAT"},
            {"3.12", [](Call& c) { c.key->format = ACL_FORMAT_FRACTAL_NZ; },
             "key format FRACTAL_NZ is not supported: expected ND"},
            {"realShift", [](Call& c) { c.real_shift = TensorSpec{.shape = {124}}; },
             "realShiftOptional is not supported yet: got a tensor of shape [124], expected nullptr"},
            {"dropMask", [](Call& c) { c.drop_mask = TensorSpec{.shape = {16}, .dtype = ACL_UINT8}; },
             "dropMaskOptional is not supported yet: got a tensor of shape [16], expected nullptr"},
            {"4.1", [](Call& c) { c.layout = "BSH"; },
             "inputLayout \"BSH\" is not supported by VarLen operators: expected TND"},
            {"4.1 NTD", [](Call& c) { c.layout = "NTD"; },
             "inputLayout \"NTD\" is not supported by VarLen operators: expected TND"},
            {"4.3",
             [](Call& c) {
                 c.key->shape = {11, 16};
             },
             "key has 2 dimensions [11, 16], but inputLayout \"TND\" needs 3"},
            {"4.5", [](Call& c) { c.head_num = -4; }, "headNum must be positive: got -4"},
            {"4.6", [](Call& c) { c.head_num = 2; }, "headNum is 2, but query dim 1 (N of \"TND\") is 4"},
            {"4.8", [](Call& c) { c.key->shape[1] = c.value->shape[1] = 3; },
             "query has 4 heads and key has 3: the number of query heads must be a multiple of the number of key "
             "heads"},
            {"4.9", [](Call& c) { c.query->shape[2] = 16; }, "head dimension of key 8 must equal that of query 16"},
            {"4.10", [](Call& c) { c.value->shape[0] = 12; },
             "key shape [11, 2, 8] and value shape [12, 2, 8] must be equal except for the last dimension"},
            {"4.11",
             [](Call& c) {
                 c.max->shape = {7, 4};
             },
             "softmaxMaxOut shape [7, 4]: expected [7, 4, 8] or as many elements with last dimension 8"},
            {"4.11 last dimension",
             [](Call& c) {
                 c.max->shape = {7, 8, 4};
             },
             "softmaxMaxOut shape [7, 8, 4]: expected [7, 4, 8] or as many elements with last dimension 8"},
            {"4.11 out",
             [](Call& c) {
                 c.out->shape = {4, 7, 8};
             },
             "attentionOutOut shape [4, 7, 8]: expected [7, 4, 8]"},
        });
}

TEST(RefusalsVarLen, Lists) {
    expect_all_refused(
        legal,
        {
            {"6.1", [](Call& c) { c.q_ends.reset(); }, "actualSeqQLenOptional cannot be empty for inputLayout \"TND\""},
            {"6.1 kv", [](Call& c) { c.kv_ends.reset(); },
             "actualSeqKvLenOptional cannot be empty for inputLayout \"TND\""},
            {"6.1 empty", [](Call& c) { c.q_ends->clear(); },
             "actualSeqQLenOptional cannot be empty for inputLayout \"TND\""},
            {"6.2",
             [](Call& c) {
                 c.kv_ends = {5, 7, 11, 11};
             },
             "actualSeqQLenOptional has 3 entries, actualSeqKvLenOptional has 4: they must have the same length"},
            {"6.5",
             [](Call& c) {
                 c.q_ends = {3, 3, 12};
             },
             "T of query is 7, but actualSeqQLenOptional sums to 12"},
            {"6.5 kv",
             [](Call& c) {
                 c.kv_ends = {5, 7, 12};
             },
             "T of key is 11, but actualSeqKvLenOptional sums to 12"},
            {"6.5 before zeros",
             [](Call& c) {
                 c.q_ends = {3, 8, 0};
             },
             "T of query is 7, but actualSeqQLenOptional sums to 8"},
            {"6.5 huge",
             [](Call& c) {
                 c.q_ends = {3, 3, std::numeric_limits<int64_t>::max()};
             },
             "T of query is 7, but actualSeqQLenOptional sums to 9223372036854775807"},
            {"6.7",
             [](Call& c) {
                 c.kv_ends = {5, 5, 3};
             },
             "actualSeqKvLenOptional is not non-decreasing: entry 2 is 3 after 5"},
            {"6.7 zero inside",
             [](Call& c) {
                 c.q_ends = {3, 0, 7};
             },
             "actualSeqQLenOptional is not non-decreasing: entry 1 is 0 after 3"},
            {"6.7 negative",
             [](Call& c) {
                 c.q_ends = {-1, 3, 7};
             },
             "actualSeqQLenOptional is not non-decreasing: entry 0 is -1 after 0"},
            {"6.7 lowest",
             [](Call& c) {
                 c.q_ends = {3, 7, kLowest};
             },
             "actualSeqQLenOptional is not non-decreasing: entry 2 is -9223372036854775808 after 7"},
        });
}

TEST(RefusalsVarLen, Masks) {
    expect_all_refused(
        legal, {
                   {"3.7",
                    [](Call& c) {
                        c.mask = TensorSpec{.shape = {4, 5}, .dtype = ACL_FLOAT16};
                    },
                    "attenMaskOptional dtype FLOAT16 is not supported: expected BOOL or UINT8 (1 = position is masked "
                    "out). An "
                    "additive float mask belongs into realShiftOptional"},
                   {"5.3",
                    [](Call& c) {
                        set_mask(c, 0, {1, 4, 5});
                    },
                    "attenMaskOptional must have 2 or 4 dimensions: got 3"},
                   {"5.5",
                    [](Call& c) {
                        set_mask(c, 3, {4, 5});
                    },
                    "sparseMode 3 needs a compressed attenMaskOptional of shape [2048, 2048]: got [4, 5]. Use "
                    "sparseMode 0 or 1 "
                    "for a full mask"},
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
                   {"mode 6",
                    [](Call& c) {
                        set_mask(c, 6, {3072, 2048});
                    },
                    "sparseMode 6 is not supported yet: expected 0, 1, 2, 3 or 4"},
                   {"mode 7",
                    [](Call& c) {
                        set_mask(c, 7, {2048, 2048});
                    },
                    "sparseMode 7 is not supported yet: expected 0, 1, 2, 3 or 4"},
                   {"mode 8",
                    [](Call& c) {
                        set_mask(c, 8, {2048, 2048});
                    },
                    "sparseMode 8 is not supported yet: expected 0, 1, 2, 3 or 4"},
                   {"5.23",
                    [](Call& c) {
                        set_mask(c, 0, {7, 5});
                    },
                    "attenMaskOptional shape [7, 5] is not supported: expected [maxSq, maxSkv] = [4, 5], [sumSq, "
                    "sumSkv] = [7, "
                    "11], or [1, 1, maxSq, maxSkv], [B, 1, maxSq, maxSkv], [B, N, maxSq, maxSkv] with B=3, N=4"},
                   {"5.23 4-D sums",
                    [](Call& c) {
                        set_mask(c, 1, {1, 1, 7, 11});
                    },
                    "attenMaskOptional shape [1, 1, 7, 11] is not supported: expected [maxSq, maxSkv] = [4, 5], "
                    "[sumSq, sumSkv] "
                    "= [7, 11], or [1, 1, maxSq, maxSkv], [B, 1, maxSq, maxSkv], [B, N, maxSq, maxSkv] with B=3, N=4"},
                   {"5.23 heads only",
                    [](Call& c) {
                        set_mask(c, 1, {1, 4, 4, 5});
                    },
                    "attenMaskOptional shape [1, 4, 4, 5] is not supported: expected [maxSq, maxSkv] = [4, 5], [sumSq, "
                    "sumSkv] = "
                    "[7, 11], or [1, 1, maxSq, maxSkv], [B, 1, maxSq, maxSkv], [B, N, maxSq, maxSkv] with B=3, N=4"},
               });
}

TEST(RefusalsVarLen, Windows) {
    expect_all_refused(
        legal,
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
                 c.next = std::numeric_limits<int64_t>::max();
             },
             "sparseMode 0: batch 0 has Sq 3, Skv 5, and preTokens -9223372036854775808 leaves rows without visible "
             "key: "
             "expected at least -2"},
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
             "visible "
             "key: expected preTokens >= 0, preTokens + nextTokens >= 0 and nextTokens >= -2"},
            {"5.18 sum",
             [](Call& c) {
                 c = varlen_call({3}, {9});
                 set_mask(c, 4, {2048, 2048});
                 c.pre = 1;
                 c.next = -2;
             },
             "sparseMode 4: batch 0 has Sq 3, Skv 9, and preTokens 1, nextTokens -2 leave rows without visible key: "
             "expected preTokens >= 0, preTokens + nextTokens >= 0 and nextTokens >= -6"},
            {"6.9", [](Call& c) { c.keep_prob = 1.25; }, "keepProb must be in (0, 1]: got 1.25"},
        });
}

}  // namespace
}  // namespace flash_attention::testing
