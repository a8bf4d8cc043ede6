// With several mistakes in one backward call the first of the documented order is told.
#include <gtest/gtest.h>

#include <cmath>

#include "call.h"

namespace flash_attention::testing {
namespace {

const Mistake kNullQuery{"null query", [](Call& c) { c.query.reset(); }, "query cannot be nullptr", 161001};
const Mistake kNullDv{"null dv", [](Call& c) { c.dv.reset(); }, "dvOut cannot be nullptr", 161001};
const Mistake kNoHeads{"headNum", [](Call& c) { c.head_num = 0; }, "headNum must be positive: got 0"};
const Mistake kDtypes{"dtypes", [](Call& c) { c.dy->dtype = ACL_FLOAT16; },
                      "query, keyIn, value and dy must have the same dtype: got FLOAT, FLOAT, FLOAT, FLOAT16"};
const Mistake kMissingDsink{"dsink missing", [](Call& c) { c.dsink.reset(); },
                            "dsinkOut cannot be nullptr when sinkInOptional is given", 161001};
const Mistake kNoMaximum{"maximum missing", [](Call& c) { c.max.reset(); }, "softmaxMaxOptional cannot be nullptr",
                         161001};
const Mistake kSumDtype{"sum dtype", [](Call& c) { c.sum->dtype = ACL_FLOAT16; },
                        "softmaxSumOptional dtype FLOAT16 is not supported: expected FLOAT"};
const Mistake kOutDtype{"dtype of the output of forward", [](Call& c) { c.out->dtype = ACL_BF16; },
                        "attentionInOptional dtype BFLOAT16 must equal query dtype FLOAT"};
const Mistake kScale{"scale", [](Call& c) { c.scale = HUGE_VAL; }, "scaleValue must be a finite float: got inf"};
const Mistake kMissingDropMask{"dropMask missing", [](Call& c) { c.keep_prob = 0.5; },
                               "dropMaskOptional cannot be nullptr when keepProb is 0.5"};
const Mistake kMaskRank{"mask rank",
                        [](Call& c) {
                            c.mask->shape = {1, 3, 5};
                        },
                        "attenMaskOptional must have 2 or 4 dimensions: got 3"};
const Mistake kBiasDtype{"bias dtype", [](Call& c) { c.real_shift->dtype = ACL_FLOAT16; },
                         "pseShiftOptional dtype FLOAT16 must equal query dtype FLOAT for pseType 7"};
const Mistake kPseType{"pseType", [](Call& c) { c.pse_type = 7; }, "pseType 7 is not supported: expected 0, 1, 2 or 3"};
const Mistake kNoData{"no data", [](Call& c) { c.value->without_data = true; }, ""};

Mistake with_sentence(Mistake mistake, const char* sentence) {
    mistake.sentence = sentence;
    return mistake;
}

TEST(GradOrder, Dense) {
    expect_order(
        [] {
            Call call = dense_call();
            call.mask = TensorSpec{.shape = {3, 5}, .dtype = ACL_UINT8};
            call.sink = TensorSpec{.shape = {4}};
            call.real_shift = TensorSpec{.shape = {2, 4, 3, 5}};
            call = backward_of(call, Version::kGradV3);
            call.dpse = call.real_shift;
            return call;
        },
        {
            kNullQuery,
            kNullDv,
            kNoHeads,
            {"format", [](Call& c) { c.key->format = ACL_FORMAT_FRACTAL_NZ; },
             "keyIn format FRACTAL_NZ is not supported: expected ND"},
            kDtypes,
            {"layout", [](Call& c) { c.layout = "TND"; },
             "inputLayout \"TND\" is not supported: expected BSH, SBH, BSND or BNSD"},
            {"rank of a gradient",
             [](Call& c) {
                 c.dk->shape = {2, 2, 40};
             },
             "dkOut has 3 dimensions [2, 2, 40], but inputLayout \"BNSD\" needs 4"},
            {"value shape", [](Call& c) { c.value->shape[2] = 6; },
             "keyIn shape [3, 2, 5, 8] and value shape [3, 2, 6, 8] must be equal except for the last dimension"},
            {"dy shape", [](Call& c) { c.dy->shape[2] = 4; },
             "query shape [2, 4, 3, 16] and dy shape [2, 4, 4, 8] must be equal except for the last dimension"},
            {"batch", [](Call& c) { c.key->shape[0] = c.value->shape[0] = 3; },
             "query shape [2, 4, 3, 16] and keyIn shape [3, 2, 5, 8] must have the same batch: got 2 and 3"},
            {"output of forward", [](Call& c) { c.out->shape[3] = 6; },
             "dy shape [2, 4, 3, 8] and attentionInOptional shape [2, 4, 3, 6] must be equal"},
            {"dq", [](Call& c) { c.dq->shape[3] = 4; },
             "dqOut shape [2, 4, 3, 4]: expected [2, 4, 3, 16], the shape of query"},
            {"dv dtype", [](Call& c) { c.dv->dtype = ACL_BF16; }, "dvOut dtype BFLOAT16 must equal value dtype FLOAT"},
            {"dsink", [](Call& c) { c.dsink = TensorSpec{.shape = {3}}; },
             "dsinkOut must be FLOAT with shape [4]: got FLOAT [3]"},
            {"head dimension", [](Call& c) { c.query->shape[3] = c.dq->shape[3] = 16; },
             "head dimension of key 8 must equal that of query 16"},
            {"headNum is not N", [](Call& c) { c.head_num = 8; }, "headNum is 8, but query dim 1 (N of \"BNSD\") is 4"},
            kMissingDsink,
            kNoMaximum,
            kSumDtype,
            kOutDtype,
            kScale,
            kMissingDropMask,
            kMaskRank,
            kBiasDtype,
            kPseType,
            {"dpse", [](Call& c) { c.dpse->shape = {1}; },
             "dpseOut shape [1]: expected [2, 4, 3, 5], the shape of pseShiftOptional, or an empty tensor"},
            with_sentence(kNoData, "value has shape [2, 2, 5, 8], but its data address is nullptr"),
        });
}

TEST(GradOrder, Unpadding) {
    expect_order(
        [] {
            Call call = varlen_call({3, 0, 4}, {5, 2, 4});
            call.mask = TensorSpec{.shape = {4, 5}, .dtype = ACL_UINT8};
            call.sink = TensorSpec{.shape = {4}};
            call.real_shift = TensorSpec{.shape = {124}};
            return backward_of(call, Version::kUnpaddingGradV5);
        },
        {
            {"layout before pointers", [](Call& c) { c.layout = "BNSD"; },
             "inputLayout \"BNSD\" is not supported by Unpadding operators: expected TND"},
            {"layout of the statistics", [](Call& c) { c.softmax_out_layout = "NTD"; },
             "softmaxInLayout \"NTD\" is not supported: expected \"\" or \"same_as_input\""},
            kNullQuery,
            kNullDv,
            kNoHeads,
            kDtypes,
            {"rope",
             [](Call& c) {
                 c.key_rope = byte_tensor({11, 2, 4}, ACL_BF16);
             },
             "queryRope cannot be nullptr when keyInRope is given"},
            {"dk", [](Call& c) { c.dk->shape[0] = 12; },
             "dkOut shape [12, 2, 8]: expected [11, 2, 8], the shape of keyIn"},
            {"empty list", [](Call& c) { c.q_ends.reset(); },
             "actualSeqQLenOptional cannot be empty for inputLayout \"TND\""},
            {"list sum", [](Call& c) { (*c.kv_ends)[2] = 12; },
             "T of keyIn is 11, but actualSeqKvLenOptional sums to 12"},
            kMissingDsink,
            kNoMaximum,
            {"shape of the sum",
             [](Call& c) {
                 c.sum->shape = {4, 7, 8};
             },
             "softmaxSumOptional shape [4, 7, 8]: expected [7, 4, 8]"},
            kSumDtype,
            kOutDtype,
            kScale,
            kMissingDropMask,
            kMaskRank,
            {"window", [](Call& c) { c.next = -1; },
             "sparseMode 0: nextTokens -1 is not supported by VarLen operators: expected at least 0"},
            kBiasDtype,
            kPseType,
            with_sentence(kNoData, "value has shape [11, 2, 8], but its data address is nullptr"),
        });
}

// Nothing is looked at when there is nothing to write, except what comes before that.
TEST(GradOrder, EmptyGradientsComeAfterPointersOnly) {
    Call call = backward_of(dense_call());
    call.dq = call.dk = call.dv = TensorSpec{.shape = {2, 0}, .without_data = true};
    call.query->format = ACL_FORMAT_FRACTAL_NZ;
    call.head_num = -1;
    call.layout = "nonsense";
    call.max.reset();
    const Outcome outcome = run(call);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_EQ(outcome.workspace_size, 0U);
    EXPECT_FALSE(outcome.executor_is_null);
    call.value.reset();
    expect_refused(call, 161001, "value cannot be nullptr");
}

// A dpse that has elements is something to write.
TEST(GradOrder, OneGradientWithElementsIsEnough) {
    Call call = backward_of(dense_call());
    call.dq = call.dk = call.dv = TensorSpec{.shape = {2, 0}, .without_data = true};
    call.dpse = TensorSpec{.shape = {2}};
    call.head_num = -1;
    expect_refused(call, 161002, "headNum must be positive: got -1");
}

}  // namespace
}  // namespace flash_attention::testing
