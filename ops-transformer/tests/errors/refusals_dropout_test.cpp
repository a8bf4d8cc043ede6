// keepProb and dropMaskOptional with one mistake: 161002 and the exact sentence. The legal calls have Sq 3, Skv 5
// (dense, B 2) and the lengths q 3, 0, 4 and kv 5, 2, 4 (TND), N 4/2: 120 and 124 pairs of a query row and a key.
// Numbers name entries of the list of known mistakes.
#include <gtest/gtest.h>

#include <cmath>

#include "call.h"

namespace flash_attention::testing {
namespace {

Call dense() {
    return dense_call();
}
Call tnd() {
    return varlen_call();
}

std::vector<Version> tnd_with_dropout() {
    return only(tnd_versions(), &VersionTraits::dropout);
}

const std::initializer_list<Mistake> kBoth = {
    {"3.11", [](Call& c) { c.drop_mask = byte_tensor({16}, ACL_BOOL); },
     "dropMaskOptional dtype BOOL: expected UINT8 (packed bits)"},
    {"3.11 a mask for each pair",
     [](Call& c) {
         c.drop_mask = TensorSpec{.shape = {2, 4, 3, 5}};
         c.keep_prob = 0.9;
     },
     "dropMaskOptional dtype FLOAT: expected UINT8 (packed bits)"},
    {"3.12",
     [](Call& c) {
         c.drop_mask = byte_tensor({16});
         c.drop_mask->format = ACL_FORMAT_FRACTAL_NZ;
     },
     "dropMaskOptional format FRACTAL_NZ is not supported: expected ND"},
    {"6.9", [](Call& c) { c.keep_prob = 0; }, "keepProb must be in (0, 1]: got 0"},
    {"6.9 negative", [](Call& c) { c.keep_prob = -0.5; }, "keepProb must be in (0, 1]: got -0.5"},
    {"6.9 above", [](Call& c) { c.keep_prob = 1.25; }, "keepProb must be in (0, 1]: got 1.25"},
    {"6.9 NaN", [](Call& c) { c.keep_prob = std::nan(""); }, "keepProb must be in (0, 1]: got nan"},
    {"6.9 infinite", [](Call& c) { c.keep_prob = HUGE_VAL; }, "keepProb must be in (0, 1]: got inf"},
    {"6.9 zero as a float", [](Call& c) { c.keep_prob = 1e-300; }, "keepProb must be in (0, 1]: got 1e-300"},
    {"6.9 with a mask",
     [](Call& c) {
         c.keep_prob = 0;
         c.drop_mask = byte_tensor({16});
     },
     "keepProb must be in (0, 1]: got 0"},
};

TEST(RefusalsDropout, TypesAndProbability) {
    expect_all_refused(dense_versions(), dense, kBoth);
    expect_all_refused(tnd_with_dropout(), tnd, kBoth);
}

// 6.10
TEST(RefusalsDropout, SmallMasks) {
    expect_all_refused(dense_versions(), dense,
                       {
                           {"one byte short", [](Call& c) { c.drop_mask = byte_tensor({14}); },
                            "dropMaskOptional has 14 bytes, needs at least 15 for 120 elements"},
                           {"any shape",
                            [](Call& c) {
                                c = dense_call("SBH", {.n = 8, .sq = 8, .skv = 8});
                                c.drop_mask = byte_tensor({1, 4, 25});
                                c.keep_prob = 0.5;
                            },
                            "dropMaskOptional has 100 bytes, needs at least 128 for 1024 elements"},
                           {"one bit more than bytes",
                            [](Call& c) {
                                c = dense_call("BNSD", {.b = 1, .n = 1, .nkv = 1, .sq = 1, .skv = 9});
                                c.drop_mask = byte_tensor({1});
                            },
                            "dropMaskOptional has 1 bytes, needs at least 2 for 9 elements"},
                       });
    expect_all_refused(tnd_with_dropout(), tnd,
                       {
                           {"one byte short", [](Call& c) { c.drop_mask = byte_tensor({15}); },
                            "dropMaskOptional has 15 bytes, needs at least 16 for 124 elements"},
                           {"no bytes",
                            [](Call& c) {
                                c.drop_mask = byte_tensor({4, 0});  // of two dimensions, so that it is not absent
                            },
                            "dropMaskOptional has 0 bytes, needs at least 16 for 124 elements"},
                       });
}

}  // namespace
}  // namespace flash_attention::testing
