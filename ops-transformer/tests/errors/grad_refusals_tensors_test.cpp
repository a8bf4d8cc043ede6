// Tensors of backward with one mistake: which code and which sentence. The legal calls have B 2, N 4/2, Sq 3, Skv 5, D
// 8 (BNSD) and the lengths q 3, 0, 4 and kv 5, 2, 4 (TND). Numbers name entries of the list of known mistakes.
#include <gtest/gtest.h>

#include "call.h"

namespace flash_attention::testing {
namespace {

Call dense() {
    return backward_of(dense_call());
}
Call tnd() {
    return backward_of(varlen_call());
}

const std::initializer_list<Mistake> kDtypesAndFormats = {
    {"3.3 dy", [](Call& c) { c.dy->dtype = ACL_BF16; },
     "query, keyIn, value and dy must have the same dtype: got FLOAT, FLOAT, FLOAT, BFLOAT16"},
    {"3.3 key", [](Call& c) { c.key->dtype = ACL_FLOAT16; },
     "query, keyIn, value and dy must have the same dtype: got FLOAT, FLOAT16, FLOAT, FLOAT"},
    {"3.4", [](Call& c) { set_dtype(c, ACL_DOUBLE); },
     "query dtype DOUBLE is not supported: expected FLOAT16, BFLOAT16 or FLOAT"},
    {"3.5", [](Call& c) { c.out->dtype = ACL_FLOAT16; },
     "attentionInOptional dtype FLOAT16 must equal query dtype FLOAT"},
    {"3.6", [](Call& c) { c.sum->dtype = ACL_FLOAT16; },
     "softmaxSumOptional dtype FLOAT16 is not supported: expected FLOAT"},
    {"3.12 key", [](Call& c) { c.key->format = ACL_FORMAT_FRACTAL_NZ; },
     "keyIn format FRACTAL_NZ is not supported: expected ND"},
    {"3.12 dy", [](Call& c) { c.dy->format = ACL_FORMAT_FRACTAL_NZ; },
     "dy format FRACTAL_NZ is not supported: expected ND"},
    {"3.12 output of forward", [](Call& c) { c.out->format = ACL_FORMAT_FRACTAL_NZ; },
     "attentionInOptional format FRACTAL_NZ is not supported: expected ND"},
    {"3.12 maximum", [](Call& c) { c.max->format = ACL_FORMAT_FRACTAL_NZ; },
     "softmaxMaxOptional format FRACTAL_NZ is not supported: expected ND"},
    {"3.12 gradient", [](Call& c) { c.dv->format = ACL_FORMAT_FRACTAL_NZ; },
     "dvOut format FRACTAL_NZ is not supported: expected ND"},
    {"7.4 dtype of dq", [](Call& c) { c.dq->dtype = ACL_FLOAT16; }, "dqOut dtype FLOAT16 must equal query dtype FLOAT"},
    {"7.4 dtype of dk", [](Call& c) { c.dk->dtype = ACL_BF16; }, "dkOut dtype BFLOAT16 must equal keyIn dtype FLOAT"},
    {"7.4 dtype of dv", [](Call& c) { c.dv->dtype = ACL_DOUBLE; }, "dvOut dtype DOUBLE must equal value dtype FLOAT"},
    {"4.5", [](Call& c) { c.head_num = 0; }, "headNum must be positive: got 0"},
    {"4.5 negative", [](Call& c) { c.head_num = -4; }, "headNum must be positive: got -4"},
};

TEST(GradRefusals, DtypesAndFormats) {
    expect_all_refused(dense_grad_versions(), dense, kDtypesAndFormats);
    expect_all_refused(tnd_grad_versions(), tnd, kDtypesAndFormats);
}

// 4.1: what is expected depends on the version.
TEST(GradRefusals, Layouts) {
    const auto unknown = [](Call& c) { c.layout = "BNS"; };
    const auto packed = [](Call& c) { c.layout = "TND"; };
    expect_all_refused(only(dense_grad_versions(), &VersionTraits::tnd, false), dense,
                       {{"unknown", unknown, "inputLayout \"BNS\" is not supported: expected BSH, SBH, BSND or BNSD"},
                        {"packed", packed, "inputLayout \"TND\" is not supported: expected BSH, SBH, BSND or BNSD"}});
    expect_all_refused(
        {Version::kGradV4}, dense,
        {{"unknown", unknown, "inputLayout \"BNS\" is not supported: expected BSH, SBH, BSND, BNSD or TND"},
         {"packed", packed, "query has 4 dimensions [2, 4, 3, 8], but inputLayout \"TND\" needs 3"}});
    expect_all_refused(unpadding_grad_versions(), tnd,
                       {{"dense", [](Call& c) { c.layout = "BSH"; },
                         "inputLayout \"BSH\" is not supported by Unpadding operators: expected TND"}});
}

TEST(GradRefusals, ShapesOfDenseBatches) {
    expect_all_refused(
        dense_grad_versions(), dense,
        {
            {"4.3 dy",
             [](Call& c) {
                 c.dy->shape = {2, 4, 24};
             },
             "dy has 3 dimensions [2, 4, 24], but inputLayout \"BNSD\" needs 4"},
            {"4.3 dk",
             [](Call& c) {
                 c.dk->shape = {2, 2, 5, 8, 1};
             },
             "dkOut has 5 dimensions [2, 2, 5, 8, 1], but inputLayout \"BNSD\" needs 4"},
            {"4.6", [](Call& c) { c.head_num = 8; }, "headNum is 8, but query dim 1 (N of \"BNSD\") is 4"},
            {"4.8", [](Call& c) { c.key->shape[1] = c.value->shape[1] = c.dk->shape[1] = c.dv->shape[1] = 3; },
             "query has 4 heads and key has 3: the number of query heads must be a multiple of the number of key "
             "heads"},
            {"4.9 D", [](Call& c) { c.key->shape[3] = c.dk->shape[3] = 16; },
             "head dimension of key 16 must equal that of query 8"},
            {"4.9 Dv", [](Call& c) { c.value->shape[3] = c.dv->shape[3] = c.dy->shape[3] = c.out->shape[3] = 9; },
             "head dimension of value 9 must not exceed that of key 8"},
            {"4.10 key and value", [](Call& c) { c.value->shape[2] = 6; },
             "keyIn shape [2, 2, 5, 8] and value shape [2, 2, 6, 8] must be equal except for the last dimension"},
            {"4.10 batch", [](Call& c) { c.key->shape[0] = c.value->shape[0] = 3; },
             "query shape [2, 4, 3, 8] and keyIn shape [3, 2, 5, 8] must have the same batch: got 2 and 3"},
            {"dy does not fit query", [](Call& c) { c.dy->shape[2] = c.out->shape[2] = 4; },
             "query shape [2, 4, 3, 8] and dy shape [2, 4, 4, 8] must be equal except for the last dimension"},
            {"dy does not fit value", [](Call& c) { c.dy->shape[3] = c.out->shape[3] = 6; },
             "dy shape [2, 4, 3, 6]: expected [2, 4, 3, 8]"},
            {"7.3", [](Call& c) { c.out->shape[3] = 6; },
             "dy shape [2, 4, 3, 8] and attentionInOptional shape [2, 4, 3, 6] must be equal"},
            {"7.4 dq", [](Call& c) { c.dq->shape[3] = 4; },
             "dqOut shape [2, 4, 3, 4]: expected [2, 4, 3, 8], the shape of query"},
            {"7.4 dk", [](Call& c) { c.dk->shape[1] = 4; },
             "dkOut shape [2, 4, 5, 8]: expected [2, 2, 5, 8], the shape of keyIn"},
            {"7.4 dv", [](Call& c) { c.dv->shape[2] = 3; },
             "dvOut shape [2, 2, 3, 8]: expected [2, 2, 5, 8], the shape of value"},
            {"7.2 without the 8",
             [](Call& c) {
                 c.max->shape = {2, 4, 3};
             },
             "softmaxMaxOptional shape [2, 4, 3]: expected [2, 4, 3, 8]"},
            {"7.2 sum",
             [](Call& c) {
                 c.sum->shape = {2, 3, 4, 8};
             },
             "softmaxSumOptional shape [2, 3, 4, 8]: expected [2, 4, 3, 8]"},
        });
}

TEST(GradRefusals, ShapesOfPackedSequences) {
    expect_all_refused(tnd_grad_versions(), tnd,
                       {
                           {"7.2 [N, T, 8]",
                            [](Call& c) {
                                c.max->shape = {4, 7, 8};
                            },
                            "softmaxMaxOptional shape [4, 7, 8]: expected [7, 4, 8]"},
                           {"7.4", [](Call& c) { c.dk->shape[0] = 7; },
                            "dkOut shape [7, 2, 8]: expected [11, 2, 8], the shape of keyIn"},
                           {"7.3", [](Call& c) { c.dy->shape[2] = 4; },
                            "dy shape [7, 4, 4] and attentionInOptional shape [7, 4, 8] must be equal"},
                       });
}

// H axes are divided by headNum.
TEST(GradRefusals, ShapesWithHeadsInTheLastAxis) {
    expect_all_refused(
        dense_grad_versions(), [] { return backward_of(dense_call("SBH")); },
        {
            {"4.7", [](Call& c) { c.head_num = 5; }, "last dimension 32 of query is not a multiple of headNum 5"},
            {"dy", [](Call& c) { c.dy->shape[2] = c.out->shape[2] = 16; }, "dy shape [3, 2, 16]: expected [3, 2, 32]"},
            {"7.4", [](Call& c) { c.dv->shape[2] = 32; },
             "dvOut shape [5, 2, 32]: expected [5, 2, 16], the shape of value"},
        });
}

TEST(GradRefusals, Views) {
    expect_all_refused(dense_grad_versions(), dense,
                       {
                           {"4.15 input", [](Call& c) { c.dy->storage = {100}; },
                            "dy view exceeds its storage: needs element 191, storage has 100"},
                           {"4.15 statistics", [](Call& c) { c.sum->storage = {100}; },
                            "softmaxSumOptional view exceeds its storage: needs element 191, storage has 100"},
                           {"4.15 output", [](Call& c) { c.dk->storage = {100}; },
                            "dkOut view exceeds its storage: needs element 159, storage has 100"},
                           {"overlap",
                            [](Call& c) {
                                c.dq->strides = {96, 24, 0, 1};
                            },
                            "dqOut view has overlapping elements, so it cannot be an output: shape [2, 4, 3, 8], "
                            "strides [96, 24, 0, 1]"},
                           {"no data of an input", [](Call& c) { c.out->without_data = true; },
                            "attentionInOptional has shape [2, 4, 3, 8], but its data address is nullptr"},
                           {"no data of an output", [](Call& c) { c.dv->without_data = true; },
                            "dvOut has shape [2, 2, 5, 8], but its data address is nullptr"},
                       });
}

}  // namespace
}  // namespace flash_attention::testing
