// The queue behind aclGetRecentErrMsg.
#include "ascendcl/error_text.h"

#include <algorithm>
#include <string>
#include <thread>

#include "support.h"

using ascendcl::clear_errors;
using ascendcl::ErrorSource;
using ascendcl::queue_error;

namespace {

std::size_t entries_in(const std::string& text) {
    std::size_t entries = 0;
    for (std::size_t at = text.find("[PID:"); at != std::string::npos; at = text.find("[PID:", at + 1)) ++entries;
    return entries;
}

constexpr const char* kCategory = "AclNN_Parameter_Error(EZ1001)";

class ErrorText : public ::testing::Test {
  protected:
    void SetUp() override { take_errors(); }
    void TearDown() override { take_errors(); }
};

TEST_F(ErrorText, NothingQueuedGivesNull) {
    EXPECT_EQ(aclGetRecentErrMsg(), nullptr);
}

TEST_F(ErrorText, ReadingClears) {
    queue_error(ErrorSource::kOperator, kCategory, "something");
    EXPECT_NE(take_errors().find("AclNN_Parameter_Error(EZ1001): something"), std::string::npos);
    EXPECT_EQ(aclGetRecentErrMsg(), nullptr);
}

TEST_F(ErrorText, NewestFirstOneALine) {
    queue_error(ErrorSource::kOperator, kCategory, "older");
    queue_error(ErrorSource::kRuntime, kCategory, "newer");
    const std::string text = take_errors();
    EXPECT_LT(text.find("newer"), text.find("older"));
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST_F(ErrorText, AtMostEight) {
    for (int i = 0; i < 12; ++i) queue_error(ErrorSource::kOperator, kCategory, "entry " + std::to_string(i) + ".");
    const std::string text = take_errors();
    EXPECT_EQ(entries_in(text), 8U);
    EXPECT_NE(text.find("entry 11."), std::string::npos);
    EXPECT_NE(text.find("entry 4."), std::string::npos);
    EXPECT_EQ(text.find("entry 3."), std::string::npos) << "the oldest go first";
}

TEST_F(ErrorText, SuccessClearsItsOwnKindOnly) {
    queue_error(ErrorSource::kOperator, kCategory, "from an operator");
    EXPECT_NE(aclrtFree(nullptr), ACL_SUCCESS);
    uint32_t count = 0;
    ASSERT_EQ(aclrtGetDeviceCount(&count), ACL_SUCCESS);
    const std::string text = take_errors();
    EXPECT_EQ(entries_in(text), 1U) << text;
    EXPECT_NE(text.find("from an operator"), std::string::npos);

    EXPECT_NE(aclrtFree(nullptr), ACL_SUCCESS);
    queue_error(ErrorSource::kOperator, kCategory, "from an operator");
    clear_errors(ErrorSource::kOperator);
    EXPECT_NE(take_errors().find("aclrtFree"), std::string::npos);
}

TEST_F(ErrorText, FailuresAddUp) {
    EXPECT_NE(aclrtFree(nullptr), ACL_SUCCESS);
    EXPECT_NE(aclrtFreeHost(nullptr), ACL_SUCCESS);
    EXPECT_EQ(entries_in(take_errors()), 2U);
}

TEST_F(ErrorText, BelongsToTheThread) {
    EXPECT_NE(aclrtFree(nullptr), ACL_SUCCESS);
    std::string other;
    std::thread([&] {
        other = take_errors();
        uint32_t count = 0;
        aclrtGetDeviceCount(&count);  // a success elsewhere clears nothing here
    }).join();
    EXPECT_EQ(other, "");
    EXPECT_NE(take_errors().find("aclrtFree"), std::string::npos);
}

TEST_F(ErrorText, PointerIsValidUntilTheNextRead) {
    EXPECT_NE(aclrtFree(nullptr), ACL_SUCCESS);
    const char* const text = aclGetRecentErrMsg();
    ASSERT_NE(text, nullptr);
    const std::string copy = text;
    uint32_t count = 0;
    aclrtGetDeviceCount(&count);
    EXPECT_EQ(copy, text);
}

TEST_F(ErrorText, ReturningValueCallsQueueToo) {
    EXPECT_EQ(aclGetDataBufferAddr(nullptr), nullptr);
    expect_failure(ACL_ERROR_INVALID_PARAM, ACL_ERROR_INVALID_PARAM,
                   {"aclGetDataBufferAddr: dataBuffer cannot be nullptr"});
}

}  // namespace
