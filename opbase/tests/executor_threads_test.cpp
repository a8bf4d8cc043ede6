// Executors and several threads: the phases may be on different ones, and nothing is freed under a run.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "aclnn/aclnn_base.h"
#include "opbase/executor.h"
#include "opbase/tensor.h"
#include "support.h"

namespace {

using opbase::Launch;
using opbase::Plan;

constexpr const char* kOp = "aclnnProbe";

aclOpExecutor* plan(Plan made) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    const auto status = opbase::plan_operator(
        kOp, &size, &executor, [&] { return std::move(made); }, [] { return std::string(); });
    EXPECT_EQ(status, OK);
    return executor;
}

aclnnStatus run(aclOpExecutor* executor) {
    return opbase::run_operator(kOp, nullptr, 0, executor, nullptr);
}

TEST(ExecutorThreads, PhasesOnDifferentThreads) {
    int value = 0;
    Plan made;
    made.run = [&](const Launch&) { value = 7; };
    aclOpExecutor* executor = nullptr;
    std::thread([&] { executor = plan(std::move(made)); }).join();
    std::thread([&] { EXPECT_EQ(run(executor), OK); }).join();
    EXPECT_EQ(value, 7);
}

// What phase one was given may be gone before phase two.
TEST(ExecutorThreads, TensorsMayBeDestroyedBetweenThePhases) {
    const int64_t dims[] = {4};
    float data[4] = {1, 2, 3, 4};
    float sum = 0;
    aclTensor* tensor = aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, data);
    ASSERT_NE(tensor, nullptr);
    Plan made;
    made.inputs = {tensor->data};
    made.run = [captured = opbase::Tensor(*tensor), &sum](const Launch& launch) {
        const auto* values = static_cast<const float*>(launch.inputs[0]);
        for (int64_t i = 0; i < captured.count(); i++) sum += values[i];
    };
    aclOpExecutor* executor = plan(std::move(made));
    EXPECT_EQ(aclDestroyTensor(tensor), OK);
    EXPECT_EQ(run(executor), OK);
    EXPECT_EQ(sum, 10.0F);
}

TEST(ExecutorThreads, ManyThreadsPlanAndRun) {
    constexpr int kThreads = 4;
    constexpr int kCalls = 500;
    std::atomic<int> runs{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; t++) {
        threads.emplace_back([&] {
            for (int i = 0; i < kCalls; i++) {
                Plan made;
                made.run = [&](const Launch&) { runs++; };
                aclOpExecutor* executor = plan(std::move(made));
                if (i % 3 == 0) {
                    EXPECT_EQ(aclSetAclOpExecutorRepeatable(executor), OK);
                    EXPECT_EQ(run(executor), OK);
                    EXPECT_EQ(aclDestroyAclOpExecutor(executor), OK);
                } else {
                    EXPECT_EQ(run(executor), OK);
                }
                EXPECT_EQ(run(executor), 561000);
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(runs, kThreads * kCalls);
}

// Of many threads that use one handle, exactly one wins.
TEST(ExecutorThreads, OneShotRunsOnceEvenInARace) {
    for (int round = 0; round < 50; round++) {
        std::atomic<int> runs{0};
        std::atomic<int> succeeded{0};
        Plan made;
        made.run = [&](const Launch&) { runs++; };
        aclOpExecutor* executor = plan(std::move(made));
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; t++) {
            threads.emplace_back([&] {
                const aclnnStatus status = run(executor);
                if (status == OK) succeeded++;
                EXPECT_TRUE(status == OK || status == 561000) << status;
            });
        }
        for (auto& thread : threads) thread.join();
        EXPECT_EQ(runs, 1);
        EXPECT_EQ(succeeded, 1);
    }
}

// A run that waits until the test lets it go.
class RunInProgress : public testing::Test {
  protected:
    void start(bool repeatable) {
        Plan made;
        made.inputs = {&data_};
        made.run = [this, alive = alive_](const Launch&) {
            entered_.set_value();
            leave_.get_future().wait();
        };
        executor_ = plan(std::move(made));
        if (repeatable) {
            ASSERT_EQ(aclSetAclOpExecutorRepeatable(executor_), OK);
        }
        runner_ = std::thread([this] { status_ = run(executor_); });
        entered_.get_future().wait();
    }
    void finish() {
        leave_.set_value();
        runner_.join();
        EXPECT_EQ(status_, OK);
    }

    int data_ = 0;
    std::shared_ptr<int> alive_ = std::make_shared<int>(0);
    std::promise<void> entered_, leave_;
    aclOpExecutor* executor_ = nullptr;
    std::thread runner_;
    aclnnStatus status_ = -1;
};

TEST_F(RunInProgress, IsNotFreedByDestroy) {
    start(true);
    EXPECT_EQ(aclDestroyAclOpExecutor(executor_), OK);
    EXPECT_EQ(alive_.use_count(), 2) << "the plan lives as long as its run";
    finish();
    EXPECT_EQ(alive_.use_count(), 1);
    EXPECT_EQ(run(executor_), 561000);
}

TEST_F(RunInProgress, OneShotIsNotFreedByDestroy) {
    start(false);
    EXPECT_EQ(aclDestroyAclOpExecutor(executor_), OK);
    EXPECT_EQ(alive_.use_count(), 2);
    finish();
    EXPECT_EQ(alive_.use_count(), 1);
}

TEST_F(RunInProgress, RefusesASecondRunAndNewAddresses) {
    start(true);
    EXPECT_EQ(run(executor_), 561000);
    EXPECT_CONTAINS(take_error(), "aclnnProbe: the executor is in use by another thread");
    const int64_t dims[] = {1};
    aclTensor* tensor = aclCreateTensor(dims, 1, ACL_INT32, nullptr, 0, ACL_FORMAT_ND, dims, 1, &data_);
    EXPECT_EQ(aclSetInputTensorAddr(executor_, 0, tensor, &status_), 561000);
    EXPECT_CONTAINS(take_error(), "in use by another thread");
    EXPECT_EQ(tensor->data, &data_);
    aclDestroyTensor(tensor);
    finish();
    EXPECT_EQ(aclDestroyAclOpExecutor(executor_), OK);
}

}  // namespace
