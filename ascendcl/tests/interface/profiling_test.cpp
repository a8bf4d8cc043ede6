#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "acl/acl_base.h"

// Linked by torch-npu, without a public header.
extern "C" {
int32_t MsprofRegisterCallback(uint32_t module, int32_t (*handler)(uint32_t, void*, uint32_t));
int32_t MsprofReportApi(uint32_t aging, const void* api);
int32_t MsprofReportCompactInfo(uint32_t aging, const void* data, uint32_t length);
int32_t MsprofReportAdditionalInfo(uint32_t aging, const void* data, uint32_t length);
uint64_t MsprofGetHashId(const char* text, size_t length);
uint64_t MsprofSysCycleTime(void);
}

namespace {

bool handler_was_called = false;

TEST(Profiling, HooksSucceedAndRecordNothing) {
    const char data[8] = {};
    EXPECT_EQ(MsprofRegisterCallback(1,
                                     [](uint32_t, void*, uint32_t) {
                                         handler_was_called = true;
                                         return 0;
                                     }),
              0);
    EXPECT_EQ(MsprofReportApi(0, nullptr), 0);
    EXPECT_EQ(MsprofReportCompactInfo(0, data, sizeof data), 0);
    EXPECT_EQ(MsprofReportAdditionalInfo(0, data, sizeof data), 0);
    EXPECT_FALSE(handler_was_called);
}

// Published test values of 64-bit FNV-1a.
TEST(Profiling, HashIsFnv1a) {
    EXPECT_EQ(MsprofGetHashId("", 0), 0xcbf29ce484222325ULL);
    EXPECT_EQ(MsprofGetHashId("a", 1), 0xaf63dc4c8601ec8cULL);
    EXPECT_EQ(MsprofGetHashId("foobar", 6), 0x85944171f73967e8ULL);
    EXPECT_EQ(MsprofGetHashId(nullptr, 3), MsprofGetHashId("", 0));
}

TEST(Profiling, ClockNeverGoesBack) {
    uint64_t before = MsprofSysCycleTime();
    EXPECT_GT(before, 0U);
    for (int i = 0; i < 1000; ++i) {
        const uint64_t now = MsprofSysCycleTime();
        ASSERT_GE(now, before);
        before = now;
    }
}

std::string logged(aclLogLevel level, const char* text, int number) {
    testing::internal::CaptureStderr();
    ACL_APP_LOG(level, "%s %d", text, number);
    return testing::internal::GetCapturedStderr();
}

// At the default level warnings and errors appear, with the place; the rest does not.
TEST(AppLog, LevelsAndPlace) {
    const std::string error = logged(ACL_ERROR, "broken", 7);
    EXPECT_NE(error.find("ERROR"), std::string::npos) << error;
    EXPECT_NE(error.find("logged ("), std::string::npos) << error;
    EXPECT_NE(error.find("profiling_test.cpp:"), std::string::npos) << error;
    EXPECT_NE(error.find("broken 7"), std::string::npos) << error;
    EXPECT_NE(logged(ACL_WARNING, "odd", 8).find("odd 8"), std::string::npos);
    EXPECT_EQ(logged(ACL_INFO, "fine", 9), "");
    EXPECT_EQ(logged(ACL_DEBUG, "fine", 10), "");
}

TEST(AppLog, NullFormatAndLongText) {
    testing::internal::CaptureStderr();
    aclAppLog(ACL_ERROR, nullptr, nullptr, 0, nullptr);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    const std::string text(10000, 'x');
    EXPECT_NE(logged(ACL_ERROR, text.c_str(), 11).find(text + " 11"), std::string::npos);
}

}  // namespace
