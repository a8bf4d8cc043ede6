// Streams: handles, order, locking between threads, callbacks, time limits.
#include "ascendcl/stream.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "support.h"

namespace {

using StreamTest = RuntimeTest;

aclrtStreamStatus query(aclrtStream stream) {
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
    EXPECT_EQ(aclrtStreamQuery(stream, &status), ACL_SUCCESS);
    return status;
}

TEST_F(StreamTest, CreationNeedsAContext) {
    std::thread([] {
        aclrtStream stream = nullptr;
        expect_failure(aclrtCreateStream(&stream), ACL_ERROR_RT_CONTEXT_NULL, {"this thread has no context"});
        expect_failure(aclrtCreateStreamWithConfig(&stream, 0, 0), ACL_ERROR_RT_CONTEXT_NULL, {"no context"});
        EXPECT_EQ(stream, nullptr);
    }).join();
    expect_failure(aclrtCreateStream(nullptr), ACL_ERROR_INVALID_PARAM, {"stream cannot be nullptr"});
    expect_failure(aclrtCreateStreamWithConfig(nullptr, 0, 0), ACL_ERROR_INVALID_PARAM, {"stream cannot be nullptr"});
}

TEST_F(StreamTest, ConfigurationCanBeReadBack) {
    constexpr uint32_t kAllFlags = 0x3F;
    aclrtStream stream = nullptr;
    ASSERT_EQ(aclrtCreateStreamWithConfig(&stream, 5, kAllFlags), ACL_SUCCESS);
    uint32_t priority = 77;
    uint32_t flags = 77;
    int32_t id = -1;
    int32_t other_id = -1;
    EXPECT_EQ(aclrtStreamGetPriority(stream, &priority), ACL_SUCCESS);
    EXPECT_EQ(priority, 5U);
    EXPECT_EQ(aclrtStreamGetFlags(stream, &flags), ACL_SUCCESS);
    EXPECT_EQ(flags, kAllFlags);
    EXPECT_EQ(aclrtStreamGetId(stream, &id), ACL_SUCCESS);
    EXPECT_EQ(aclrtStreamGetId(stream_, &other_id), ACL_SUCCESS);
    EXPECT_NE(id, other_id);
    EXPECT_EQ(aclrtStreamGetPriority(stream_, &priority), ACL_SUCCESS);
    EXPECT_EQ(priority, 0U);
    EXPECT_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
    expect_failure(aclrtCreateStreamWithConfig(&stream, 0, 0x140), ACL_ERROR_RT_PARAM_INVALID,
                   {"flag 0x140 has unknown bits 0x140"});
    expect_failure(aclrtStreamGetId(stream_, nullptr), ACL_ERROR_INVALID_PARAM, {"streamId cannot be nullptr"});
    expect_failure(aclrtStreamGetPriority(stream_, nullptr), ACL_ERROR_INVALID_PARAM, {"priority cannot be nullptr"});
    expect_failure(aclrtStreamGetFlags(stream_, nullptr), ACL_ERROR_INVALID_PARAM, {"flags cannot be nullptr"});
    expect_failure(aclrtStreamQuery(stream_, nullptr), ACL_ERROR_INVALID_PARAM, {"status cannot be nullptr"});
}

TEST_F(StreamTest, NullIsTheDefaultStream) {
    aclrtStream default_stream = nullptr;
    ASSERT_EQ(aclrtCtxGetCurrentDefaultStream(&default_stream), ACL_SUCCESS);
    int32_t id = -1;
    int32_t null_id = -2;
    EXPECT_EQ(aclrtStreamGetId(default_stream, &id), ACL_SUCCESS);
    EXPECT_EQ(aclrtStreamGetId(nullptr, &null_id), ACL_SUCCESS);
    EXPECT_EQ(id, null_id);
    EXPECT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(nullptr, -1), ACL_SUCCESS);
    EXPECT_EQ(query(nullptr), ACL_STREAM_STATUS_COMPLETE);
    std::thread([id] {
        int32_t other = -1;
        EXPECT_EQ(aclrtStreamGetId(nullptr, &other), ACL_SUCCESS) << "a thread without a context uses device 0";
        EXPECT_EQ(other, id);
    }).join();
}

TEST_F(StreamTest, DefaultStreamIsNotDestroyed) {
    aclrtStream stream = nullptr;
    ASSERT_EQ(aclrtCtxGetCurrentDefaultStream(&stream), ACL_SUCCESS);
    expect_failure(aclrtDestroyStream(nullptr), ACL_ERROR_INVALID_PARAM, {"stream cannot be nullptr"});
    expect_failure(aclrtDestroyStreamForce(nullptr), ACL_ERROR_INVALID_PARAM, {"stream cannot be nullptr"});
    expect_failure(aclrtDestroyStream(stream), ACL_ERROR_RT_PARAM_INVALID, {"is the default stream"});
    EXPECT_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS);
}

// Each call that takes a stream, on one that is gone.
TEST_F(StreamTest, DestroyedStreamIsRefused) {
    for (const auto destroy : {aclrtDestroyStream, aclrtDestroyStreamForce}) {
        aclrtStream stream = nullptr;
        ASSERT_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
        ASSERT_EQ(destroy(stream), ACL_SUCCESS);
        constexpr aclError kDead = ACL_ERROR_RT_INVALID_HANDLE;
        const auto parts = {std::string_view("is a stream that was already destroyed")};
        int32_t id = 0;
        uint32_t number = 0;
        aclrtStreamStatus status;
        char bytes[4] = {1, 2, 3, 4};
        char copy[4] = {};
        bool called = false;
        aclrtEvent event = nullptr;
        ASSERT_EQ(aclrtCreateEvent(&event), ACL_SUCCESS);
        expect_failure(aclrtDestroyStream(stream), kDead, parts);
        expect_failure(aclrtDestroyStreamForce(stream), kDead, parts);
        expect_failure(aclrtSynchronizeStream(stream), kDead, parts);
        expect_failure(aclrtSynchronizeStreamWithTimeout(stream, 1), kDead, parts);
        expect_failure(aclrtStreamQuery(stream, &status), kDead, parts);
        expect_failure(aclrtStreamGetId(stream, &id), kDead, parts);
        expect_failure(aclrtStreamGetPriority(stream, &number), kDead, parts);
        expect_failure(aclrtStreamGetFlags(stream, &number), kDead, parts);
        expect_failure(aclrtSetStreamFailureMode(stream, 1), kDead, parts);
        expect_failure(aclrtSetStreamOverflowSwitch(stream, 1), kDead, parts);
        expect_failure(aclrtGetStreamOverflowSwitch(stream, &number), kDead, parts);
        expect_failure(aclrtStreamWaitEvent(stream, event), kDead, parts);
        expect_failure(aclrtRecordEvent(event, stream), kDead, parts);
        expect_failure(aclrtResetEvent(event, stream), kDead, parts);
        expect_failure(aclrtMemcpyAsync(copy, 4, bytes, 4, ACL_MEMCPY_DEFAULT, stream), kDead, parts);
        expect_failure(aclrtMemcpy2dAsync(copy, 4, bytes, 4, 4, 1, ACL_MEMCPY_HOST_TO_HOST, stream), kDead, parts);
        expect_failure(aclrtMemsetAsync(copy, 4, 7, 4, stream), kDead, parts);
        expect_failure(aclrtLaunchHostFunc(
                           stream, [](void* flag) { *static_cast<bool*>(flag) = true; }, &called),
                       kDead, parts);
        EXPECT_FALSE(called);
        EXPECT_EQ(std::vector<char>(copy, copy + 4), std::vector<char>(4, 0)) << "nothing ran";
        EXPECT_EQ(aclrtDestroyEvent(event), ACL_SUCCESS);
    }
}

TEST_F(StreamTest, ForeignHandles) {
    int local = 0;
    expect_failure(aclrtSynchronizeStream(&local), ACL_ERROR_RT_INVALID_HANDLE, {"is not a handle of a stream"});
    expect_failure(aclrtSynchronizeStream(reinterpret_cast<void*>(uintptr_t{0x10000000} << 4 | 2)),
                   ACL_ERROR_RT_INVALID_HANDLE, {"is not a handle of a stream"});
    aclrtEvent event = nullptr;
    ASSERT_EQ(aclrtCreateEvent(&event), ACL_SUCCESS);
    expect_failure(aclrtSynchronizeStream(event), ACL_ERROR_RT_INVALID_HANDLE, {"is a handle of an event"});
    EXPECT_EQ(aclrtDestroyEvent(event), ACL_SUCCESS);
}

TEST_F(StreamTest, CallbacksRunInOrderBeforeTheCallReturns) {
    static std::vector<int> order;
    order.clear();
    static int values[3] = {1, 2, 3};
    for (int& value : values) {
        ASSERT_EQ(aclrtLaunchHostFunc(
                      stream_, [](void* v) { order.push_back(*static_cast<int*>(v)); }, &value),
                  ACL_SUCCESS);
    }
    EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
    expect_failure(aclrtLaunchHostFunc(stream_, nullptr, nullptr), ACL_ERROR_INVALID_PARAM, {"fn cannot be nullptr"});
}

TEST_F(StreamTest, ExceptionOfACallbackStopsAtTheInterface) {
    expect_failure(aclrtLaunchHostFunc(
                       stream_, [](void*) { throw std::runtime_error("thrown inside"); }, nullptr),
                   ACL_ERROR_INTERNAL_ERROR, {"aclrtLaunchHostFunc: thrown inside"});
    expect_failure(aclrtLaunchHostFunc(
                       stream_, [](void*) { throw std::bad_alloc(); }, nullptr),
                   ACL_ERROR_BAD_ALLOC, {"out of memory"});
    EXPECT_EQ(query(stream_), ACL_STREAM_STATUS_COMPLETE) << "the stream is free again";
}

TEST_F(StreamTest, ProcessReportIsRefused) {
    expect_failure(aclrtProcessReport(10), ACL_ERROR_INTERNAL_ERROR, {"aclrtProcessReport", "aclrtLaunchHostFunc"});
}

TEST_F(StreamTest, FailureModeAndOverflowSwitch) {
    EXPECT_EQ(aclrtSetStreamFailureMode(stream_, ACL_STOP_ON_FAILURE), ACL_SUCCESS);
    EXPECT_EQ(aclrtSetStreamFailureMode(stream_, ACL_CONTINUE_ON_FAILURE), ACL_SUCCESS);
    expect_failure(aclrtSetStreamFailureMode(stream_, 2), ACL_ERROR_INVALID_PARAM, {"mode 2"});
    expect_failure(aclrtSetStreamFailureMode(nullptr, 1), ACL_ERROR_INVALID_PARAM, {"stream cannot be nullptr"});
    uint32_t flag = 77;
    EXPECT_EQ(aclrtGetStreamOverflowSwitch(stream_, &flag), ACL_SUCCESS);
    EXPECT_EQ(flag, 0U);
    EXPECT_EQ(aclrtSetStreamOverflowSwitch(stream_, 1), ACL_SUCCESS);
    EXPECT_EQ(aclrtGetStreamOverflowSwitch(stream_, &flag), ACL_SUCCESS);
    EXPECT_EQ(flag, 1U);
    expect_failure(aclrtSetStreamOverflowSwitch(stream_, 2), ACL_ERROR_INVALID_PARAM, {"flag 2"});
    expect_failure(aclrtGetStreamOverflowSwitch(stream_, nullptr), ACL_ERROR_INVALID_PARAM, {"flag cannot be nullptr"});
}

TEST_F(StreamTest, TimeLimits) {
    for (const int32_t timeout : {0, -2, INT32_MIN}) {
        expect_failure(aclrtSynchronizeStreamWithTimeout(stream_, timeout), ACL_ERROR_RT_PARAM_INVALID,
                       {"timeout must be -1", "got " + std::to_string(timeout)});
    }
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, -1), ACL_SUCCESS);
    BusyStream busy(stream_);
    const auto start = std::chrono::steady_clock::now();
    expect_failure(aclrtSynchronizeStreamWithTimeout(stream_, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                   {"did not finish within timeout 20 ms"});
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
    expect_failure(aclrtSynchronizeDeviceWithTimeout(20), ACL_ERROR_RT_WAIT_TIMEOUT, {"of device 0", "timeout 20 ms"});
}

TEST_F(StreamTest, WaitsForWorkOfOtherThreads) {
    BusyStream busy(stream_);
    EXPECT_EQ(query(stream_), ACL_STREAM_STATUS_NOT_READY);
    EXPECT_EQ(query(nullptr), ACL_STREAM_STATUS_COMPLETE) << "other streams are not concerned";
    EXPECT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
    EXPECT_FALSE(busy.done());
    busy.release();
    EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
    EXPECT_TRUE(busy.done());
    EXPECT_EQ(query(stream_), ACL_STREAM_STATUS_COMPLETE);
}

TEST_F(StreamTest, DeviceSynchroniseWaitsForAllStreams) {
    BusyStream busy(stream_);
    busy.release();
    EXPECT_EQ(aclrtSynchronizeDevice(), ACL_SUCCESS);
    EXPECT_TRUE(busy.done());
}

TEST_F(StreamTest, DestroyWaitsAndForcedDestroyDoesNot) {
    aclrtStream stream = nullptr;
    ASSERT_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
    {
        BusyStream busy(stream);
        std::thread release_later([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
            busy.release();
        });
        EXPECT_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
        EXPECT_TRUE(busy.done());
        release_later.join();
    }
    ASSERT_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
    BusyStream busy(stream);
    EXPECT_EQ(aclrtDestroyStreamForce(stream), ACL_SUCCESS);
    EXPECT_FALSE(busy.done()) << "the work goes on, on a stream that nobody can name any more";
}

// A callback may submit to its own stream: that work runs inside it. Waiting there would never end, so it is refused.
TEST_F(StreamTest, CallbackUsesItsOwnStream) {
    struct Inside {
        aclrtStream stream;
        char bytes[4] = {1, 2, 3, 4};
        char copy[4] = {};
        bool nested = false;
    } inside{stream_};
    const auto work = [](void* argument) {
        auto& in = *static_cast<Inside*>(argument);
        EXPECT_EQ(query(in.stream), ACL_STREAM_STATUS_NOT_READY);
        EXPECT_EQ(aclrtMemcpyAsync(in.copy, 4, in.bytes, 4, ACL_MEMCPY_DEFAULT, in.stream), ACL_SUCCESS);
        EXPECT_EQ(in.copy[3], 4);
        EXPECT_EQ(aclrtLaunchHostFunc(
                      in.stream, [](void* flag) { *static_cast<bool*>(flag) = true; }, &in.nested),
                  ACL_SUCCESS);
        const auto parts = {std::string_view("it would wait for itself")};
        take_errors();
        expect_failure(aclrtSynchronizeStream(in.stream), ACL_ERROR_RT_PARAM_INVALID, parts);
        expect_failure(aclrtSynchronizeStreamWithTimeout(in.stream, 1), ACL_ERROR_RT_PARAM_INVALID, parts);
        expect_failure(aclrtSynchronizeDevice(), ACL_ERROR_RT_PARAM_INVALID, parts);
        expect_failure(aclrtDestroyStream(in.stream), ACL_ERROR_RT_PARAM_INVALID, parts);
        EXPECT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS) << "another stream may be waited for";
    };
    EXPECT_EQ(aclrtLaunchHostFunc(stream_, work, &inside), ACL_SUCCESS);
    EXPECT_TRUE(inside.nested);
    EXPECT_EQ(query(stream_), ACL_STREAM_STATUS_COMPLETE);
}

// A counter without any protection of its own: the stream's lock is what keeps it right (and the thread sanitizer
// quiet).
TEST_F(StreamTest, ThreadsShareOneStream) {
    constexpr int kThreads = 4;
    constexpr int kCalls = 2000;
    struct Counter {
        long value = 0;
        bool inside = false;
        bool overlapped = false;
    } counter;
    const auto increment = [](void* argument) {
        auto& c = *static_cast<Counter*>(argument);
        c.overlapped |= c.inside;
        c.inside = true;
        ++c.value;
        c.inside = false;
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([&] {
            for (int call = 0; call < kCalls; ++call) {
                std::string problem;
                EXPECT_EQ(ascendcl::submit(stream_, {increment, &counter}, problem), ACL_SUCCESS);
            }
        });
    }
    for (int i = 0; i < 50; ++i) EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 30000), ACL_SUCCESS);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(counter.value, long{kThreads} * kCalls);
    EXPECT_FALSE(counter.overlapped);
}

TEST_F(StreamTest, SubmitRefusesADeadStream) {
    bool ran = false;
    const ascendcl::TaskRef task{[](void* flag) { *static_cast<bool*>(flag) = true; }, &ran};
    std::string problem;
    EXPECT_EQ(ascendcl::submit(stream_, task, problem), ACL_SUCCESS);
    EXPECT_TRUE(ran);
    ran = false;
    EXPECT_EQ(ascendcl::submit(nullptr, task, problem), ACL_SUCCESS);
    EXPECT_EQ(problem, "");
    EXPECT_TRUE(ran);
    ran = false;
    int local = 0;
    EXPECT_EQ(ascendcl::submit(&local, task, problem), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_FALSE(ran);
    EXPECT_NE(problem.find("is not a handle of a stream"), std::string::npos) << problem;
    EXPECT_EQ(take_errors(), "");  // the text is the caller's to queue
}

TEST_F(StreamTest, AThreadHasAStreamOfItsOwn) {
    const aclrtStream mine = ascendcl::thread_stream();
    ASSERT_NE(mine, nullptr);
    EXPECT_EQ(ascendcl::thread_stream(), mine);
    aclrtStream other = nullptr;
    std::thread([&] {
        other = ascendcl::thread_stream();  // without a context
        aclrtContext context = nullptr;
        EXPECT_NE(aclrtGetCurrentContext(&context), ACL_SUCCESS);
        take_errors();
        EXPECT_EQ(aclrtSynchronizeStream(other), ACL_SUCCESS);
    }).join();
    EXPECT_NE(other, nullptr);
    EXPECT_NE(other, mine);
    EXPECT_EQ(aclrtSynchronizeStream(mine), ACL_SUCCESS);
    EXPECT_NE(aclrtSynchronizeStream(other), ACL_SUCCESS);  // it ended with its thread
    take_errors();
}

// As frameworks do: a pool of streams, made and used from several threads.
TEST_F(StreamTest, ManyStreamsOnManyThreads) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([] {
            ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
            std::vector<aclrtStream> streams(32);
            for (aclrtStream& stream : streams) {
                ASSERT_EQ(aclrtCreateStreamWithConfig(&stream, 0, 3), ACL_SUCCESS);
                ASSERT_EQ(aclrtSetStreamFailureMode(stream, 1), ACL_SUCCESS);
            }
            int value = 0;
            for (aclrtStream stream : streams) {
                ASSERT_EQ(aclrtLaunchHostFunc(
                              stream, [](void* v) { ++*static_cast<int*>(v); }, &value),
                          ACL_SUCCESS);
            }
            EXPECT_EQ(value, 32);
            EXPECT_EQ(aclrtSynchronizeDevice(), ACL_SUCCESS);
            for (aclrtStream stream : streams) ASSERT_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
            ASSERT_EQ(aclrtResetDevice(0), ACL_SUCCESS);
        });
    }
    for (std::thread& thread : threads) thread.join();
}

}  // namespace
