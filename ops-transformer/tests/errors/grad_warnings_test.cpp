// What backward only logs. Each case runs in a process of its own, because a warning is written once per process.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "call.h"

namespace flash_attention::testing {
namespace {

// Standard error goes to the matcher. The first phase logs all there is.
[[noreturn]] void plan_and_exit(const Call& call, const char* log = nullptr) {
    if (log != nullptr) setenv("ASCEND_CPU_LOG", log, 1);
    const Outcome outcome = run(call, true);
    std::fputs(outcome.text.c_str(), stderr);
    std::exit(outcome.code == 0 ? 0 : 1);
}

class GradWarnings : public ::testing::Test {
  protected:
    void SetUp() override {
        GTEST_FLAG_SET(death_test_style, "threadsafe");
        unsetenv("ASCEND_CPU_LOG");
    }
};

const auto kSuccess = ::testing::ExitedWithCode(0);

TEST_F(GradWarnings, SinkWithFloatQuery) {
    Call call = dense_call();
    call.sink = TensorSpec{.shape = {4}};
    call = backward_of(call, Version::kGradV3);
    EXPECT_EXIT(plan_and_exit(call), kSuccess,
                "sinkInOptional with a FLOAT query is computed here, but the NPU operator refuses it");
    set_dtype(call, ACL_BF16);
    EXPECT_EXIT(plan_and_exit(call), kSuccess, "^$");
}

TEST_F(GradWarnings, BiasGradientThatIsNotComputed) {
    Call call = backward_of(dense_call("BNSD", {.sq = 5}), Version::kGradV2);
    call.pse_type = 3;
    call.real_shift = TensorSpec{.shape = {4}};
    EXPECT_EXIT(plan_and_exit(call), kSuccess, "^$");
    call.dpse = call.real_shift;
    EXPECT_EXIT(plan_and_exit(call), kSuccess, "dpseOut gets zeros: the gradient of slopes is not computed");

    call = dense_call("BNSD", {.b = 1, .n = 1, .nkv = 1, .sq = 1030, .skv = 1030, .d = 1, .dv = 1});
    call.mask = compressed_mask();
    call.sparse_mode = 2;
    call = backward_of(call);
    call.real_shift = call.dpse = TensorSpec{.shape = {1, 1, 1024, 1030}};
    EXPECT_EXIT(plan_and_exit(call), kSuccess,
                "dpseOut gets zeros: the gradient of a bias with 1024 rows is not computed");
}

TEST_F(GradWarnings, ModeWithoutMask) {
    Call call = backward_of(dense_call());
    call.sparse_mode = 3;
    EXPECT_EXIT(plan_and_exit(call), kSuccess, "sparseMode 3 has no effect because attenMaskOptional is nullptr");
}

TEST_F(GradWarnings, NoneForOrdinaryCalls) {
    Call call = backward_of(dense_call());
    call.real_shift = call.dpse = TensorSpec{.shape = {2, 4, 3, 5}};
    call.drop_mask = TensorSpec{.shape = {15}, .dtype = ACL_UINT8};
    call.keep_prob = 0.5;
    call.softmax_out = TensorSpec{.shape = {0}};
    EXPECT_EXIT(plan_and_exit(call), kSuccess, "^$");
    call = backward_of(varlen_call(), Version::kUnpaddingGradV4);
    call.softmax_out_layout = "same_as_input";
    EXPECT_EXIT(plan_and_exit(call), kSuccess, "^$");
}

// The debug log tells the call in the words of its signature.
TEST_F(GradWarnings, DebugLogHasAllArguments) {
    Call call = varlen_call({2}, {3}, 1, 1, 8);
    call.sink = TensorSpec{.shape = {1}};
    call = backward_of(call, Version::kUnpaddingGradV5);
    call.real_shift = call.dpse = TensorSpec{.shape = {6}};
    call.softmax_out_layout = "same_as_input";
    const char* const texts[] = {
        "aclnnFlashAttentionUnpaddingScoreGradV5",
        "keyIn=FLOAT\\[3, 1, 8\\], value=FLOAT\\[3, 1, 8\\], dy=FLOAT\\[2, 1, 8\\], pseShiftOptional=FLOAT\\[6\\], "
        "sinkInOptional=FLOAT\\[1\\]",
        "softmaxInLayout=\"same_as_input\", softmaxMaxOptional=FLOAT\\[2, 1, 8\\], softmaxSumOptional=FLOAT\\[2, 1, "
        "8\\], attentionInOptional=FLOAT\\[2, 1, 8\\], dqOut=FLOAT\\[2, 1, 8\\], dkOut=FLOAT\\[3, 1, 8\\], "
        "dvOut=FLOAT\\[3, 1, 8\\], dpseOut=FLOAT\\[6\\], dsinkOut=FLOAT\\[1\\]"};
    for (const char* text : texts) EXPECT_EXIT(plan_and_exit(call, "debug"), kSuccess, text);
}

}  // namespace
}  // namespace flash_attention::testing
