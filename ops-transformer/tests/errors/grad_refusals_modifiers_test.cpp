// Lists, masks, bias, dropout, sink and rope parts of backward with one mistake: which code and which sentence. The
// legal calls are those of grad_refusals_tensors_test.cpp. What forward tests in detail appears once here: that it is
// asked, and that the sentence has the names of backward.
#include <gtest/gtest.h>

#include <cmath>

#include "call.h"

namespace flash_attention::testing {
namespace {

Call dense() {
    return backward_of(dense_call());
}
Call tnd() {
    return backward_of(varlen_call());
}

std::vector<Version> with(std::vector<Version> versions, bool VersionTraits::*property) {
    return only(std::move(versions), property);
}

TEST(GradRefusals, Lists) {
    expect_all_refused(
        tnd_grad_versions(), tnd,
        {
            {"6.1", [](Call& c) { c.q_ends.reset(); }, "actualSeqQLenOptional cannot be empty for inputLayout \"TND\""},
            {"6.1 keys", [](Call& c) { c.kv_ends = list({}); },
             "actualSeqKvLenOptional cannot be empty for inputLayout \"TND\""},
            {"6.2", [](Call& c) { c.kv_ends->push_back(11); },
             "actualSeqQLenOptional has 3 entries, actualSeqKvLenOptional has 4: they must have the same length"},
            {"6.5",
             [](Call& c) {
                 c.q_ends = list({3, 3, 8});
             },
             "T of query is 7, but actualSeqQLenOptional sums to 8"},
            {"6.5 keys", [](Call& c) { c.kv_ends->back() = 12; },
             "T of keyIn is 11, but actualSeqKvLenOptional sums to 12"},
            {"6.7",
             [](Call& c) {
                 c.kv_ends = list({5, 3, 11});
             },
             "actualSeqKvLenOptional is not non-decreasing: entry 1 is 3 after 5"},
            {"6.3",
             [](Call& c) {
                 c.q_ends = list({0, 3, 4});
                 c.kv_ends = list({2, 4, 5});
             },
             "actualSeqQLenOptional must be cumulative: last entry 4, T is 7"},
            {"6.6",
             [](Call& c) {
                 c.q_ends = list({3, 3, 6});
                 c.kv_ends = list({5, 7, 10});
             },
             "query T 7 exceeds the last cumulative length 6; append a 0 entry to both lists to mark padding"},
        });
}

// 6.19, and what the version for all layouts adds.
TEST(GradRefusals, StatisticsLayout) {
    const Mistake misspelt{"6.19", [](Call& c) { c.softmax_out_layout = "TND"; },
                           "softmaxInLayout \"TND\" is not supported: expected \"\" or \"same_as_input\""};
    expect_all_refused(with(tnd_grad_versions(), &VersionTraits::softmax_layout), tnd, {misspelt});
    expect_all_refused(
        {Version::kGradV4}, dense,
        {misspelt,
         {"dense batch", [](Call& c) { c.softmax_out_layout = "same_as_input"; },
          "softmaxInLayout \"same_as_input\" is not supported for inputLayout \"BNSD\": expected \"\""}});
}

const std::initializer_list<Mistake> kNumbersAndDropout = {
    {"scale", [](Call& c) { c.scale = HUGE_VAL; }, "scaleValue must be a finite float: got inf"},
    {"6.9", [](Call& c) { c.keep_prob = 0; }, "keepProb must be in (0, 1]: got 0"},
    {"6.9 NaN", [](Call& c) { c.keep_prob = std::nan(""); }, "keepProb must be in (0, 1]: got nan"},
    {"3.11", [](Call& c) { c.drop_mask = byte_tensor({16}, ACL_BOOL); },
     "dropMaskOptional dtype BOOL: expected UINT8 (packed bits)"},
};

TEST(GradRefusals, NumbersAndDropout) {
    expect_all_refused(dense_grad_versions(), dense, kNumbersAndDropout);
    expect_all_refused(with(tnd_grad_versions(), &VersionTraits::dropout), tnd, kNumbersAndDropout);
    const Mistake small{"6.10", [](Call& c) { c.drop_mask = byte_tensor({14}); },
                        "dropMaskOptional has 14 bytes, needs at least 15 for 120 elements"};
    expect_all_refused(dense_grad_versions(), dense, {small});
    const Mistake missing{"6.11", [](Call& c) { c.keep_prob = 0.9; },
                          "dropMaskOptional cannot be nullptr when keepProb is 0.9"};
    expect_all_refused(only(dense_grad_versions(), &VersionTraits::everything, false), dense, {missing});
    std::vector<Version> unpadding = with(unpadding_grad_versions(), &VersionTraits::dropout);
    expect_all_refused(unpadding, tnd, {missing});
    expect_all_refused({Version::kUnpaddingGradV5Max}, tnd,
                       {{"mask", [](Call& c) { c.drop_mask = byte_tensor({16}); },
                         "dropMaskOptional must be nullptr for the bound of the workspace"}});
}

TEST(GradRefusals, ArgumentsOfTheVersionForAllLayouts) {
    const std::initializer_list<Mistake> mistakes = {
        {"scale of dy", [](Call& c) { c.d_scale_dy = TensorSpec{.shape = {1}}; },
         "dScaleDyOptional belongs to quantised attention, which is not supported: expected nullptr"},
        {"scale of the output", [](Call& c) { c.d_scale_o = TensorSpec{.shape = {1}}; },
         "dScaleOOptional belongs to quantised attention, which is not supported: expected nullptr"},
        {"scale of query", [](Call& c) { c.d_scale_q = TensorSpec{.shape = {1}}; },
         "dScaleQOptional belongs to quantised attention, which is not supported: expected nullptr"},
        {"outDtype", [](Call& c) { c.out_dtype = 1; }, "outDtype 1 is not supported: expected 0"},
    };
    expect_all_refused({Version::kGradV4}, dense, mistakes);
    expect_all_refused({Version::kGradV4}, tnd, mistakes);
}

TEST(GradRefusals, Masks) {
    expect_all_refused(
        dense_grad_versions(), dense,
        {
            {"3.7",
             [](Call& c) {
                 c.mask = byte_tensor({3, 5}, ACL_FLOAT);
             },
             "attenMaskOptional dtype FLOAT is not supported: expected BOOL or UINT8 (1 = position is masked out). An "
             "additive float mask belongs into pseShiftOptional"},
            {"5.1",
             [](Call& c) {
                 c.mask = byte_tensor({2, 1, 1, 5});
             },
             "attenMaskOptional shape [2, 1, 1, 5] is not supported: expected [2, N, Sq, Skv], [2, 1, Sq, Skv], [1, 1, "
             "Sq, Skv] or [Sq, Skv] with N=4, Sq=3, Skv=5. Expand the mask over the query axis"},
            {"5.5",
             [](Call& c) {
                 c.mask = byte_tensor({3, 5});
                 c.sparse_mode = 3;
             },
             "sparseMode 3 needs a compressed attenMaskOptional of shape [2048, 2048]: got [3, 5]. Use sparseMode 0 or "
             "1 for a full mask"},
            {"5.10",
             [](Call& c) {
                 c.mask = byte_tensor({3, 5});
                 c.sparse_mode = 9;
             },
             "sparseMode 9 is not supported: expected 0..6"},
            {"5.12",
             [](Call& c) {
                 c.mask = byte_tensor({3, 5});
                 c.pre = -9;
             },
             "preTokens -9 and nextTokens 2147483647 leave no visible position for Sq=3, Skv=5"},
            {"5.20",
             [](Call& c) {
                 c.mask = compressed_mask({3072, 2048});
                 c.sparse_mode = 6;
                 c.prefix = list({2, 1});
             },
             "prefixOptional[1] is 1: expected 2..5 (Skv - Sq .. Skv)"},
        });
    expect_all_refused(tnd_grad_versions(), tnd,
                       {{"5.11",
                         [](Call& c) {
                             c.mask = byte_tensor({4, 5});
                             c.sparse_mode = 5;
                         },
                         "sparseMode 5 is not supported: expected 0, 1, 2, 3, 4, 6, 7 or 8"}});
}

TEST(GradRefusals, Bias) {
    expect_all_refused(
        dense_grad_versions(), dense,
        {
            {"3.8",
             [](Call& c) {
                 c.real_shift = TensorSpec{.shape = {2, 4, 3, 5}, .dtype = ACL_FLOAT16};
             },
             "pseShiftOptional dtype FLOAT16 must equal query dtype FLOAT for pseType 1"},
            {"6.14",
             [](Call& c) {
                 c.real_shift = TensorSpec{.shape = {2, 1, 3, 5}};
             },
             "pseShiftOptional shape [2, 1, 3, 5] is not supported: expected [2, 4, 3, 5], [1, 4, 3, 5], [2, 4, 1, 5], "
             "[1, 4, 1, 5] (no broadcasting over heads)"},
            {"dpse shape",
             [](Call& c) {
                 c.real_shift = TensorSpec{.shape = {1, 4, 3, 5}};
                 c.dpse = TensorSpec{.shape = {2, 4, 3, 5}};
             },
             "dpseOut shape [2, 4, 3, 5]: expected [1, 4, 3, 5], the shape of pseShiftOptional, or an empty tensor"},
            {"dpse dtype",
             [](Call& c) {
                 c.real_shift = TensorSpec{.shape = {1, 4, 3, 5}};
                 c.dpse = TensorSpec{.shape = {1, 4, 3, 5}, .dtype = ACL_BF16};
             },
             "dpseOut dtype BFLOAT16 must equal query dtype FLOAT"},
            {"dpse format",
             [](Call& c) {
                 c.real_shift = c.dpse = TensorSpec{.shape = {1, 4, 3, 5}};
                 c.dpse->format = ACL_FORMAT_FRACTAL_NZ;
             },
             "dpseOut format FRACTAL_NZ is not supported: expected ND"},
        });
    expect_all_refused(
        with(dense_grad_versions(), &VersionTraits::pse_type), dense,
        {
            {"3.9",
             [](Call& c) {
                 c.real_shift = TensorSpec{.shape = {4}, .dtype = ACL_FLOAT16};
                 c.pse_type = 2;
             },
             "pseShiftOptional dtype FLOAT16: expected FLOAT for pseType 2"},
            {"3.10", [](Call& c) { c.pse_type = 3; }, "pseShiftOptional cannot be nullptr when pseType is 3"},
            {"6.16", [](Call& c) { c.pse_type = 4; }, "pseType 4 is not supported: expected 0, 1, 2 or 3"},
        });
    // 6.15
    expect_all_refused(dense_grad_versions(),
                       [] { return backward_of(dense_call("BNSD", {.b = 1, .n = 1, .nkv = 1, .sq = 1025, .skv = 8})); },
                       {{"6.15",
                         [](Call& c) {
                             c.real_shift = byte_tensor({1, 1, 1024, 8}, ACL_FLOAT);
                         },
                         "pseShiftOptional with 1024 rows needs Sq = Skv: got Sq 1025, Skv 8"}});
}

const std::initializer_list<Mistake> kSink = {
    {"3.13", [](Call& c) { c.sink = c.dsink = TensorSpec{.shape = {3}}; },
     "sinkInOptional must be FLOAT with shape [4]: got FLOAT [3]"},
    {"gradient of another dtype",
     [](Call& c) {
         c.sink = TensorSpec{.shape = {4}};
         c.dsink = TensorSpec{.shape = {4}, .dtype = ACL_BF16};
     },
     "dsinkOut must be FLOAT with shape [4]: got BFLOAT16 [4]"},
    {"gradient of another shape",
     [](Call& c) {
         c.sink = TensorSpec{.shape = {4}};
         c.dsink = TensorSpec{.shape = {1, 4}};
     },
     "dsinkOut must be FLOAT with shape [4]: got FLOAT [1, 4]"},
    {"7.5", [](Call& c) { c.sink = TensorSpec{.shape = {4}}; },
     "dsinkOut cannot be nullptr when sinkInOptional is given", 161001},
    {"7.5 empty",
     [](Call& c) {
         c.sink = TensorSpec{.shape = {4}};
         c.dsink = TensorSpec{.shape = {0}};
     },
     "dsinkOut cannot be nullptr when sinkInOptional is given", 161001},
};

TEST(GradRefusals, Sink) {
    expect_all_refused(with(dense_grad_versions(), &VersionTraits::sink), dense, kSink);
    expect_all_refused(with(tnd_grad_versions(), &VersionTraits::sink), tnd, kSink);
}

Call rope() {
    Call call = varlen_call({3, 4}, {5, 4}, 4, 2, 32);
    set_dtype(call, ACL_BF16);
    call.query_rope = TensorSpec{.shape = {7, 4, 16}, .dtype = ACL_BF16};
    call.key_rope = TensorSpec{.shape = {9, 2, 16}, .dtype = ACL_BF16};
    call.mask = compressed_mask();
    call.sparse_mode = 3;
    return backward_of(call);
}

// 6.18: the names of the rope parts differ between versions.
void expect_rope_refusals(const std::vector<Version>& versions, const std::string& query, const std::string& key) {
    expect_all_refused(
        versions, rope,
        {
            {"only one", [](Call& c) { c.key_rope.reset(); }, key + " cannot be nullptr when " + query + " is given"},
            {"dtype", [](Call& c) { c.query_rope->dtype = ACL_FLOAT16; },
             query + " dtype FLOAT16 is not supported: expected BFLOAT16"},
            {"shape", [](Call& c) { c.key_rope->shape[1] = 4; }, key + " shape [9, 4, 16]: expected [9, 2, 16]"},
            {"no mask", [](Call& c) { c.mask.reset(); }, query + " needs attenMaskOptional"},
            {"bias", [](Call& c) { c.real_shift = byte_tensor({9}, ACL_BF16); },
             query + " is not supported with pseShiftOptional"},
            {"gradient of query missing", [](Call& c) { c.dq_rope.reset(); },
             "dqRopeOut cannot be nullptr when " + query + " is given"},
            {"gradient of key missing", [](Call& c) { c.dk_rope.reset(); },
             "dkRopeOut cannot be nullptr when " + key + " is given"},
            {"gradient of another shape", [](Call& c) { c.dq_rope->shape[2] = 32; },
             "dqRopeOut shape [7, 4, 32]: expected [7, 4, 16], the shape of " + query},
            {"gradient of another dtype", [](Call& c) { c.dk_rope->dtype = ACL_FLOAT; },
             "dkRopeOut dtype FLOAT must equal " + key + " dtype BFLOAT16"},
        });
}

TEST(GradRefusals, Rope) {
    expect_rope_refusals(with(unpadding_grad_versions(), &VersionTraits::rope), "queryRope", "keyInRope");
    expect_rope_refusals({Version::kGradV4}, "queryRopeOptional", "keyRopeOptional");
}

}  // namespace
}  // namespace flash_attention::testing
