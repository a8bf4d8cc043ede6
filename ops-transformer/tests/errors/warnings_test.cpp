// What is only logged, and failures that depend on the environment. Each case runs in a process of its own, because a
// warning is written once per process and the environment is read once.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <limits>

#include "call.h"

namespace flash_attention::testing {
namespace {

// The child's exit code is the code of the call; its standard error goes to the matcher.
[[noreturn]] void run_and_exit(const Call& call, const char* variable = nullptr, const char* value = nullptr) {
    if (variable != nullptr) setenv(variable, value, 1);
    const Outcome outcome = run(call);
    std::fputs(outcome.text.c_str(), stderr);
    std::exit(outcome.code == 0 ? 0 : outcome.code == 561000 ? 61 : 1);
}

class Warnings : public ::testing::Test {
  protected:
    void SetUp() override {
        GTEST_FLAG_SET(death_test_style, "threadsafe");
        unsetenv("ASCEND_CPU_LOG");
        unsetenv("ASCEND_CPU_ISA");
    }
};

const auto kSuccess = ::testing::ExitedWithCode(0);

// 5.8
TEST_F(Warnings, ModeWithoutMask) {
    Call call = dense_call();
    call.sparse_mode = 3;
    EXPECT_EXIT(run_and_exit(call), kSuccess, "sparseMode 3 has no effect because attenMaskOptional is nullptr");
}

// 5.9
TEST_F(Warnings, WindowWithoutMask) {
    const char* const text = "preTokens/nextTokens have no effect because attenMaskOptional is nullptr";
    Call call = dense_call();
    call.next = 0;
    EXPECT_EXIT(run_and_exit(call), kSuccess, text);
    call = varlen_call();
    call.pre = 3;
    EXPECT_EXIT(run_and_exit(call), kSuccess, text);
}

// 6.3, 6.6
TEST_F(Warnings, LengthsInsteadOfEnds) {
    Call call = varlen_call({128, 128}, {128, 128});
    call.q_ends = call.kv_ends = std::vector<int64_t>{128, 128};
    EXPECT_EXIT(run_and_exit(call), kSuccess, "actualSeqQLenOptional must be cumulative: last entry 128, T is 256");
    EXPECT_EXIT(run_and_exit(call), kSuccess, "actualSeqKvLenOptional must be cumulative: last entry 128, T is 256");
}

// 6.11
TEST_F(Warnings, KeepProbWithoutMask) {
    Call call = dense_call();
    call.keep_prob = 0.9;
    EXPECT_EXIT(run_and_exit(call), kSuccess, "keepProb 0.9 has no effect because dropMaskOptional is nullptr");
}

TEST_F(Warnings, ReservedOutput) {
    Call call = dense_call();
    call.softmax_out = TensorSpec{.shape = {2, 4, 3, 5}};
    EXPECT_EXIT(run_and_exit(call), kSuccess, "softmaxOutOut is reserved and never written");
}

TEST_F(Warnings, LongLists) {
    Call call = varlen_call(std::vector<int64_t>(20001, 1), std::vector<int64_t>(20001, 1), 1, 1, 1);
    EXPECT_EXIT(run_and_exit(call), kSuccess, "actualSeqQLenOptional has 20001 entries");
}

TEST_F(Warnings, NoneForOrdinaryCalls) {
    Call call = dense_call();
    EXPECT_EXIT(run_and_exit(call), kSuccess, "^$");
    call.pre = call.next = 65536;  // how users write "no limit"
    EXPECT_EXIT(run_and_exit(call), kSuccess, "^$");
    call.pre = call.next = std::numeric_limits<int64_t>::max();
    EXPECT_EXIT(run_and_exit(call), kSuccess, "^$");
    call.prefix.emplace(1, 0);
    call.inner_precise = 2;
    call.softmax_out = TensorSpec{.shape = {0}};
    EXPECT_EXIT(run_and_exit(call), kSuccess, "^$");

    call = varlen_call({3, 4, 2}, {3, 4, 2});
    call.q_ends->back() = call.kv_ends->back() = 0;  // padding that is announced
    EXPECT_EXIT(run_and_exit(call), kSuccess, "^$");
    call.mask = TensorSpec{.shape = {2048, 2048}, .dtype = ACL_BOOL, .without_data = true};
    call.sparse_mode = 3;
    call.next = 0;
    EXPECT_EXIT(run_and_exit(call), kSuccess, "^$");
}

TEST_F(Warnings, InstructionSetThatIsMissing) {
    const Call call = dense_call();
    EXPECT_EXIT(run_and_exit(call, "ASCEND_CPU_ISA", "pdp11"), ::testing::ExitedWithCode(61),
                "AclNN_Inner_Error\\(EZ9999\\): aclnnFlashAttentionScore: .*ASCEND_CPU_ISA.*pdp11");
}

// The debug log tells the call as the operator saw it.
TEST_F(Warnings, DebugLogHasAllArguments) {
    Call call = varlen_call({1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, 1, 1, 8);
    call.query->strides = {16, 8, 1};
    call.key->offset = 4;
    call.prefix.emplace();
    EXPECT_EXIT(
        run_and_exit(call, "ASCEND_CPU_LOG", "debug"), kSuccess,
        "aclnnFlashAttentionVarLenScore.*query=FLOAT\\[10, 1, 8\\], strides=\\[16, 8, 1\\], key=FLOAT\\[20, 1, 8\\], "
        "offset=4, value=FLOAT\\[20, 1, 8\\], prefixOptional=\\[\\], "
        "actualSeqQLenOptional=\\[1, 2, 3, 4, 5, 6, 7, 8\\]...\\(10 entries, last 10\\), "
        "actualSeqKvLenOptional=\\[2, 4, 6, 8, 10, 12, 14, 16\\]...\\(10 entries, last 20\\), scaleValue=0.5, "
        "keepProb=1, preTokens=2147483647, nextTokens=2147483647, headNum=1, inputLayout=\"TND\", innerPrecise=0, "
        "sparseMode=0, softmaxMaxOut=FLOAT\\[10, 1, 8\\], softmaxSumOut=FLOAT\\[10, 1, 8\\], "
        "attentionOutOut=FLOAT\\[10, 1, 8\\]");
}

TEST_F(Warnings, DebugLogOfNullPointers) {
    Call call = dense_call();
    call.query.reset();
    call.layout = nullptr;
    EXPECT_EXIT(run_and_exit(call, "ASCEND_CPU_LOG", "debug"), ::testing::ExitedWithCode(1), "query cannot be nullptr");
}

}  // namespace
}  // namespace flash_attention::testing
