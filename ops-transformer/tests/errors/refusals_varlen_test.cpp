// TND calls with one mistake in what every version has: 161002 and the exact sentence. The legal call has the lengths q
// 3, 0, 4 and kv 5, 2, 4 (Tq 7, Tkv 11), N 4/2, D 8, float, without a mask. Numbers name entries of the list of known
// mistakes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "call.h"

namespace flash_attention::testing {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();

Call legal() {
    return varlen_call();
}

TEST(RefusalsVarLen, TensorsAndLayout) {
    expect_all_refused(
        tnd_versions(), legal,
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
            {"scale", [](Call& c) { c.scale = std::nan(""); }, "scaleValue must be a finite float: got nan"},
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

// 4.1
TEST(RefusalsVarLen, OtherLayouts) {
    for (const Version version : varlen_versions()) {
        Call call = legal();
        call.version = version;
        for (const std::string layout : {"BSH", "NTD", "BSND", ""}) {
            call.layout = layout.c_str();
            expect_refused(call, 161002,
                           "inputLayout \"" + layout + "\" is not supported by VarLen operators: expected TND");
        }
    }
}

TEST(RefusalsVarLen, Lists) {
    expect_all_refused(
        tnd_versions(), legal,
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

}  // namespace
}  // namespace flash_attention::testing
