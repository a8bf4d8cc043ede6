// With several mistakes in one call the first of the documented order is told. Each test starts with all mistakes at
// once and mends them one after the other.
#include <gtest/gtest.h>

#include <vector>

#include "call.h"

namespace flash_attention::testing {
namespace {

// `mistakes` in the order in which they are reported; a later one must not undo an earlier one.
void expect_order(Call (*legal)(), const std::vector<Mistake>& mistakes) {
    for (size_t first = 0; first < mistakes.size(); first++) {
        SCOPED_TRACE(mistakes[first]);
        Call call = legal();
        for (size_t i = mistakes.size(); i-- > first;) mistakes[i].make(call);
        expect_refused(call, mistakes[first].code, mistakes[first].sentence);
    }
    EXPECT_EQ(run(legal()).code, 0);
}

TensorSpec byte_mask(std::vector<int64_t> shape) {
    return {.shape = std::move(shape), .dtype = ACL_UINT8};
}

const Mistake kNullQuery{"null query", [](Call& c) { c.query.reset(); }, "query cannot be nullptr", 161001};
const Mistake kFormat{"format", [](Call& c) { c.key->format = ACL_FORMAT_FRACTAL_NZ; },
                      "key format FRACTAL_NZ is not supported: expected ND"};
const Mistake kDtypes{"dtypes", [](Call& c) { c.value->dtype = ACL_FLOAT16; },
                      "query, key and value must have the same dtype: got FLOAT, FLOAT, FLOAT16"};
const Mistake kRealShift{"realShift", [](Call& c) { c.real_shift = TensorSpec{.shape = {9}}; },
                         "realShiftOptional is not supported yet: got a tensor of shape [9], expected nullptr"};
const Mistake kNoHeads{"headNum", [](Call& c) { c.head_num = 0; }, "headNum must be positive: got 0"};
const Mistake kKeepProb{"keepProb", [](Call& c) { c.keep_prob = 2; }, "keepProb must be in (0, 1]: got 2"};
const Mistake kDropMask{"dropMask", [](Call& c) { c.drop_mask = byte_mask({16}); },
                        "dropMaskOptional is not supported yet: got a tensor of shape [16], expected nullptr"};
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
const Mistake kNoData{"no data", [](Call& c) { c.value->without_data = true; }, nullptr};

Mistake with_sentence(Mistake mistake, const char* sentence) {
    mistake.sentence = sentence;
    return mistake;
}

TEST(Order, Dense) {
    expect_order(
        [] {
            Call call = dense_call();
            call.mask = byte_mask({3, 5});
            return call;
        },
        {
            kNullQuery,
            kFormat,
            kDtypes,
            kRealShift,
            kNoHeads,
            {"layout", [](Call& c) { c.layout = "TND"; },
             "inputLayout \"TND\" is not supported: expected BSH, SBH, BSND or BNSD"},
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
            kKeepProb,
            kDropMask,
            kMaskDtype,
            {"mode", [](Call& c) { c.sparse_mode = 9; }, "sparseMode 9 is not supported: expected 0..6"},
            kMaskRank,
            {"window", [](Call& c) { c.pre = -9; },
             "preTokens -9 and nextTokens 2147483647 leave no visible position for Sq=3, Skv=5"},
            {"max shape",
             [](Call& c) {
                 c.max->shape = {2, 4, 3};
             },
             "softmaxMaxOut shape [2, 4, 3]: expected [2, 4, 3, 8]"},
            kSumDtype,
            kOutDtype,
            {"view", [](Call& c) { c.key->storage = {100}; },
             "key view exceeds its storage: needs element 159, storage has 100"},
            with_sentence(kNoData, "value has shape [2, 2, 5, 8], but its data address is nullptr"),
        });
}

TEST(Order, VarLen) {
    expect_order(
        [] {
            Call call = varlen_call({3, 0, 4}, {5, 2, 4});
            call.mask = byte_mask({4, 5});
            return call;
        },
        {
            {"layout before pointers", [](Call& c) { c.layout = "BNSD"; },
             "inputLayout \"BNSD\" is not supported by VarLen operators: expected TND"},
            kNullQuery,
            kFormat,
            kDtypes,
            kRealShift,
            kNoHeads,
            {"rank",
             [](Call& c) {
                 c.value->shape = {11, 16};
             },
             "value has 2 dimensions [11, 16], but inputLayout \"TND\" needs 3"},
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
            kKeepProb,
            kDropMask,
            kMaskDtype,
            {"mode", [](Call& c) { c.sparse_mode = 5; },
             "sparseMode 5 is not supported: expected 0, 1, 2, 3, 4, 6, 7 or 8"},
            kMaskRank,
            {"window", [](Call& c) { c.next = -1; },
             "sparseMode 0: nextTokens -1 is not supported by VarLen operators: expected at least 0"},
            kSumDtype,
            kOutDtype,
            with_sentence(kNoData, "value has shape [11, 2, 8], but its data address is nullptr"),
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
