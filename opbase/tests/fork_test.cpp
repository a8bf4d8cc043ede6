// A forked child has one thread: the pool and the executors must work there, whatever the parent's threads were doing.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "opbase/executor.h"
#include "opbase/parallel.h"

#ifndef __has_feature
#define __has_feature(name) 0  // g++ has macros of its own for the sanitizers
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif

namespace {

constexpr unsigned kTimeoutSeconds = 60;  // a child that hangs is killed by its alarm; a healthy one needs milliseconds

constexpr const char* kOp = "aclnnProbe";

aclnnStatus plan(uint64_t* size, aclOpExecutor** executor, std::atomic<int64_t>* sum) {
    return opbase::plan_operator(
        kOp, size, executor,
        [&] {
            opbase::Plan made;
            made.run = [sum, slots = opbase::thread_count()](const opbase::Launch&) {
                opbase::parallel_for(100, slots, [&](int64_t item, int) { *sum += item; });
            };
            return made;
        },
        [] { return std::string(); });
}

// 0 when both phases and the loop inside work.
int use_everything() {
    std::atomic<int64_t> sum{0};
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    if (plan(&size, &executor, &sum) != OK) return 1;
    if (opbase::run_operator(kOp, nullptr, 0, executor, nullptr) != OK) return 2;
    return sum == 4950 ? 0 : 3;
}

template <class Body>
void expect_success_in_child(const Body& body) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        alarm(kTimeoutSeconds);
        // The thread sanitizer cannot follow new threads after a fork of several, and ends such a process. Under it the
        // children work alone, which still tries every lock; the other builds try the threads.
        if (kThreadSanitizer) opbase::set_thread_count(1);
        _exit(body());
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "the child was killed by signal " << WTERMSIG(status);
    ASSERT_EQ(WEXITSTATUS(status), 0);
}

class Fork : public testing::Test {
  protected:
    void SetUp() override {
        // A worker that allocates while the process forks leaves the lock of that allocator taken in the child, which
        // then hangs in its first allocation (one run in a hundred). The C library's allocator is safe.
        if (kAddressSanitizer) GTEST_SKIP() << "the address sanitizer's own allocator does not survive a fork";
        opbase::set_thread_count(3);
    }
    void TearDown() override { opbase::set_thread_count(0); }
};

TEST_F(Fork, ChildBeforeAnyUse) {
    expect_success_in_child(use_everything);
}

TEST_F(Fork, ChildStartsAFreshPool) {
    ASSERT_EQ(use_everything(), 0);
    expect_success_in_child([] {
        if (use_everything() != 0) return 1;
        // The fresh pool has real threads: items that wait for each other need one each.
        const int items = std::min(2, opbase::thread_count());
        if (items < 2 && !kThreadSanitizer) return 4;
        std::atomic<int> arrived{0};
        opbase::parallel_for(items, items, [&](int64_t, int) {
            arrived++;
            while (arrived < items) std::this_thread::yield();
        });
        return use_everything();
    });
    EXPECT_EQ(use_everything(), 0) << "the parent's pool still works";
}

TEST_F(Fork, ExecutorOfTheParentRunsInTheChild) {
    std::atomic<int64_t> sum{0};
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(plan(&size, &executor, &sum), OK);
    expect_success_in_child([&] {
        if (opbase::run_operator(kOp, nullptr, 0, executor, nullptr) != OK) return 1;
        return sum == 4950 ? 0 : 2;
    });
    EXPECT_EQ(opbase::run_operator(kOp, nullptr, 0, executor, nullptr), OK) << "the parent's is another copy";
    EXPECT_EQ(sum, 4950);
}

TEST_F(Fork, GrandchildrenWorkToo) {
    // Once a process with threads has forked, the thread sanitizer no longer sees which locks the child takes.
    if (kThreadSanitizer) opbase::set_thread_count(1);
    ASSERT_EQ(use_everything(), 0);
    expect_success_in_child([] {
        if (use_everything() != 0) return 1;
        expect_success_in_child(use_everything);
        return testing::Test::HasFailure() ? 2 : 0;
    });
}

TEST_F(Fork, WhileOtherThreadsPlanAndRun) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> busy;
    for (int t = 0; t < 2; t++) {
        busy.emplace_back([&] {
            while (!stop) {
                if (use_everything() != 0) stop = true;
            }
        });
    }
    for (int i = 0; i < 20 && !HasFatalFailure(); i++) expect_success_in_child(use_everything);
    EXPECT_FALSE(stop);
    stop = true;
    for (auto& thread : busy) thread.join();
}

}  // namespace
