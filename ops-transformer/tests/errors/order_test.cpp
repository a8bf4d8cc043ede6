// With several mistakes in one call the first of the documented order is told. Each test starts with all mistakes at
// once and mends them one after the other.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "call.h"

namespace flash_attention::testing {
namespace {

const Mistake kNullQuery{"null query", [](Call& c) { c.query.reset(); }, "query cannot be nullptr", 161001};
const Mistake kFormat{"format", [](Call& c) { c.key->format = ACL_FORMAT_FRACTAL_NZ; },
                      "key format FRACTAL_NZ is not supported: expected ND"};
const Mistake kDtypes{"dtypes", [](Call& c) { c.value->dtype = ACL_FLOAT16; },
                      "query, key and value must have the same dtype: got FLOAT, FLOAT, FLOAT16"};
const Mistake kPseType{"pseType", [](Call& c) { c.pse_type = 7; }, "pseType 7 is not supported: expected 0, 1, 2 or 3"};
const Mistake kBiasDtype{"bias dtype", [](Call& c) { c.real_shift->dtype = ACL_FLOAT16; },
                         "realShiftOptional dtype FLOAT16 must equal query dtype FLOAT for pseType 1"};
const Mistake kBiasDtypeOfWrongType{"bias dtype", [](Call& c) { c.real_shift->dtype = ACL_FLOAT16; },
                                    "realShiftOptional dtype FLOAT16 must equal query dtype FLOAT for pseType 7"};
const Mistake kNoHeads{"headNum", [](Call& c) { c.head_num = 0; }, "headNum must be positive: got 0"};
const Mistake kScale{"scale", [](Call& c) { c.scale = HUGE_VAL; }, "scaleValue must be a finite float: got inf"};
const Mistake kKeepProb{"keepProb", [](Call& c) { c.keep_prob = 2; }, "keepProb must be in (0, 1]: got 2"};
const Mistake kDropMaskDtype{"dropMask dtype", [](Call& c) { c.drop_mask->dtype = ACL_INT8; },
                             "dropMaskOptional dtype INT8: expected UINT8 (packed bits)"};
const Mistake kMaskDtype{
    "mask dtype", [](Call& c) { c.mask->dtype = ACL_INT8; },
    "attenMaskOptional dtype INT8 is not supported: expected BOOL or UINT8 (1 = position is masked "
    "out). An additive float mask belongs into realShiftOptional"};
const Mistake kMaskRank{"mask rank",
                        [](Call& c) {
                            c.mask->shape = {1, 3, 5};
                        },
                        "attenMaskOptional must have 2 or 4 dimensions: got 3"};
const Mistake kOutDtype{"out dtype", [](Call& c) { c.out->dtype = ACL_BF16; },
                        "attentionOutOut dtype BFLOAT16 must equal query dtype FLOAT"};
const Mistake kSumDtype{"sum dtype", [](Call& c) { c.sum->dtype = ACL_FLOAT16; },
                        "softmaxSumOut dtype FLOAT16 is not supported: expected FLOAT"};
const Mistake kNoData{"no data", [](Call& c) { c.value->without_data = true; }, ""};

Mistake drop_mask_size(const char* sentence) {
    return {"dropMask size", [](Call& c) { c.drop_mask = byte_tensor({9}); }, sentence};
}
Mistake bias_shape(const char* sentence) {
    return {"bias shape", [](Call& c) { c.real_shift = TensorSpec{.shape = {9}}; }, sentence};
}
Mistake with_sentence(Mistake mistake, const char* sentence) {
    mistake.sentence = sentence;
    return mistake;
}

const Mistake kDenseLayout{"layout", [](Call& c) { c.layout = "TND"; },
                           "inputLayout \"TND\" is not supported: expected BSH, SBH, BSND or BNSD"};

Call dense() {
    Call call = dense_call();
    call.version = Version::kScoreV3;
    call.mask = TensorSpec{.shape = {3, 5}, .dtype = ACL_UINT8};
    return call;
}

TEST(Order, Dense) {
    expect_order(
        dense,
        {
            kNullQuery,
            kFormat,
            kDtypes,
            kBiasDtypeOfWrongType,
            kOutDtype,  // this version looks at it with the inputs
            kNoHeads,
            kDenseLayout,
            {"rank",
             [](Call& c) {
                 c.value->shape = {2, 2, 40};
             },
             "value has 3 dimensions [2, 2, 40], but inputLayout \"BNSD\" needs 4"},
            {"head dimension", [](Call& c) { c.query->shape[3] = 16; },
             "head dimension of key 8 must equal that of query 16"},
            {"headNum is not N", [](Call& c) { c.head_num = 8; }, "headNum is 8, but query dim 1 (N of \"BNSD\") is 4"},
            {"head counts", [](Call& c) { c.key->shape[1] = 3; },
             "query has 4 heads and key has 3: the number of query heads must be a multiple of the number of key "
             "heads"},
            {"value shape", [](Call& c) { c.value->shape[2] = 6; },
             "key shape [2, 2, 5, 8] and value shape [2, 2, 6, 8] must be equal except for the last dimension"},
            kScale,
            kKeepProb,
            kDropMaskDtype,
            drop_mask_size("dropMaskOptional has 9 bytes, needs at least 15 for 120 elements"),
            kMaskDtype,
            {"mode", [](Call& c) { c.sparse_mode = 9; }, "sparseMode 9 is not supported: expected 0..6"},
            kMaskRank,
            {"window", [](Call& c) { c.pre = -9; },
             "preTokens -9 and nextTokens 2147483647 leave no visible position for Sq=3, Skv=5"},
            kPseType,
            bias_shape("realShiftOptional shape [9] is not supported: expected [2, 4, 3, 5], [1, 4, 3, 5], [2, 4, 1, "
                       "5], [1, 4, 1, 5] (no broadcasting over heads)"),
            {"max shape",
             [](Call& c) {
                 c.max->shape = {2, 4, 3};
             },
             "softmaxMaxOut shape [2, 4, 3]: expected [2, 4, 3, 8]"},
            kSumDtype,
            {"view", [](Call& c) { c.key->storage = {100}; },
             "key view exceeds its storage: needs element 159, storage has 100"},
            with_sentence(kNoData, "value has shape [2, 2, 5, 8], but its data address is nullptr"),
        });
}

// The sink's dtype is looked at with the other dtypes, its shape when the heads are known.
TEST(Order, Sink) {
    expect_order(
        dense,
        {
            kDtypes,
            kBiasDtype,
            {"sink dtype", [](Call& c) { c.sink->dtype = ACL_BF16; },
             "sinkOptional must be FLOAT with shape [4]: got BFLOAT16 [3]"},
            kDenseLayout,
            {"head counts", [](Call& c) { c.key->shape[1] = 3; },
             "query has 4 heads and key has 3: the number of query heads must be a multiple of the number of key "
             "heads"},
            {"sink shape", [](Call& c) { c.sink = TensorSpec{.shape = {3}}; },
             "sinkOptional must be FLOAT with shape [4]: got FLOAT [3]"},
            kScale,
            bias_shape("realShiftOptional shape [9] is not supported: expected [2, 4, 3, 5], [1, 4, 3, 5], [2, 4, 1, "
                       "5], [1, 4, 1, 5] (no broadcasting over heads)"),
        });
}

TEST(Order, VarLen) {
    expect_order(
        [] {
            Call call = varlen_call({3, 0, 4}, {5, 2, 4});
            call.version = Version::kVarLenV5;
            call.mask = TensorSpec{.shape = {4, 5}, .dtype = ACL_UINT8};
            return call;
        },
        {
            {"layout before pointers", [](Call& c) { c.layout = "BNSD"; },
             "inputLayout \"BNSD\" is not supported by VarLen operators: expected TND"},
            kNullQuery,
            kFormat,
            kDtypes,
            kBiasDtypeOfWrongType,
            kNoHeads,
            {"rank",
             [](Call& c) {
                 c.value->shape = {11, 16};
             },
             "value has 2 dimensions [11, 16], but inputLayout \"TND\" needs 3"},
            {"rope",
             [](Call& c) {
                 c.key_rope = byte_tensor({11, 2, 4}, ACL_BF16);
             },
             "queryRope cannot be nullptr when keyRope is given"},
            {"value heads", [](Call& c) { c.value->shape[1] = 1; },
             "key shape [11, 2, 8] and value shape [11, 1, 8] must be equal except for the last dimension"},
            {"empty list", [](Call& c) { c.q_ends.reset(); },
             "actualSeqQLenOptional cannot be empty for inputLayout \"TND\""},
            {"list lengths", [](Call& c) { c.kv_ends->push_back(11); },
             "actualSeqQLenOptional has 3 entries, actualSeqKvLenOptional has 4: they must have the same length"},
            {"list order", [](Call& c) { (*c.q_ends)[1] = 2; },
             "actualSeqQLenOptional is not non-decreasing: entry 1 is 2 after 3"},
            {"list sum", [](Call& c) { (*c.kv_ends)[2] = 12; },
             "T of key is 11, but actualSeqKvLenOptional sums to 12"},
            kScale,
            kKeepProb,
            kDropMaskDtype,
            drop_mask_size("dropMaskOptional has 9 bytes, needs at least 16 for 124 elements"),
            kMaskDtype,
            {"mode", [](Call& c) { c.sparse_mode = 5; },
             "sparseMode 5 is not supported: expected 0, 1, 2, 3, 4, 6, 7 or 8"},
            kMaskRank,
            {"window", [](Call& c) { c.next = -1; },
             "sparseMode 0: nextTokens -1 is not supported by VarLen operators: expected at least 0"},
            kPseType,
            bias_shape("realShiftOptional shape [9] is not supported: expected 124 elements (Nq * sum Sq*Skv), 44 (Nq "
                       "* sum Skv), [3, 4, 1024, 5] or [1, 4, 1024, 5]"),
            kSumDtype,
            kOutDtype,
            with_sentence(kNoData, "value has shape [11, 2, 8], but its data address is nullptr"),
        });
}

// In the order of the rules: both parts, dtypes, shapes, company.
TEST(Order, Rope) {
    expect_order(
        [] {
            Call call = varlen_call({3, 4}, {5, 4}, 4, 2, 32);
            call.version = Version::kVarLenV3;
            set_dtype(call, ACL_BF16);
            call.query_rope = TensorSpec{.shape = {7, 4, 16}, .dtype = ACL_BF16};
            call.key_rope = TensorSpec{.shape = {9, 2, 16}, .dtype = ACL_BF16};
            call.mask = compressed_mask();
            call.sparse_mode = 3;
            return call;
        },
        {
            kNoHeads,
            {"dtype", [](Call& c) { c.query_rope->dtype = ACL_FLOAT16; },
             "queryRope dtype FLOAT16 is not supported: expected BFLOAT16"},
            {"query shape", [](Call& c) { c.query_rope->shape[2] = 33; },
             "queryRope shape [7, 4, 33]: expected [7, 4, Drope] with 1 <= Drope <= 32"},
            {"key shape", [](Call& c) { c.key_rope->shape[1] = 4; }, "keyRope shape [9, 4, 16]: expected [9, 2, 16]"},
            {"company", [](Call& c) { c.mask.reset(); }, "queryRope needs attenMaskOptional"},
            {"list", [](Call& c) { c.kv_ends.reset(); },
             "actualSeqKvLenOptional cannot be empty for inputLayout \"TND\""},
            kScale,
        });
}

// Nothing is looked at when there is nothing to write, except what comes before that.
TEST(Order, EmptyOutputsComeAfterPointersOnly) {
    Call call = dense_call();
    call.max = call.sum = call.out = TensorSpec{.shape = {2, 0}, .without_data = true};
    call.query->format = ACL_FORMAT_FRACTAL_NZ;
    call.head_num = -1;
    call.layout = "nonsense";
    const Outcome outcome = run(call);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_EQ(outcome.workspace_size, 0U);
    EXPECT_FALSE(outcome.executor_is_null);
    call.value.reset();
    expect_refused(call, 161001, "value cannot be nullptr");
}

}  // namespace
}  // namespace flash_attention::testing
