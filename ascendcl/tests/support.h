// What the tests of the runtime share: looking at error texts, and running scenarios in processes of their own.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <initializer_list>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "acl/acl.h"

// The queued texts, "" when there are none; reading clears them.
std::string take_errors();

// `code` is the expected failure, and exactly one text in the form "[PID:<n>] <time> Runtime_Error(EE9999): ..." is
// queued that contains all `parts`. Clears the queue.
void expect_failure(aclError code, aclError expected, std::initializer_list<std::string_view> parts);

struct Outcome {
    int exit_code = -1;  // 128 + signal when it was killed
    std::string output;  // standard output
    std::string errors;  // standard error
};

using Environment = std::vector<std::pair<std::string, std::string>>;

// Runs `ascendcl_scenarios <scenario> <arguments>` with the variables of this project unset except those given. Kills
// it after a minute, so that a hang is a failure and not a hang of the tests.
Outcome run_scenario(const std::string& scenario, const Environment& environment = {},
                     const std::vector<std::string>& arguments = {});

// Keeps a stream busy from another thread until released.
class BusyStream {
  public:
    explicit BusyStream(aclrtStream stream)
        : thread_([this, stream] {
              const auto stay = [](void* self) {
                  auto* const busy = static_cast<BusyStream*>(self);
                  busy->inside_ = true;
                  while (!busy->released_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                  busy->done_ = true;
              };
              EXPECT_EQ(aclrtLaunchHostFunc(stream, stay, this), ACL_SUCCESS);
          }) {
        while (!inside_) std::this_thread::yield();
    }
    ~BusyStream() {
        release();
        thread_.join();
    }
    BusyStream(const BusyStream&) = delete;
    BusyStream& operator=(const BusyStream&) = delete;

    void release() { released_ = true; }
    bool done() const { return done_; }

  private:
    std::atomic<bool> inside_{false};
    std::atomic<bool> released_{false};
    std::atomic<bool> done_{false};
    std::thread thread_;
};

// A device, a stream and a clean error queue for each test.
class RuntimeTest : public ::testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
        ASSERT_EQ(aclrtCreateStream(&stream_), ACL_SUCCESS);
        take_errors();
    }

    void TearDown() override {
        EXPECT_EQ(aclrtDestroyStream(stream_), ACL_SUCCESS);
        EXPECT_EQ(aclrtResetDevice(0), ACL_SUCCESS);
    }

    aclrtStream stream_ = nullptr;
};
