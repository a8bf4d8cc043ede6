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
    call.version = Version::kScoreV4;  // has an effect there
    EXPECT_EXIT(run_and_exit(call), kSuccess, "^$");
}

TEST_F(Warnings, OneStartIndexAlone) {  // 6.17
    Call call = dense_call("BNSD", {.sq = 5, .skv = 5});
    call.version = Version::kScoreV2;
    call.pse_type = 2;
    call.real_shift = TensorSpec{.shape = {4}};
    call.q_start = list({7});
    EXPECT_EXIT(run_and_exit(call), kSuccess,
                "qStartIdxOptional without kvStartIdxOptional has no effect: both count as 0");
    call.q_start = list({});
    call.kv_start = list({7});
    EXPECT_EXIT(run_and_exit(call), kSuccess,
                "kvStartIdxOptional without qStartIdxOptional has no effect: both count as 0");
}

TEST_F(Warnings, StatisticsLayoutThatDoesNotExist) {  // 6.19
    Call call = varlen_call();
    call.softmax_out_layout = "TND";
    for (const Version version : only(tnd_versions(), &VersionTraits::softmax_layout)) {
        call.version = version;
        EXPECT_EXIT(run_and_exit(call), kSuccess,
                    "softmaxOutLayout \"TND\" is not supported and counts as \"\": expected \"\" or "
                    "\"same_as_input\"");
    }
}

TEST_F(Warnings, PrefixThatIsNotValid) {
    Call call = dense_call();
    call.mask = TensorSpec{.shape = {2, 1, 3, 5}, .dtype = ACL_BOOL};
    call.sparse_mode = 5;
    const char* const text = "prefixOptional is not valid: sparseMode 5 shows what attenMaskOptional shows";
    EXPECT_EXIT(run_and_exit(call), kSuccess, text);
    call.prefix = list({3, 6});
    EXPECT_EXIT(run_and_exit(call), kSuccess, text);
}

TEST_F(Warnings, ArgumentsOfTndForDenseBatches) {
    Call call = dense_call("BSND");
    call.version = Version::kScoreV4;
    call.q_ends = list({3, 6});
    EXPECT_EXIT(run_and_exit(call), kSuccess, "actualSeqQLenOptional has no effect for inputLayout \"BSND\"");
    call.q_ends.reset();
    call.kv_ends = list({5, 10});
    EXPECT_EXIT(run_and_exit(call), kSuccess, "actualSeqKvLenOptional has no effect for inputLayout \"BSND\"");
    call.kv_ends.reset();
    call.softmax_out_layout = "same_as_input";
    EXPECT_EXIT(run_and_exit(call), kSuccess,
                "softmaxOutLayout \"same_as_input\" has no effect for inputLayout \"BSND\"");
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

    call.version = Version::kVarLenV5;
    call.softmax_out_layout = "same_as_input";
    call.pse_type = 2;
    call.real_shift = TensorSpec{.shape = {4}};
    call.q_start = call.kv_start = list({7});
    call.sink = TensorSpec{.shape = {4}};
    call.drop_mask = TensorSpec{.shape = {100}, .dtype = ACL_UINT8};
    call.keep_prob = 0.5;
    EXPECT_EXIT(run_and_exit(call), kSuccess, "^$");

    call = dense_call();
    call.version = Version::kScoreV4;
    call.softmax_out_layout = "";
    call.mask = TensorSpec{.shape = {2, 1, 3, 5}, .dtype = ACL_BOOL};
    call.sparse_mode = 5;
    call.prefix = list({3, 2});
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
        "sparseMode=0, pseType=1, softmaxMaxOut=FLOAT\\[10, 1, 8\\], softmaxSumOut=FLOAT\\[10, 1, 8\\], "
        "attentionOutOut=FLOAT\\[10, 1, 8\\]");
}

TEST_F(Warnings, DebugLogHasArgumentsOfLaterVersions) {
    Call call = varlen_call({2}, {2}, 1, 1, 8);
    call.version = Version::kVarLenV5;
    set_dtype(call, ACL_BF16);
    call.query_rope = call.key_rope = TensorSpec{.shape = {2, 1, 4}, .dtype = ACL_BF16};
    call.mask = compressed_mask();
    call.sparse_mode = 3;
    call.sink = TensorSpec{.shape = {1}};
    call.q_start = list({7});
    call.kv_start = list({8, 9});
    call.softmax_out_layout = "same_as_input";
    const char* const texts[] = {"aclnnFlashAttentionVarLenScoreV5",
                                 "queryRope=BFLOAT16\\[2, 1, 4\\]",
                                 "keyRope=BFLOAT16\\[2, 1, 4\\]",
                                 "sinkOptional=FLOAT\\[1\\]",
                                 "qStartIdxOptional=\\[7\\], kvStartIdxOptional=\\[8, 9\\]",
                                 "pseType=1",
                                 "softmaxOutLayout=\"same_as_input\""};
    for (const char* text : texts) EXPECT_EXIT(run_and_exit(call, "ASCEND_CPU_LOG", "debug"), kSuccess, text);
}

TEST_F(Warnings, DebugLogOfNullPointers) {
    Call call = dense_call();
    call.query.reset();
    call.layout = nullptr;
    EXPECT_EXIT(run_and_exit(call, "ASCEND_CPU_LOG", "debug"), ::testing::ExitedWithCode(1), "query cannot be nullptr");
}

}  // namespace
}  // namespace flash_attention::testing
