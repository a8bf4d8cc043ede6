// The two-phase contract on one thread: who may run what how often, and what is answered otherwise.
#include "opbase/executor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "aclnn/aclnn_base.h"
#include "opbase/error.h"
#include "opbase/tensor.h"
#include "support.h"

namespace {

using opbase::Launch;
using opbase::Plan;

constexpr const char* kOp = "aclnnProbe";

constexpr auto kNoArguments = [] { return std::string(); };

// Phase one of an operator without arguments.
aclnnStatus plan(Plan made, uint64_t* workspace_size, aclOpExecutor** executor, const char* name = kOp) {
    return opbase::plan_operator(
        name, workspace_size, executor, [&] { return std::move(made); }, kNoArguments);
}

aclOpExecutor* plan(Plan made, const char* name = kOp) {
    uint64_t workspace_size = 0;
    aclOpExecutor* executor = nullptr;
    EXPECT_EQ(plan(std::move(made), &workspace_size, &executor, name), OK);
    EXPECT_NE(executor, nullptr);
    return executor;
}

Plan counting_plan(int* runs) {
    Plan made;
    made.run = [runs](const Launch&) { ++*runs; };
    return made;
}

aclnnStatus run(aclOpExecutor* executor, void* workspace = nullptr, uint64_t size = 0, aclrtStream stream = nullptr) {
    return opbase::run_operator(kOp, workspace, size, executor, stream);
}

TEST(Executor, RunsOncePerDefault) {
    int runs = 0;
    aclOpExecutor* executor = plan(counting_plan(&runs));
    EXPECT_EQ(runs, 0);
    EXPECT_EQ(run(executor), OK);
    EXPECT_EQ(runs, 1);
}

TEST(Executor, SecondUseNamesTheFunctionThatAllowsIt) {
    int runs = 0;
    aclOpExecutor* executor = plan(counting_plan(&runs));
    EXPECT_EQ(run(executor), OK);
    EXPECT_EQ(run(executor), 561000);
    EXPECT_EQ(runs, 1);
    const std::string text = take_error();
    EXPECT_CONTAINS(text, "AclNN_Inner_Error(EZ9999): aclnnProbe: executor ");
    EXPECT_CONTAINS(text, "was already used or destroyed");
    EXPECT_CONTAINS(text, "aclSetAclOpExecutorRepeatable");
}

// New executors do not bring an old handle back to life, however memory is reused.
TEST(Executor, UsedHandlesStayDead) {
    int runs = 0;
    aclOpExecutor* used = plan(counting_plan(&runs));
    EXPECT_EQ(run(used), OK);
    for (int i = 0; i < 100; i++) {
        aclOpExecutor* fresh = plan(counting_plan(&runs));
        EXPECT_NE(fresh, used);
        EXPECT_EQ(run(used), 561000);
        EXPECT_EQ(run(fresh), OK);
    }
    EXPECT_EQ(runs, 101);
}

TEST(Executor, RepeatableRunsAnyNumberOfTimes) {
    int runs = 0;
    aclOpExecutor* executor = plan(counting_plan(&runs));
    EXPECT_EQ(aclSetAclOpExecutorRepeatable(executor), OK);
    EXPECT_EQ(aclSetAclOpExecutorRepeatable(executor), OK);
    for (int i = 0; i < 5; i++) EXPECT_EQ(run(executor), OK);
    EXPECT_EQ(runs, 5);
    EXPECT_EQ(aclDestroyAclOpExecutor(executor), OK);
    EXPECT_EQ(run(executor), 561000);
    EXPECT_EQ(aclDestroyAclOpExecutor(executor), 561000);
    EXPECT_CONTAINS(take_error(), "aclDestroyAclOpExecutor: executor ");
    EXPECT_EQ(runs, 5);
}

TEST(Executor, UnusedOnesCanBeDestroyed) {
    auto alive = std::make_shared<int>(0);
    Plan made;
    made.run = [alive](const Launch&) {};
    aclOpExecutor* executor = plan(std::move(made));
    EXPECT_EQ(alive.use_count(), 2);
    EXPECT_EQ(aclDestroyAclOpExecutor(executor), OK);
    EXPECT_EQ(alive.use_count(), 1);
    EXPECT_EQ(run(executor), 561000);
}

TEST(Executor, RunningFreesWhatThePlanHolds) {
    auto alive = std::make_shared<int>(0);
    Plan made;
    made.run = [alive](const Launch&) {};
    EXPECT_EQ(run(plan(std::move(made))), OK);
    EXPECT_EQ(alive.use_count(), 1);
}

TEST(Executor, NullIsRefused) {
    EXPECT_EQ(run(nullptr), 161001);
    EXPECT_CONTAINS(take_error(), "AclNN_Parameter_Error(EZ1001): aclnnProbe: executor cannot be nullptr");
    EXPECT_EQ(aclSetAclOpExecutorRepeatable(nullptr), 561103);
    EXPECT_CONTAINS(take_error(), "aclSetAclOpExecutorRepeatable: executor cannot be nullptr");
    EXPECT_EQ(aclDestroyAclOpExecutor(nullptr), 561103);
    EXPECT_CONTAINS(take_error(), "aclDestroyAclOpExecutor: executor cannot be nullptr");
}

TEST(Executor, ForeignPointersAreNotFollowed) {
    int runs = 0;
    aclOpExecutor* real = plan(counting_plan(&runs));
    int on_stack = 0;
    const uintptr_t numbers[] = {0x10, UINTPTR_MAX, reinterpret_cast<uintptr_t>(&on_stack),
                                 reinterpret_cast<uintptr_t>(real) + 1};
    for (const uintptr_t number : numbers) {
        auto* foreign = reinterpret_cast<aclOpExecutor*>(number);
        EXPECT_EQ(run(foreign), 561000);
        EXPECT_CONTAINS(take_error(), "was not created by a GetWorkspaceSize call");
        EXPECT_EQ(aclDestroyAclOpExecutor(foreign), 561000);
        EXPECT_EQ(aclSetAclOpExecutorRepeatable(foreign), 561000);
    }
    EXPECT_EQ(run(real), OK);
    EXPECT_EQ(runs, 1);
}

TEST(Executor, AnotherOperatorsExecutorIsRefusedAndKept) {
    int runs = 0;
    aclOpExecutor* executor = plan(counting_plan(&runs), "aclnnFlashAttentionScore");
    EXPECT_EQ(opbase::run_operator("aclnnFlashAttentionScoreGrad", nullptr, 0, executor, nullptr), 161002);
    EXPECT_CONTAINS(take_error(), "executor was created by aclnnFlashAttentionScore, not aclnnFlashAttentionScoreGrad");
    EXPECT_EQ(runs, 0);
    EXPECT_EQ(opbase::run_operator("aclnnFlashAttentionScore", nullptr, 0, executor, nullptr), OK);
    EXPECT_EQ(runs, 1);
}

TEST(Executor, Workspace) {
    void* seen = nullptr;
    Plan made;
    made.workspace_size = 1000;
    made.run = [&seen](const Launch& launch) { seen = launch.workspace; };
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(plan(std::move(made), &size, &executor), OK);
    EXPECT_GE(size, 1000U);
    EXPECT_LE(size, 1063U);
    std::vector<char> workspace(size + 1);

    EXPECT_EQ(run(executor, nullptr, size), 161001);
    EXPECT_CONTAINS(take_error(), "workspace cannot be nullptr when workspaceSize is " + std::to_string(size));
    EXPECT_EQ(run(executor, workspace.data(), size - 1), 161002);
    EXPECT_CONTAINS(take_error(), "workspaceSize is " + std::to_string(size - 1) + ": this executor needs the " +
                                      std::to_string(size) + " bytes");
    EXPECT_EQ(run(executor, nullptr, 0), 161002);
    EXPECT_EQ(seen, nullptr);

    // Refusals have not used it up, and any address will do.
    EXPECT_EQ(run(executor, workspace.data() + 1, size), OK);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(seen) % 64, 0U);
    EXPECT_GE(static_cast<char*>(seen), workspace.data() + 1);
    EXPECT_LE(static_cast<char*>(seen) + 1000, workspace.data() + 1 + size);
}

TEST(Executor, WithoutWorkspace) {
    int runs = 0;
    uint64_t size = 99;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(plan(counting_plan(&runs), &size, &executor), OK);
    EXPECT_EQ(size, 0U);
    EXPECT_EQ(run(executor, nullptr, 16), 161001) << "a size without a workspace is a mistake even if none is needed";
    EXPECT_EQ(run(executor, &runs, 4), OK) << "too much is no mistake";
    EXPECT_EQ(runs, 1);
}

TEST(Executor, EmptyRunIsNothingToDo) {
    EXPECT_EQ(run(plan(Plan{})), OK);
}

TEST(Executor, AddressesOfPhaseOneReachTheRun) {
    int data[3];
    std::vector<void*> inputs;
    std::vector<void*> outputs;
    Plan made;
    made.inputs = {&data[0], nullptr, &data[1]};
    made.outputs = {&data[2]};
    made.run = [&](const Launch& launch) {
        inputs.assign(launch.inputs.begin(), launch.inputs.end());
        outputs.assign(launch.outputs.begin(), launch.outputs.end());
    };
    EXPECT_EQ(run(plan(std::move(made))), OK);
    EXPECT_EQ(inputs, (std::vector<void*>{&data[0], nullptr, &data[1]}));
    EXPECT_EQ(outputs, (std::vector<void*>{&data[2]}));
}

TEST(Executor, BadStreamIsRefusedAndTheExecutorKept) {
    int runs = 0;
    aclOpExecutor* executor = plan(counting_plan(&runs));
    auto* not_a_stream = reinterpret_cast<aclrtStream>(0x123);
    EXPECT_EQ(run(executor, nullptr, 0, not_a_stream), 361001);
    EXPECT_EQ(runs, 0);
    const std::string text = take_error();
    EXPECT_CONTAINS(text, "AclNN_Runtime_Error(EZ9903): aclnnProbe: stream 0x123 is not a handle of a stream");
    EXPECT_CONTAINS(text, "(error 107017)");
    EXPECT_EQ(text.find('\n'), std::string::npos) << "more than one text: " << text;
    EXPECT_EQ(run(executor), OK);
    EXPECT_EQ(runs, 1);
}

// ---- Failures of the operator itself -------------------------------------------------------------------------------

struct Failure {
    const char* what;
    std::function<void()> fail;
    aclnnStatus code;
    const char* text;
};

TEST(Executor, FailingRunsReportTheirCodeAndAreUsedUp) {
    const Failure failures[] = {
        {"inner", [] { throw opbase::OperatorError(561000, "list of 3 is not sorted"); }, 561000,
         "EZ9999): aclnnProbe: list of 3 is not sorted"},
        {"parameter", [] { throw opbase::ParameterError("value 9 is bad"); }, 161002,
         "EZ1001): aclnnProbe: value 9 is bad"},
        {"standard", [] { throw std::runtime_error("surprise"); }, 561000, "EZ9999): aclnnProbe: surprise"},
        {"memory", [] { throw std::bad_alloc(); }, 561000, "aclnnProbe: out of host memory"},
        {"anything", [] { throw 42; }, 561000, "aclnnProbe: unknown exception"},
    };
    for (const Failure& failure : failures) {
        SCOPED_TRACE(failure.what);
        Plan made;
        made.run = [&](const Launch&) { failure.fail(); };
        aclOpExecutor* executor = plan(std::move(made));
        EXPECT_EQ(run(executor), failure.code);
        EXPECT_CONTAINS(take_error(), failure.text);
        EXPECT_EQ(take_error(), "") << "a failure queues one text";
        EXPECT_EQ(run(executor), 561000);
        take_error();
    }
}

TEST(Executor, FailingPlansLeaveNothingBehind) {
    const Failure failures[] = {
        {"null", [] { opbase::require<int>(nullptr, "query"); }, 161001,
         "AclNN_Parameter_Error(EZ1001): aclnnProbe: query cannot be nullptr"},
        {"parameter", [] { throw opbase::ParameterError("headNum must be positive: got 0"); }, 161002,
         "EZ1001): aclnnProbe: headNum must be positive: got 0"},
        {"memory", [] { throw std::bad_alloc(); }, 561101, "EZ9999): aclnnProbe: out of host memory"},
        {"standard", [] { throw std::runtime_error("surprise"); }, 561000, "EZ9999): aclnnProbe: surprise"},
        {"anything", [] { throw "text"; }, 561000, "aclnnProbe: unknown exception"},
    };
    for (const Failure& failure : failures) {
        SCOPED_TRACE(failure.what);
        uint64_t size = 99;
        auto* executor = reinterpret_cast<aclOpExecutor*>(&size);
        const auto failing = [&]() -> Plan {
            failure.fail();
            return {};
        };
        EXPECT_EQ(opbase::plan_operator(kOp, &size, &executor, failing, kNoArguments), failure.code);
        EXPECT_EQ(size, 0U);
        EXPECT_EQ(executor, nullptr);
        EXPECT_CONTAINS(take_error(), failure.text);
        EXPECT_EQ(take_error(), "") << "a failure queues one text";
    }
}

TEST(Executor, ResultsOfPhaseOneCannotBeNull) {
    uint64_t size = 99;
    aclOpExecutor* executor = nullptr;
    EXPECT_EQ(plan(Plan{}, nullptr, &executor), 161001);
    EXPECT_CONTAINS(take_error(), "aclnnProbe: workspaceSize cannot be nullptr");
    EXPECT_EQ(executor, nullptr);
    EXPECT_EQ(plan(Plan{}, &size, nullptr), 161001);
    EXPECT_CONTAINS(take_error(), "aclnnProbe: executor cannot be nullptr");
    EXPECT_EQ(size, 0U);
    EXPECT_EQ(plan(Plan{}, nullptr, nullptr), 161001);
}

TEST(Executor, ArgumentsAreDescribedOnlyForATrace) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    bool described = false;
    const auto describe = [&] {
        described = true;
        return std::string();
    };
    EXPECT_EQ(opbase::plan_operator(
                  kOp, &size, &executor, [] { return Plan{}; }, describe),
              OK);
    EXPECT_FALSE(described);
    EXPECT_EQ(run(executor), OK);
}

// ---- Exchange of addresses -----------------------------------------------------------------------------------------

class Addresses : public testing::Test {
  protected:
    void SetUp() override {
        const int64_t dims[] = {2};
        tensor_ = aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, &data_[0]);
        Plan made;
        made.inputs = {&data_[0], nullptr, &data_[1]};  // the second input is absent
        made.outputs = {&data_[2], &data_[3]};
        made.run = [this](const Launch& launch) {
            inputs_.assign(launch.inputs.begin(), launch.inputs.end());
            outputs_.assign(launch.outputs.begin(), launch.outputs.end());
        };
        executor_ = plan(std::move(made));
        ASSERT_EQ(aclSetAclOpExecutorRepeatable(executor_), OK);
    }
    void TearDown() override {
        EXPECT_EQ(aclDestroyAclOpExecutor(executor_), OK);
        aclDestroyTensor(tensor_);
    }

    int data_[8] = {};
    aclTensor* tensor_ = nullptr;
    aclOpExecutor* executor_ = nullptr;
    std::vector<void*> inputs_, outputs_;
};

TEST_F(Addresses, AreExchangedBetweenRuns) {
    EXPECT_EQ(run(executor_), OK);
    EXPECT_EQ(inputs_, (std::vector<void*>{&data_[0], nullptr, &data_[1]}));
    EXPECT_EQ(aclSetInputTensorAddr(executor_, 2, tensor_, &data_[5]), OK);
    EXPECT_EQ(tensor_->data, &data_[5]);
    EXPECT_EQ(aclSetOutputTensorAddr(executor_, 0, tensor_, &data_[6]), OK);
    EXPECT_EQ(run(executor_), OK);
    EXPECT_EQ(inputs_, (std::vector<void*>{&data_[0], nullptr, &data_[5]}));
    EXPECT_EQ(outputs_, (std::vector<void*>{&data_[6], &data_[3]}));
    EXPECT_EQ(run(executor_), OK) << "they stay until they are exchanged again";
    EXPECT_EQ(outputs_, (std::vector<void*>{&data_[6], &data_[3]}));
}

TEST_F(Addresses, OneNumberingForInputsAndOutputs) {
    EXPECT_EQ(aclSetTensorAddr(executor_, 0, tensor_, &data_[5]), OK);
    EXPECT_EQ(aclSetTensorAddr(executor_, 4, tensor_, &data_[6]), OK);
    EXPECT_EQ(run(executor_), OK);
    EXPECT_EQ(inputs_, (std::vector<void*>{&data_[5], nullptr, &data_[1]}));
    EXPECT_EQ(outputs_, (std::vector<void*>{&data_[2], &data_[6]}));
}

TEST_F(Addresses, FormerNames) {
    EXPECT_EQ(AclSetInputTensorAddr(executor_, 0, tensor_, &data_[5]), OK);
    EXPECT_EQ(AclSetOutputTensorAddr(executor_, 1, tensor_, &data_[6]), OK);
    EXPECT_EQ(AclSetTensorAddr(executor_, 3, tensor_, &data_[7]), OK);
    EXPECT_EQ(run(executor_), OK);
    EXPECT_EQ(inputs_, (std::vector<void*>{&data_[5], nullptr, &data_[1]}));
    EXPECT_EQ(outputs_, (std::vector<void*>{&data_[7], &data_[6]}));
}

TEST_F(Addresses, WrongArguments) {
    using Exchange = aclnnStatus (*)(aclOpExecutor*, const size_t, aclTensor*, void*);
    const std::pair<Exchange, size_t> functions[] = {
        {aclSetInputTensorAddr, 3}, {aclSetOutputTensorAddr, 2}, {aclSetTensorAddr, 5}};
    for (const auto& [exchange, count] : functions) {
        EXPECT_EQ(exchange(nullptr, 0, tensor_, data_), 561103);
        EXPECT_CONTAINS(take_error(), "executor cannot be nullptr");
        EXPECT_EQ(exchange(executor_, 0, nullptr, data_), 561103);
        EXPECT_CONTAINS(take_error(), "tensor cannot be nullptr");
        EXPECT_EQ(exchange(executor_, 0, tensor_, nullptr), 161001);
        EXPECT_CONTAINS(take_error(), "addr cannot be nullptr for a tensor of shape [2]");
        // An empty tensor does not need an address, but the argument it is exchanged for does.
        const int64_t none = 0;
        aclTensor* empty = aclCreateTensor(&none, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &none, 1, nullptr);
        EXPECT_EQ(exchange(executor_, 0, empty, nullptr), 161001);
        EXPECT_CONTAINS(take_error(), "addr cannot be nullptr: argument 0 is in use");
        EXPECT_EQ(aclDestroyTensor(empty), OK);
        for (const size_t index : {count, SIZE_MAX}) {
            EXPECT_EQ(exchange(executor_, index, tensor_, data_), 161002);
            EXPECT_CONTAINS(take_error(), "index " + std::to_string(index) +
                                              " is out of range: aclnnProbe has 3 tensor inputs and 2 outputs");
        }
        EXPECT_EQ(exchange(reinterpret_cast<aclOpExecutor*>(&data_), 0, tensor_, data_), 561000);
    }
    EXPECT_EQ(tensor_->data, &data_[0]);
    EXPECT_EQ(run(executor_), OK);
    EXPECT_EQ(inputs_, (std::vector<void*>{&data_[0], nullptr, &data_[1]}));
    EXPECT_EQ(outputs_, (std::vector<void*>{&data_[2], &data_[3]}));
}

}  // namespace
