#include "opbase/parallel.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "ascendcl/processors.h"
#include "support.h"

namespace {

using opbase::parallel_for;

// Restores the default, so that tests do not depend on each other's order.
class Parallel : public testing::Test {
  protected:
    void TearDown() override {
        opbase::set_parallel_driver(nullptr);
        opbase::set_thread_count(0);
    }
};

// Runs a loop and checks the contract: every item once, slots in range, none in use twice at a time.
void check_loop(int64_t items, int slots) {
    std::vector<std::atomic<int>> visits(items);
    std::vector<std::atomic<int>> in_use(std::max(1, slots));
    std::atomic<int> wrong{0};
    parallel_for(items, slots, [&](int64_t item, int slot) {
        if (slot < 0 || slot >= std::max(1, slots)) {
            wrong++;
            return;
        }
        if (in_use[slot].fetch_add(1) != 0) wrong++;
        visits[item]++;
        for (int spin = 0; spin < 20; spin++) in_use[slot].load();  // long enough for an overlap to show
        in_use[slot].fetch_sub(1);
    });
    EXPECT_EQ(wrong, 0);
    for (int64_t i = 0; i < items; i++) ASSERT_EQ(visits[i], 1) << "item " << i << " of " << items;
}

TEST_F(Parallel, EveryItemOnceForEveryThreadCount) {
    for (int threads = 1; threads <= 8; threads++) {
        opbase::set_thread_count(threads);
        EXPECT_EQ(opbase::thread_count(), threads);
        for (const int64_t items : {0, 1, 2, 3, 7, 8, 9, 100, 5000}) check_loop(items, threads);
    }
}

TEST_F(Parallel, FewerOrMoreSlotsThanThreads) {
    opbase::set_thread_count(4);
    for (const int slots : {-1, 0, 1, 2, 3, 4, 5, 64, 1 << 20}) check_loop(200, slots);
}

TEST_F(Parallel, NegativeItemsAreNothing) {
    parallel_for(-5, 2, [](int64_t, int) { FAIL(); });
    parallel_for(INT64_MIN, 2, [](int64_t, int) { FAIL(); });
}

TEST_F(Parallel, ManyItems) {
    opbase::set_thread_count(3);
    constexpr int64_t kItems = 2'000'000;
    std::vector<int64_t> sums(3, 0);  // by slot: unsynchronised on purpose, as scratch memory is
    parallel_for(kItems, 3, [&](int64_t item, int slot) { sums[slot] += item; });
    EXPECT_EQ(sums[0] + sums[1] + sums[2], kItems * (kItems - 1) / 2);
}

// Results of a loop must be visible to its caller, and loops follow each other closely.
TEST_F(Parallel, ManyShortLoops) {
    opbase::set_thread_count(4);
    std::vector<int> values(16, 0);
    for (int round = 1; round <= 5000; round++) {
        parallel_for(16, 4, [&](int64_t item, int) { values[item] += 1; });
        ASSERT_EQ(std::count(values.begin(), values.end(), round), 16) << "round " << round;
    }
}

TEST_F(Parallel, SeveralThreadsWork) {
    opbase::set_thread_count(4);
    std::mutex mutex;
    std::set<std::thread::id> ids;
    std::set<int> slots;
    // Each item waits for the others: this only ends when four threads are in the loop at a time.
    std::atomic<int> arrived{0};
    parallel_for(4, 4, [&](int64_t, int slot) {
        {
            const std::lock_guard lock(mutex);
            ids.insert(std::this_thread::get_id());
            slots.insert(slot);
        }
        arrived++;
        while (arrived < 4) std::this_thread::yield();
    });
    EXPECT_EQ(ids.size(), 4U);
    EXPECT_EQ(slots, (std::set<int>{0, 1, 2, 3}));
}

TEST_F(Parallel, SleepingWorkersAreWoken) {
    opbase::set_thread_count(2);
    for (int round = 0; round < 20; round++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));  // far longer than the workers stay awake
        std::atomic<int> arrived{0};
        parallel_for(2, 2, [&](int64_t, int) {
            arrived++;
            while (arrived < 2) std::this_thread::yield();
        });
    }
}

TEST_F(Parallel, CallerSleepsWhileAWorkerIsBusy) {
    opbase::set_thread_count(2);
    std::atomic<int> arrived{0};
    std::atomic<int> done{0};
    parallel_for(2, 2, [&](int64_t, int slot) {
        arrived++;
        while (arrived < 2) std::this_thread::yield();
        if (slot == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        done++;
    });
    EXPECT_EQ(done, 2);
}

TEST_F(Parallel, NestedLoopsRunInline) {
    opbase::set_thread_count(4);
    std::vector<std::atomic<int>> visits(8 * 5);
    parallel_for(8, 4, [&](int64_t outer, int) {
        const auto caller = std::this_thread::get_id();
        parallel_for(5, 4, [&](int64_t inner, int slot) {
            EXPECT_EQ(std::this_thread::get_id(), caller);
            EXPECT_EQ(slot, 0);
            visits[outer * 5 + inner]++;
        });
    });
    for (const auto& count : visits) EXPECT_EQ(count, 1);
}

TEST_F(Parallel, ConcurrentCallersAllFinish) {
    opbase::set_thread_count(3);
    std::vector<std::thread> callers;
    for (int c = 0; c < 4; c++) {
        callers.emplace_back([] {
            for (int round = 0; round < 300; round++) check_loop(20, 3);
        });
    }
    for (auto& caller : callers) caller.join();
}

TEST_F(Parallel, ThreadCountMayChangeWhileLoopsRun) {
    std::atomic<bool> stop{false};
    std::thread changer([&] {
        for (int i = 0; !stop; i++) opbase::set_thread_count(1 + i % 8);
    });
    for (int round = 0; round < 500; round++) check_loop(30, opbase::thread_count());
    stop = true;
    changer.join();
}

TEST_F(Parallel, DefaultIsWhatTheProcessMayUse) {
    // The test may itself run under a setting.
    const char* const setting = std::getenv("ASCEND_CPU_THREADS");
    const int asked = setting != nullptr ? std::atoi(setting) : 0;
    EXPECT_EQ(opbase::thread_count(), asked != 0 ? asked : ascendcl::available_processors());
    int64_t cores = 0;
    ASSERT_EQ(aclGetDeviceCapability(0, ACL_DEVICE_INFO_AI_CORE_NUM, &cores), ACL_SUCCESS);
    EXPECT_EQ(opbase::thread_count(), cores);
}

TEST_F(Parallel, SettingIsClamped) {
    opbase::set_thread_count(-3);
    const int by_default = opbase::thread_count();
    opbase::set_thread_count(0);
    EXPECT_EQ(opbase::thread_count(), by_default);
}

// Signals are for the program's own threads: only the caller of a loop may be interrupted.
TEST_F(Parallel, WorkersBlockSignals) {
    opbase::set_thread_count(2);
    std::atomic<int> arrived{0};
    std::atomic<bool> blocked{false};
    parallel_for(2, 2, [&](int64_t, int slot) {
        if (slot == 1) {
            sigset_t mask;
            pthread_sigmask(SIG_SETMASK, nullptr, &mask);
            blocked = sigismember(&mask, SIGINT) == 1 && sigismember(&mask, SIGTERM) == 1;
        }
        arrived++;
        while (arrived < 2) std::this_thread::yield();
    });
    EXPECT_TRUE(blocked);
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    EXPECT_EQ(sigismember(&mask, SIGINT), 0);
}

std::atomic<int> g_driver_calls{0};

// Backwards and on one thread: allowed, as the order is not defined.
void backwards(int64_t items, int slots, opbase::ParallelBody body) {
    g_driver_calls++;
    for (int64_t item = items; item-- > 0;) body(item, slots - 1);
}

TEST_F(Parallel, DriverReplacesThePool) {
    opbase::set_thread_count(4);
    opbase::set_parallel_driver(backwards);
    EXPECT_EQ(opbase::thread_count(), 4);
    g_driver_calls = 0;
    std::vector<int64_t> order;
    parallel_for(4, 3, [&](int64_t item, int slot) {
        EXPECT_EQ(slot, 2);
        order.push_back(item);
    });
    EXPECT_EQ(order, (std::vector<int64_t>{3, 2, 1, 0}));
    EXPECT_EQ(g_driver_calls, 1);
    opbase::set_parallel_driver(nullptr);
    check_loop(100, 4);
    EXPECT_EQ(g_driver_calls, 1);
}

// The settings are read once a process, hence processes of their own.
[[noreturn]] void exit_with_thread_count(const char* setting) {
    setenv("ASCEND_CPU_THREADS", setting, 1);
    std::exit(opbase::thread_count());
}

TEST(ParallelSetting, ThreadsFromTheEnvironment) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(exit_with_thread_count("5"), testing::ExitedWithCode(5), "");
}

TEST(ParallelSetting, BadValueWarnsAndUsesTheDefault) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(exit_with_thread_count("many"), testing::ExitedWithCode(ascendcl::available_processors()),
                "ASCEND_CPU_THREADS is \"many\": expected a whole number from 1 to 1024; using [0-9]+ threads");
}

TEST(ParallelExit, ProcessEndsWhileWorkersSleepOrWork) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            opbase::set_thread_count(4);
            check_loop(100, 4);
            std::thread([] {
                for (;;) parallel_for(1000, 4, [](int64_t, int) {});
            }).detach();
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            std::exit(0);
        },
        testing::ExitedWithCode(0), "");
}

}  // namespace
