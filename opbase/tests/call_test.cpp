// What all public functions have in common: texts that come and go, and the trace.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>

#include "aclnn/aclnn_base.h"
#include "opbase/error.h"
#include "opbase/executor.h"
#include "support.h"

namespace {

constexpr int64_t kDims[] = {2, 3};

aclTensor* create() {
    return aclCreateTensor(kDims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, kDims, 2, nullptr);
}
void fail() {
    ASSERT_EQ(aclCreateIntArray(nullptr, 1), nullptr);
}

TEST(ErrorText, SuccessClearsOlderTexts) {
    fail();
    aclTensor* tensor = create();
    EXPECT_EQ(take_error(), "");
    fail();
    uint64_t size = 0;
    aclIntArray* array = aclCreateIntArray(kDims, 2);
    EXPECT_EQ(aclGetIntArraySize(array, &size), OK);
    EXPECT_EQ(take_error(), "");
    aclDestroyIntArray(array);
    aclDestroyTensor(tensor);
}

TEST(ErrorText, CleaningUpKeepsTheReason) {
    aclTensor* tensor = create();
    fail();
    EXPECT_EQ(aclDestroyTensor(tensor), OK);
    EXPECT_CONTAINS(take_error(), "aclCreateIntArray");
}

TEST(ErrorText, BothPhasesClearOlderTexts) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    fail();
    ASSERT_EQ(opbase::plan_operator(
                  "aclnnProbe", &size, &executor, [] { return opbase::Plan{}; }, [] { return std::string(); }),
              OK);
    EXPECT_EQ(take_error(), "");
    fail();
    ASSERT_EQ(opbase::run_operator("aclnnProbe", nullptr, 0, executor, nullptr), OK);
    EXPECT_EQ(take_error(), "");
}

TEST(Library, InitAndFinalizeMayBeRepeated) {
    EXPECT_EQ(aclnnInit(nullptr), OK);
    EXPECT_EQ(aclnnInit("no such file"), OK);
    EXPECT_EQ(aclnnFinalize(), OK);
    EXPECT_EQ(aclnnFinalize(), OK);
    aclTensor* tensor = create();
    EXPECT_NE(tensor, nullptr) << "everything works without them";
    aclDestroyTensor(tensor);
}

// One call of each kind, in a process of its own, as the level is read once.
void traced_calls() {
    setenv("ASCEND_CPU_LOG", "debug", 1);
    aclTensor* tensor = create();
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    const auto plan = [] { return opbase::Plan{}; };
    const auto refuse = []() -> opbase::Plan { throw opbase::ParameterError("scale is 7"); };
    const auto describe = [] { return std::string("scale=0.5"); };
    opbase::plan_operator("aclnnProbe", &size, &executor, refuse, describe);
    opbase::plan_operator("aclnnProbe", &size, &executor, plan, describe);
    opbase::run_operator("aclnnProbe", nullptr, 0, executor, nullptr);
    aclGetIntArraySize(nullptr, &size);
    aclDestroyTensor(tensor);
    std::exit(0);
}

struct TracedLine {
    const char* name;
    const char* pattern;
};
void PrintTo(const TracedLine& line, std::ostream* out) {
    *out << line.name;
}

class Trace : public testing::TestWithParam<TracedLine> {};

TEST_P(Trace, ShowsArgumentsAndCode) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(traced_calls(), testing::ExitedWithCode(0), GetParam().pattern);
}

constexpr TracedLine kTracedLines[] = {
    {"Creation",
     "aclCreateTensor\\(viewDims=\\[2, 3\\], viewDimsNum=2, dataType=FLOAT, stride=nullptr, offset=0, format=ND, "
     "storageDims=\\[2, 3\\], storageDimsNum=2, tensorData=0x0\\) = 0"},
    {"PhaseOneRefuses", "aclnnProbeGetWorkspaceSize\\(scale=0.5\\) = 161002"},
    {"PhaseOne", "aclnnProbeGetWorkspaceSize\\(scale=0.5, workspaceSize -> 0, executor -> 0x[0-9a-f]+\\) = 0"},
    {"PhaseTwo", "aclnnProbe\\(workspace=0x0, workspaceSize=0, executor=0x[0-9a-f]+, stream=0x0\\) = 0"},
    {"Getter", "aclGetIntArraySize\\(array=0x0\\) = 161001"},
    {"Destruction", "aclDestroyTensor\\(0x[0-9a-f]+\\) = 0"},
};

INSTANTIATE_TEST_SUITE_P(Calls, Trace, testing::ValuesIn(kTracedLines),
                         [](const auto& info) { return info.param.name; });

}  // namespace
