// A forked child has one thread: the pool and the executors must work there, whatever the parent's threads were doing.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "opbase/executor.h"
#include "opbase/parallel.h"

#if defined(__SANITIZE_THREAD__)
#define FUSION_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FUSION_TSAN 1
#endif
#endif
#ifdef FUSION_TSAN
// The thread sanitizer forbids new threads after a fork unless told that this is meant. Visible, as its library asks
// for it.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options() {
    return "die_after_fork=0";
}
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
        _exit(body());
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "the child was killed by signal " << WTERMSIG(status);
    ASSERT_EQ(WEXITSTATUS(status), 0);
}

class Fork : public testing::Test {
  protected:
    void SetUp() override { opbase::set_thread_count(3); }
    void TearDown() override { opbase::set_thread_count(0); }
};

TEST_F(Fork, ChildBeforeAnyUse) {
    expect_success_in_child(use_everything);
}

TEST_F(Fork, ChildStartsAFreshPool) {
    ASSERT_EQ(use_everything(), 0);
    expect_success_in_child([] {
        if (use_everything() != 0) return 1;
        // The fresh pool has real threads: two items that wait for each other need two.
        std::atomic<int> arrived{0};
        opbase::parallel_for(2, 2, [&](int64_t, int) {
            arrived++;
            while (arrived < 2) std::this_thread::yield();
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
