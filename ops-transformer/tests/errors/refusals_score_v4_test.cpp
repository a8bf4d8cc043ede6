// What aclnnFlashAttentionScoreV4 alone has: arguments of quantised attention, dropout without a mask, and TND beside
// the dense layouts. 161002 and the exact sentence.
#include <gtest/gtest.h>

#include <limits>

#include "call.h"

namespace flash_attention::testing {
namespace {

Call dense() {
    return dense_call();
}
Call tnd() {
    return varlen_call();
}

const std::initializer_list<Mistake> kBoth = {
    {"scale of query", [](Call& c) { c.d_scale_q = TensorSpec{.shape = {1}}; },
     "dScaleQOptional belongs to quantised attention, which is not supported: expected nullptr"},
    {"scale of key",
     [](Call& c) {
         c.d_scale_k = TensorSpec{.shape = {2, 4}};
     },
     "dScaleKOptional belongs to quantised attention, which is not supported: expected nullptr"},
    {"scale of value", [](Call& c) { c.d_scale_v = byte_tensor({1}, ACL_FLOAT); },
     "dScaleVOptional belongs to quantised attention, which is not supported: expected nullptr"},
    {"outDtype", [](Call& c) { c.out_dtype = 1; }, "outDtype 1 is not supported: expected 0"},
    {"outDtype lowest", [](Call& c) { c.out_dtype = std::numeric_limits<int64_t>::min(); },
     "outDtype -9223372036854775808 is not supported: expected 0"},
};

TEST(RefusalsScoreV4, BothKindsOfLayout) {
    expect_all_refused({Version::kScoreV4}, dense, kBoth);
    expect_all_refused({Version::kScoreV4}, tnd, kBoth);
}

TEST(RefusalsScoreV4, LayoutAndTensorsOfDifferentKinds) {
    expect_all_refused({Version::kScoreV4}, dense,
                       {{"dense tensors", [](Call& c) { c.layout = "TND"; },
                         "query has 4 dimensions [2, 4, 3, 8], but inputLayout \"TND\" needs 3"}});
    expect_all_refused({Version::kScoreV4}, tnd,
                       {{"packed tensors", [](Call& c) { c.layout = "bsnd"; },
                         "query has 3 dimensions [7, 4, 8], but inputLayout \"BSND\" needs 4"},
                        {"no lists", [](Call& c) { c.kv_ends.reset(); },
                         "actualSeqKvLenOptional cannot be empty for inputLayout \"TND\""}});
}

// Dropout from a seed needs a number for each pair of the whole batch, where attention itself counts those of a head.
TEST(RefusalsScoreV4, PairsThatCannotBeNumbered) {
    const auto expanded = [](std::vector<int64_t> shape) {
        return TensorSpec{.shape = std::move(shape), .strides = {0, 0, 0, 0}};
    };
    Call call = dense_call("BNSD", {.b = 1024, .n = 1, .nkv = 1, .sq = 1, .skv = 1, .d = 1, .dv = 1});
    call.version = Version::kScoreV4;
    call.query = expanded({1024, 1, 1 << 20, 1});
    call.key = call.value = expanded({1024, 1, int64_t{1} << 40, 1});
    call.keep_prob = 0.5;
    const std::string pairs = "query shape [1024, 1, 1048576, 1] and ",
                      keys = " shape [1024, 1, 1099511627776, 1] cannot be counted";
    expect_refused(call, 161002,
                   "keepProb 0.5 needs a random bit for each pair, and the pairs of " + pairs + "key" + keys);
    call.out = call.query;
    call.max = call.sum = TensorSpec{.shape = {1024, 1, 1 << 20, 8}, .strides = {0, 0, 0, 0}};
    call = backward_of(call, Version::kGradV4);
    expect_refused(call, 161002,
                   "keepProb 0.5 needs a random bit for each pair, and the pairs of " + pairs + "keyIn" + keys);
}

// 5.11: which modes exist depends on the layout.
TEST(RefusalsScoreV4, ModesOfTheOtherLayouts) {
    expect_all_refused({Version::kScoreV4}, dense,
                       {{"mode 7",
                         [](Call& c) {
                             c.sparse_mode = 7;
                             c.mask = compressed_mask();
                         },
                         "sparseMode 7 is not supported: expected 0..6"}});
    expect_all_refused({Version::kScoreV4}, tnd,
                       {{"mode 5",
                         [](Call& c) {
                             c.sparse_mode = 5;
                             c.mask = byte_tensor({3, 4, 4, 5});
                         },
                         "sparseMode 5 is not supported: expected 0, 1, 2, 3, 4, 6, 7 or 8"}});
}

}  // namespace
}  // namespace flash_attention::testing
