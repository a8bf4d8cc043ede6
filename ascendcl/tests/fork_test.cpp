// fork(): the child must find every lock free and the tables whole, whatever other threads did at that moment.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "support.h"

#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif

namespace {

// Runs `body` in a forked child and gives its exit code, or 128 + the signal. A child that hangs is killed by SIGALRM.
template <class Body>
int in_child(Body body) {
    const pid_t child = fork();
    if (child == 0) {
        alarm(30);
        _exit(body());
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Uses every part of the runtime. 0, or the number of the step that failed.
int use_everything(aclrtStream stream) {
    void* block = nullptr;
    aclrtEvent event = nullptr;
    aclrtStream own = nullptr;
    if (aclrtSetDevice(0) != ACL_SUCCESS) return 1;
    if (aclrtMalloc(&block, 100, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) return 2;
    if (aclrtCreateStream(&own) != ACL_SUCCESS) return 3;
    if (aclrtCreateEvent(&event) != ACL_SUCCESS) return 4;
    if (aclrtMemsetAsync(block, 100, 1, 100, stream) != ACL_SUCCESS) return 5;
    if (aclrtRecordEvent(event, own) != ACL_SUCCESS) return 6;
    if (aclrtSynchronizeStream(stream) != ACL_SUCCESS) return 7;
    if (aclrtFree(nullptr) == ACL_SUCCESS) return 8;
    if (aclGetRecentErrMsg() == nullptr) return 9;
    if (aclrtDestroyEvent(event) != ACL_SUCCESS) return 10;
    if (aclrtDestroyStream(own) != ACL_SUCCESS) return 11;
    if (aclrtFree(block) != ACL_SUCCESS) return 12;
    return aclrtResetDevice(0) == ACL_SUCCESS ? 0 : 13;
}

using ForkTest = RuntimeTest;

TEST_F(ForkTest, ChildWorks) {
    EXPECT_EQ(in_child([this] { return use_everything(stream_); }), 0);
    EXPECT_EQ(use_everything(stream_), 0) << "and the parent goes on";
}

TEST_F(ForkTest, WhileOtherThreadsWork) {
    // A thread that allocates while the process forks leaves the lock of that allocator taken in the child, which then
    // hangs in its first allocation. The C library's allocator is safe.
    if (kAddressSanitizer) GTEST_SKIP() << "the address sanitizer's own allocator does not survive a fork";
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
        threads.emplace_back([&] {
            while (!stop) EXPECT_EQ(use_everything(stream_), 0);
        });
    }
    for (int i = 0; i < 50; ++i) EXPECT_EQ(in_child([this] { return use_everything(stream_); }), 0) << "fork " << i;
    stop = true;
    for (std::thread& thread : threads) thread.join();
}

// The work goes on in the parent; in the child its thread does not exist, and the stream is free.
TEST_F(ForkTest, WhileAnotherThreadIsInsideACallback) {
    struct State {
        std::atomic<bool> inside{false};
        std::atomic<bool> leave{false};
    } state;
    std::thread worker([&] {
        const auto stay = [](void* argument) {
            auto& s = *static_cast<State*>(argument);
            s.inside = true;
            while (!s.leave) std::this_thread::yield();
        };
        EXPECT_EQ(aclrtLaunchHostFunc(stream_, stay, &state), ACL_SUCCESS);
    });
    while (!state.inside) std::this_thread::yield();
    EXPECT_EQ(in_child([this] { return use_everything(stream_); }), 0);
    aclrtStreamStatus status = ACL_STREAM_STATUS_COMPLETE;
    EXPECT_EQ(aclrtStreamQuery(stream_, &status), ACL_SUCCESS);
    EXPECT_EQ(status, ACL_STREAM_STATUS_NOT_READY) << "the parent's stream is untouched";
    state.leave = true;
    worker.join();
}

TEST_F(ForkTest, InsideACallback) {
    static aclrtStream stream;
    static int exit_code;
    stream = stream_;
    const auto fork_here = [](void*) {
        exit_code = in_child([] {
            char bytes[4] = {};
            if (aclrtMemsetAsync(bytes, 4, 1, 4, stream) != ACL_SUCCESS) return 1;  // still inside: nested
            return aclrtSynchronizeStream(stream) == ACL_ERROR_RT_PARAM_INVALID ? 0 : 2;
        });
    };
    EXPECT_EQ(aclrtLaunchHostFunc(stream_, fork_here, nullptr), ACL_SUCCESS);
    EXPECT_EQ(exit_code, 0);
    EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
}

}  // namespace
