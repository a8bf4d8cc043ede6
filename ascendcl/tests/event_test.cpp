// Events: states, times, waiting, and their end while in use.
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "support.h"

namespace {

class EventTest : public RuntimeTest {
  protected:
    void SetUp() override {
        RuntimeTest::SetUp();
        ASSERT_EQ(aclrtCreateEvent(&first_), ACL_SUCCESS);
        ASSERT_EQ(aclrtCreateEventExWithFlag(&second_, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE), ACL_SUCCESS);
    }

    void TearDown() override {
        EXPECT_EQ(aclrtDestroyEvent(first_), ACL_SUCCESS);
        EXPECT_EQ(aclrtDestroyEvent(second_), ACL_SUCCESS);
        RuntimeTest::TearDown();
    }

    aclrtEvent first_ = nullptr;
    aclrtEvent second_ = nullptr;
};

aclrtEventRecordedStatus recorded(aclrtEvent event) {
    auto status = static_cast<aclrtEventRecordedStatus>(77);
    EXPECT_EQ(aclrtQueryEventStatus(event, &status), ACL_SUCCESS);
    aclrtEventStatus deprecated = ACL_EVENT_STATUS_RESERVED;
    EXPECT_EQ(aclrtQueryEvent(event, &deprecated), ACL_SUCCESS);
    EXPECT_EQ(deprecated == ACL_EVENT_STATUS_COMPLETE, status == ACL_EVENT_RECORDED_STATUS_COMPLETE);
    return status;
}

TEST_F(EventTest, StatesOfAnEvent) {
    EXPECT_EQ(recorded(first_), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    EXPECT_EQ(aclrtRecordEvent(first_, stream_), ACL_SUCCESS);
    EXPECT_EQ(recorded(first_), ACL_EVENT_RECORDED_STATUS_COMPLETE);
    EXPECT_EQ(aclrtResetEvent(first_, stream_), ACL_SUCCESS);
    EXPECT_EQ(recorded(first_), ACL_EVENT_RECORDED_STATUS_NOT_READY);
    EXPECT_EQ(aclrtRecordEvent(first_, nullptr), ACL_SUCCESS) << "the default stream";
    EXPECT_EQ(recorded(first_), ACL_EVENT_RECORDED_STATUS_COMPLETE);
}

TEST_F(EventTest, NeverRecordedDoesNotBlock) {
    EXPECT_EQ(aclrtSynchronizeEvent(first_), ACL_SUCCESS);
    EXPECT_EQ(aclrtSynchronizeEventWithTimeout(first_, -1), ACL_SUCCESS);
    EXPECT_EQ(aclrtStreamWaitEvent(stream_, first_), ACL_SUCCESS);
    EXPECT_EQ(aclrtStreamWaitEvent(nullptr, first_), ACL_SUCCESS);
    aclrtEventWaitStatus wait = ACL_EVENT_WAIT_STATUS_RESERVED;
    EXPECT_EQ(aclrtQueryEventWaitStatus(first_, &wait), ACL_SUCCESS);
    EXPECT_EQ(wait, ACL_EVENT_WAIT_STATUS_COMPLETE);
}

TEST_F(EventTest, ElapsedTimeIsReal) {
    using Milliseconds = std::chrono::duration<double, std::milli>;
    const auto before = std::chrono::steady_clock::now();
    ASSERT_EQ(aclrtRecordEvent(first_, stream_), ACL_SUCCESS);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_EQ(aclrtRecordEvent(second_, stream_), ACL_SUCCESS);
    const double around = Milliseconds(std::chrono::steady_clock::now() - before).count();
    float elapsed = -1.0F;
    ASSERT_EQ(aclrtEventElapsedTime(&elapsed, first_, second_), ACL_SUCCESS);
    // A sleep is never shorter than asked, and both times lie inside the bracket; float adds a relative 2^-24.
    EXPECT_GE(elapsed, 10.0F * (1 - 0x1p-23F));
    EXPECT_LE(elapsed, around * (1 + 0x1p-23));
    uint64_t start = 0;
    uint64_t end = 0;
    ASSERT_EQ(aclrtEventGetTimestamp(first_, &start), ACL_SUCCESS);
    ASSERT_EQ(aclrtEventGetTimestamp(second_, &end), ACL_SUCCESS);
    // Two times rounded down to microseconds.
    EXPECT_NEAR(static_cast<double>(end - start), static_cast<double>(elapsed) * 1000.0, 1.1);
    EXPECT_EQ(aclrtEventElapsedTime(&elapsed, first_, first_), ACL_SUCCESS);
    EXPECT_EQ(elapsed, 0.0F);
}

TEST_F(EventTest, TimeIsThatOfTheLastRecord) {
    uint64_t times[2] = {};
    for (uint64_t& time : times) {
        ASSERT_EQ(aclrtRecordEvent(first_, stream_), ACL_SUCCESS);
        ASSERT_EQ(aclrtEventGetTimestamp(first_, &time), ACL_SUCCESS);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_GE(times[1], times[0] + 1000);
}

TEST_F(EventTest, TimesThatDoNotExist) {
    float elapsed = -1.0F;
    uint64_t time = 77;
    expect_failure(aclrtEventElapsedTime(&elapsed, first_, second_), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                   {"startEvent", "never recorded"});
    ASSERT_EQ(aclrtRecordEvent(first_, stream_), ACL_SUCCESS);
    expect_failure(aclrtEventElapsedTime(&elapsed, first_, second_), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                   {"endEvent", "never recorded"});
    expect_failure(aclrtEventGetTimestamp(second_, &time), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, {"never recorded"});
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_EQ(aclrtRecordEvent(second_, stream_), ACL_SUCCESS);
    expect_failure(aclrtEventElapsedTime(&elapsed, second_, first_), ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL,
                   {"ns before startEvent"});
    ASSERT_EQ(aclrtResetEvent(first_, stream_), ACL_SUCCESS);
    expect_failure(aclrtEventElapsedTime(&elapsed, first_, second_), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                   {"reset since"});
    EXPECT_EQ(elapsed, -1.0F) << "nothing is written on failure";
    EXPECT_EQ(time, 77U);
}

TEST_F(EventTest, NullPointers) {
    float elapsed = 0.0F;
    aclrtEventStatus status;
    aclrtEventRecordedStatus recorded_status;
    aclrtEventWaitStatus wait_status;
    uint64_t time = 0;
    constexpr aclError kNull = ACL_ERROR_INVALID_PARAM;
    const auto event_is_null = {std::string_view("event cannot be nullptr")};
    const auto status_is_null = {std::string_view("status cannot be nullptr")};
    expect_failure(aclrtCreateEvent(nullptr), kNull, event_is_null);
    expect_failure(aclrtCreateEventWithFlag(nullptr, 0), kNull, event_is_null);
    expect_failure(aclrtCreateEventExWithFlag(nullptr, 0), kNull, event_is_null);
    expect_failure(aclrtDestroyEvent(nullptr), kNull, event_is_null);
    expect_failure(aclrtRecordEvent(nullptr, stream_), kNull, event_is_null);
    expect_failure(aclrtResetEvent(nullptr, stream_), kNull, event_is_null);
    expect_failure(aclrtStreamWaitEvent(stream_, nullptr), kNull, event_is_null);
    expect_failure(aclrtSynchronizeEvent(nullptr), kNull, event_is_null);
    expect_failure(aclrtSynchronizeEventWithTimeout(nullptr, 1), kNull, event_is_null);
    expect_failure(aclrtQueryEvent(nullptr, &status), kNull, event_is_null);
    expect_failure(aclrtQueryEventStatus(nullptr, &recorded_status), kNull, event_is_null);
    expect_failure(aclrtQueryEventWaitStatus(nullptr, &wait_status), kNull, event_is_null);
    expect_failure(aclrtEventGetTimestamp(nullptr, &time), kNull, event_is_null);
    expect_failure(aclrtQueryEvent(first_, nullptr), kNull, status_is_null);
    expect_failure(aclrtQueryEventStatus(first_, nullptr), kNull, status_is_null);
    expect_failure(aclrtQueryEventWaitStatus(first_, nullptr), kNull, status_is_null);
    expect_failure(aclrtEventGetTimestamp(first_, nullptr), kNull, {"timestamp cannot be nullptr"});
    expect_failure(aclrtEventElapsedTime(nullptr, first_, second_), kNull, {"ms cannot be nullptr"});
    expect_failure(aclrtEventElapsedTime(&elapsed, nullptr, second_), kNull, {"startEvent cannot be nullptr"});
    ASSERT_EQ(aclrtRecordEvent(first_, stream_), ACL_SUCCESS);
    expect_failure(aclrtEventElapsedTime(&elapsed, first_, nullptr), kNull, {"endEvent cannot be nullptr"});
}

TEST_F(EventTest, FlagsAndTimeLimits) {
    aclrtEvent event = nullptr;
    for (const uint32_t flag : {0x01U, 0x02U, 0x08U, 0x09U, 0x10U, 0x20U, 0x40U}) {
        EXPECT_EQ(aclrtCreateEventWithFlag(&event, flag), ACL_SUCCESS) << flag;
        EXPECT_EQ(aclrtDestroyEvent(event), ACL_SUCCESS);
    }
    event = nullptr;
    expect_failure(aclrtCreateEventWithFlag(&event, 0x84), ACL_ERROR_RT_PARAM_INVALID, {"unknown bits 0x84"});
    EXPECT_EQ(event, nullptr);
    expect_failure(aclrtSynchronizeEventWithTimeout(first_, 0), ACL_ERROR_RT_PARAM_INVALID, {"timeout", "got 0"});
    expect_failure(aclrtSynchronizeEventWithTimeout(first_, -2), ACL_ERROR_RT_PARAM_INVALID, {"timeout", "got -2"});
    EXPECT_EQ(aclrtSynchronizeEventWithTimeout(first_, 1), ACL_SUCCESS);
}

TEST_F(EventTest, DestroyedEventIsRefused) {
    aclrtEvent event = nullptr;
    ASSERT_EQ(aclrtCreateEvent(&event), ACL_SUCCESS);
    ASSERT_EQ(aclrtDestroyEvent(event), ACL_SUCCESS);
    const auto parts = {std::string_view("is an event that was already destroyed")};
    aclrtEventRecordedStatus status;
    expect_failure(aclrtDestroyEvent(event), ACL_ERROR_RT_INVALID_HANDLE, parts);
    expect_failure(aclrtRecordEvent(event, stream_), ACL_ERROR_RT_INVALID_HANDLE, parts);
    expect_failure(aclrtStreamWaitEvent(stream_, event), ACL_ERROR_RT_INVALID_HANDLE, parts);
    expect_failure(aclrtSynchronizeEvent(event), ACL_ERROR_RT_INVALID_HANDLE, parts);
    expect_failure(aclrtQueryEventStatus(event, &status), ACL_ERROR_RT_INVALID_HANDLE, parts);
    expect_failure(aclrtRecordEvent(stream_, stream_), ACL_ERROR_RT_INVALID_HANDLE, {"is a handle of a stream"});
}

// Runs a call on a thread of its own that is expected to sleep until something else happens.
class SleepingCall {
  public:
    explicit SleepingCall(std::function<aclError()> call)
        : thread_([this, call = std::move(call)] {
              id_ = gettid();
              code_ = call();
          }) {}

    // Until the system shows the thread asleep. Nobody holds a lock but the one of the busy stream, so that is where it
    // sleeps: behind the lookup of its handles.
    void wait_until_asleep() const {
        while (id_ == 0) std::this_thread::yield();
        for (char state = ' '; state != 'S';) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            std::ifstream file("/proc/self/task/" + std::to_string(id_) + "/stat");
            std::string text;
            std::getline(file, text);  // "<id> (<name>) <state> ..."
            state = text.at(text.rfind(')') + 2);
        }
    }

    aclError finish() {
        thread_.join();
        return code_;
    }

  private:
    std::atomic<pid_t> id_{0};
    aclError code_ = -1;
    std::thread thread_;
};

// Destroys an event that a pending call holds. That does not wait for the busy stream, ends the handle at once, and the
// call ends well.
void destroy_while_pending(aclrtStream stream, aclError (*call)(aclrtEvent, aclrtStream)) {
    aclrtEvent event = nullptr;
    ASSERT_EQ(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC), ACL_SUCCESS);
    BusyStream busy(stream);
    SleepingCall pending([&] { return call(event, stream); });
    pending.wait_until_asleep();
    // If the destruction freed the event's memory, the next ones would lie in it, and a pending record would mark one.
    std::vector<aclrtEvent> fresh(16);
    EXPECT_EQ(aclrtDestroyEvent(event), ACL_SUCCESS);
    for (aclrtEvent& other : fresh) EXPECT_EQ(aclrtCreateEvent(&other), ACL_SUCCESS);
    EXPECT_FALSE(busy.done());
    expect_failure(aclrtDestroyEvent(event), ACL_ERROR_RT_INVALID_HANDLE, {"already destroyed"});
    expect_failure(aclrtStreamWaitEvent(nullptr, event), ACL_ERROR_RT_INVALID_HANDLE, {"already destroyed"});
    busy.release();
    EXPECT_EQ(pending.finish(), ACL_SUCCESS);
    for (const aclrtEvent other : fresh) {
        EXPECT_EQ(recorded(other), ACL_EVENT_RECORDED_STATUS_NOT_READY);
        EXPECT_EQ(aclrtDestroyEvent(other), ACL_SUCCESS);
    }
}

TEST_F(EventTest, DestroyedWhileARecordIsPending) {
    destroy_while_pending(stream_, aclrtRecordEvent);
}

// What frameworks do right after they queued a wait. A wait that reads freed memory shows with the address sanitizer.
TEST_F(EventTest, DestroyedWhileAWaitIsPending) {
    destroy_while_pending(stream_,
                          [](aclrtEvent event, aclrtStream stream) { return aclrtStreamWaitEvent(stream, event); });
}

// The same at any moment, also before the handle is looked up; for the sanitizers.
TEST_F(EventTest, DestroyedAtAnyMoment) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([this] {
            for (int round = 0; round < 200; ++round) {
                aclrtEvent event = nullptr;
                ASSERT_EQ(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC), ACL_SUCCESS);
                ASSERT_EQ(aclrtRecordEvent(event, nullptr), ACL_SUCCESS);
                std::thread waiter([&, event] {
                    const aclError code = aclrtStreamWaitEvent(stream_, event);
                    EXPECT_TRUE(code == ACL_SUCCESS || code == ACL_ERROR_RT_INVALID_HANDLE) << code;
                });
                ASSERT_EQ(aclrtDestroyEvent(event), ACL_SUCCESS);
                waiter.join();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
}

// Data that one thread writes on its stream is seen by another that found the event complete (checked by the thread
// sanitizer: nothing else orders the two).
TEST_F(EventTest, OrdersMemoryBetweenThreads) {
    static int data = 0;
    std::thread producer([this] {
        EXPECT_EQ(aclrtLaunchHostFunc(
                      nullptr, [](void*) { data = 42; }, nullptr),
                  ACL_SUCCESS);
        EXPECT_EQ(aclrtRecordEvent(first_, nullptr), ACL_SUCCESS);
    });
    while (recorded(first_) != ACL_EVENT_RECORDED_STATUS_COMPLETE) std::this_thread::yield();
    EXPECT_EQ(aclrtStreamWaitEvent(stream_, first_), ACL_SUCCESS);
    EXPECT_EQ(aclrtLaunchHostFunc(
                  stream_, [](void*) { EXPECT_EQ(data, 42); }, nullptr),
              ACL_SUCCESS);
    producer.join();
}

}  // namespace
