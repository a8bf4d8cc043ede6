// Dense calls with one mistake in what every version has: 161002 and the exact sentence. The legal call is BNSD, B 2,
// N 4/2, Sq 3, Skv 5, D 8, float, without a mask. Numbers name entries of the list of known mistakes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "call.h"

namespace flash_attention::testing {
namespace {

Call legal() {
    return dense_call();
}

TEST(RefusalsDense, DtypesAndFormats) {
    expect_all_refused(dense_versions(), legal,
                       {
                           {"3.3",
                            [](Call& c) {
                                set_dtype(c, ACL_FLOAT16);
                                c.key->dtype = ACL_BF16;
                            },
                            "query, key and value must have the same dtype: got FLOAT16, BFLOAT16, FLOAT16"},
                           {"3.3 value", [](Call& c) { c.value->dtype = ACL_FLOAT16; },
                            "query, key and value must have the same dtype: got FLOAT, FLOAT, FLOAT16"},
                           {"3.4", [](Call& c) { set_dtype(c, ACL_DOUBLE); },
                            "query dtype DOUBLE is not supported: expected FLOAT16, BFLOAT16 or FLOAT"},
                           {"3.4 INT8", [](Call& c) { set_dtype(c, ACL_INT8); },
                            "query dtype INT8 is not supported: expected FLOAT16, BFLOAT16 or FLOAT"},
                           {"3.5",
                            [](Call& c) {
                                set_dtype(c, ACL_FLOAT16);
                                c.out->dtype = ACL_FLOAT;
                            },
                            "attentionOutOut dtype FLOAT must equal query dtype FLOAT16"},
                           {"3.6", [](Call& c) { c.max->dtype = ACL_FLOAT16; },
                            "softmaxMaxOut dtype FLOAT16 is not supported: expected FLOAT"},
                           {"3.6 sum", [](Call& c) { c.sum->dtype = ACL_BF16; },
                            "softmaxSumOut dtype BFLOAT16 is not supported: expected FLOAT"},
                           {"3.7",
                            [](Call& c) {
                                c.mask = TensorSpec{.shape = {3, 5}};
                            },
                            "attenMaskOptional dtype FLOAT is not supported: expected BOOL or UINT8 (1 = position is "
                            "masked out). An additive float mask belongs into realShiftOptional"},
                           {"3.7 INT32",
                            [](Call& c) {
                                c.mask = TensorSpec{.shape = {3, 5}, .dtype = ACL_INT32};
                            },
                            "attenMaskOptional dtype INT32 is not supported: expected BOOL or UINT8 (1 = position is "
                            "masked out). An additive float mask belongs into realShiftOptional"},
                           {"3.12", [](Call& c) { c.query->format = ACL_FORMAT_FRACTAL_NZ; },
                            "query format FRACTAL_NZ is not supported: expected ND"},
                           {"3.12 key", [](Call& c) { c.key->format = ACL_FORMAT_FRACTAL_NZ; },
                            "key format FRACTAL_NZ is not supported: expected ND"},
                           {"3.12 value", [](Call& c) { c.value->format = ACL_FORMAT_NC1HWC0; },
                            "value format NC1HWC0 is not supported: expected ND"},
                           {"3.12 mask",
                            [](Call& c) {
                                c.mask = byte_tensor({3, 5});
                                c.mask->format = ACL_FORMAT_FRACTAL_Z;
                            },
                            "attenMaskOptional format FRACTAL_Z is not supported: expected ND"},
                           {"3.12 max", [](Call& c) { c.max->format = ACL_FORMAT_FRACTAL_NZ; },
                            "softmaxMaxOut format FRACTAL_NZ is not supported: expected ND"},
                           {"3.12 out", [](Call& c) { c.out->format = ACL_FORMAT_FRACTAL_NZ; },
                            "attentionOutOut format FRACTAL_NZ is not supported: expected ND"},
                       });
}

// 4.1
TEST(RefusalsDense, LayoutsThatDoNotExist) {
    struct Layout {
        const char *given, *shown;
    };
    for (const Version version : dense_versions()) {
        Call call = legal();
        call.version = version;
        const bool tnd = traits(version).tnd;
        for (const Layout& layout :
             {Layout{"BNS", "BNS"},
              {"", ""},
              {"BSHD", "BSHD"},
              {"NTD", "NTD"},
              {"TND", "TND"},
              {"a text that is longer than thirty-two characters", "a text that is longer than thirt"}}) {
            call.layout = layout.given;
            if (tnd && layout.given == std::string("TND"))
                continue;  // the other way round it is the rank that is wrong
            expect_refused(call, 161002,
                           std::string("inputLayout \"") + layout.shown +
                               "\" is not supported: expected BSH, SBH, BSND" + (tnd ? ", BNSD or TND" : " or BNSD"));
        }
    }
}

TEST(RefusalsDense, LayoutsAndHeads) {
    expect_all_refused(
        dense_versions(), legal,
        {
            {"4.3",
             [](Call& c) {
                 c.query->shape = {1, 512, 512};
             },
             "query has 3 dimensions [1, 512, 512], but inputLayout \"BNSD\" needs 4"},
            {"4.3 key",
             [](Call& c) {
                 c.key->shape = {2, 2, 5, 8, 1};
             },
             "key has 5 dimensions [2, 2, 5, 8, 1], but inputLayout \"BNSD\" needs 4"},
            {"4.3 value", [](Call& c) { c.value->shape = {}; },
             "value has 0 dimensions [], but inputLayout \"BNSD\" needs 4"},
            {"4.3 BSH", [](Call& c) { c.layout = "bsh"; },
             "query has 4 dimensions [2, 4, 3, 8], but inputLayout \"BSH\" needs 3"},
            {"4.5", [](Call& c) { c.head_num = 0; }, "headNum must be positive: got 0"},
            {"4.5 negative", [](Call& c) { c.head_num = std::numeric_limits<int64_t>::min(); },
             "headNum must be positive: got -9223372036854775808"},
            {"4.6", [](Call& c) { c.head_num = 8; }, "headNum is 8, but query dim 1 (N of \"BNSD\") is 4"},
            {"4.6 BSND", [](Call& c) { c.layout = "BSND"; }, "headNum is 4, but query dim 2 (N of \"BSND\") is 3"},
            {"4.8", [](Call& c) { c = dense_call("BNSD", {.n = 8, .nkv = 3}); },
             "query has 8 heads and key has 3: the number of query heads must be a multiple of the number of key "
             "heads"},
            {"4.8 more key heads", [](Call& c) { c = dense_call("BSND", {.n = 2, .nkv = 4}); },
             "query has 2 heads and key has 4: the number of query heads must be a multiple of the number of key "
             "heads"},
        });
}

TEST(RefusalsDense, HeadDimensions) {
    expect_all_refused(
        dense_versions(), legal,
        {
            {"4.7",
             [](Call& c) {
                 c = dense_call("BSH");
                 c.head_num = 8;
                 c.query->shape = {2, 3, 500};
             },
             "last dimension 500 of query is not a multiple of headNum 8"},
            {"4.7 huge headNum",
             [](Call& c) {
                 c = dense_call("SBH");
                 c.head_num = std::numeric_limits<int64_t>::max();
             },
             "last dimension 32 of query is not a multiple of headNum 9223372036854775807"},
            {"4.7 key",
             [](Call& c) {
                 c = dense_call("BSH");
                 c.key->shape = {2, 5, 20};
             },
             "last dimension 20 of key is not a multiple of the head dimension 8"},
            {"4.7 value",
             [](Call& c) {
                 c = dense_call("BSH");
                 c.value->shape = {2, 5, 15};
             },
             "last dimension 15 of value is not a multiple of the number of key heads 2"},
            {"4.9",
             [](Call& c) {
                 c = dense_call("BNSD", {.d = 128});
                 c.key->shape.back() = 64;
             },
             "head dimension of key 64 must equal that of query 128"},
            {"4.9 value", [](Call& c) { c = dense_call("BNSD", {.d = 64, .dv = 128}); },
             "head dimension of value 128 must not exceed that of key 64"},
            {"4.9 large", [](Call& c) { c = dense_call("BNSD", {.d = 1024}); }, "head dimension 1024 exceeds 768"},
            {"4.9 769", [](Call& c) { c = dense_call("BSH", {.d = 769}); }, "head dimension 769 exceeds 768"},
        });
}

TEST(RefusalsDense, ShapesThatDoNotFitTogether) {
    expect_all_refused(
        dense_versions(), legal,
        {
            {"4.10 length", [](Call& c) { c.value->shape[2] = 6; },
             "key shape [2, 2, 5, 8] and value shape [2, 2, 6, 8] must be equal except for the last dimension"},
            {"4.10 heads", [](Call& c) { c.value->shape[1] = 1; },
             "key shape [2, 2, 5, 8] and value shape [2, 1, 5, 8] must be equal except for the last dimension"},
            {"4.10 batch", [](Call& c) { c.key->shape[0] = c.value->shape[0] = 3; },
             "query shape [2, 4, 3, 8] and key shape [3, 2, 5, 8] must have the same batch: got 2 and 3"},
            {"4.10 batch SBH",
             [](Call& c) {
                 c = dense_call("SBH");
                 c.key->shape[1] = c.value->shape[1] = 1;
             },
             "query shape [3, 2, 32] and key shape [5, 1, 16] must have the same batch: got 2 and 1"},
            {"4.11",
             [](Call& c) {
                 c.max->shape = {2, 4, 3};
             },
             "softmaxMaxOut shape [2, 4, 3]: expected [2, 4, 3, 8]"},
            {"4.11 sum",
             [](Call& c) {
                 c.sum->shape = {2, 3, 4, 8};
             },
             "softmaxSumOut shape [2, 3, 4, 8]: expected [2, 4, 3, 8]"},
            {"4.11 empty", [](Call& c) { c.sum->shape = {0}; }, "softmaxSumOut shape [0]: expected [2, 4, 3, 8]"},
            {"4.11 Dv",
             [](Call& c) {
                 c = dense_call("BNSD", {.dv = 4});
                 c.out->shape.back() = 8;
             },
             "attentionOutOut shape [2, 4, 3, 8]: expected [2, 4, 3, 4]"},
            {"4.11 BSH",
             [](Call& c) {
                 c = dense_call("BSH", {.dv = 4});
                 c.out->shape = c.query->shape;
             },
             "attentionOutOut shape [2, 3, 32]: expected [2, 3, 16]"},
            {"4.11 rank",
             [](Call& c) {
                 c.out->shape = {2, 4, 24};
             },
             "attentionOutOut shape [2, 4, 24]: expected [2, 4, 3, 8]"},
        });
}

TEST(RefusalsDense, Scalars) {
    expect_all_refused(
        dense_versions(), legal,
        {
            {"scale NaN", [](Call& c) { c.scale = std::nan(""); }, "scaleValue must be a finite float: got nan"},
            {"scale inf", [](Call& c) { c.scale = -HUGE_VAL; }, "scaleValue must be a finite float: got -inf"},
            {"scale double", [](Call& c) { c.scale = 1e300; }, "scaleValue must be a finite float: got 1e+300"},
        });
}

// Expanded views can be of any size without memory. Nothing may overflow on the way to the refusal.
TEST(RefusalsDense, HugeSizes) {
    constexpr int64_t kHuge = int64_t{1} << 60;
    const std::vector<int64_t> zeros(4, 0);
    const auto expanded = [&](std::vector<int64_t> shape) {
        return TensorSpec{.shape = std::move(shape), .strides = zeros};
    };
    Call call = legal();
    call.query = expanded({1, 1, kHuge, 1});
    call.head_num = 1;
    expect_refused(call, 161002,
                   "query shape [1, 1, 1152921504606846976, 1] is too large: no dimension can exceed 140737488355328");

    call.query = expanded({1 << 20, 1 << 10, 1 << 20, 1});
    call.key = call.value = expanded({1 << 20, 1 << 10, 5, 1});
    call.head_num = 1 << 10;
    expect_refused(call, 161002,
                   "query shape [1048576, 1024, 1048576, 1] with headNum 1024 is too large: its softmax statistics "
                   "exceed 1099511627776 bytes");

    call.query = expanded({1, 1, 1 << 30, 1});
    call.key = call.value = expanded({1, 1, int64_t{1} << 46, 1});
    call.head_num = 1;
    expect_refused(call, 161002,
                   "query shape [1, 1, 1073741824, 1] and key shape [1, 1, 70368744177664, 1] are too large: their "
                   "pairs cannot be counted");

    call = dense_call("BSH", {.d = 0, .dv = 0});  // no features, so that headNum says nothing about sizes
    call.head_num = std::numeric_limits<int64_t>::max();
    expect_refused(call, 161002,
                   "query shape [2, 3, 0] with headNum 9223372036854775807 is too large: its softmax statistics exceed "
                   "1099511627776 bytes");

    call = legal();
    call.query = expanded({int64_t{1} << 29, 1, 1, 8});
    call.key = call.value = expanded({int64_t{1} << 29, 1, 5, 8});
    call.head_num = 1;
    expect_refused(call, 161002, "batch 536870912 is too large: expected at most 268435456");
}

}  // namespace
}  // namespace flash_attention::testing
