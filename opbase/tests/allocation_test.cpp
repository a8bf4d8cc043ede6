// Phase two allocates nothing: the global operator new counts.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl_rt.h"
#include "allocation_counter.h"
#include "opbase/executor.h"
#include "opbase/parallel.h"
#include "opbase/strided_copy.h"
#include "opbase/tensor.h"

namespace {

using opbase::testing::allocation_count;

constexpr const char* kOp = "aclnnProbe";

// A plan with everything that operators use: workspace, addresses, a loop on several threads, a strided copy.
opbase::Plan busy_plan(std::vector<float>* data) {
    opbase::Plan made;
    made.workspace_size = 4096;
    made.inputs = {data->data()};
    made.outputs = {data->data()};
    const opbase::Shape shape = {8, 8};
    made.run = [shape, from = opbase::Shape{1, 8}, to = opbase::contiguous_strides(shape),
                slots = opbase::thread_count()](const opbase::Launch& launch) {
        auto* scratch = static_cast<float*>(launch.workspace);
        opbase::parallel_for(16, slots, [&](int64_t item, int) {
            opbase::strided_copy(scratch + 64 * item, to, launch.inputs[0], from, shape, sizeof(float));
        });
    };
    return made;
}

TEST(Allocations, TheCounterCounts) {
    const uint64_t before = allocation_count();
    ::operator delete(::operator new(4));  // calls, unlike expressions, may not be left out by the compiler
    EXPECT_EQ(allocation_count(), before + 1);
}

class PhaseTwo : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
        ASSERT_EQ(aclrtCreateStream(&stream_), ACL_SUCCESS);
    }
    void TearDown() override { EXPECT_EQ(aclrtDestroyStream(stream_), ACL_SUCCESS); }

    aclrtStream stream_ = nullptr;
};

TEST_F(PhaseTwo, AllocatesNothing) {
    opbase::set_thread_count(4);
    std::vector<float> data(64, 1.0F);
    std::vector<char> workspace(8192);
    for (int call = 0; call < 200; call++) {  // the first call too
        uint64_t size = 0;
        aclOpExecutor* executor = nullptr;
        ASSERT_EQ(opbase::plan_operator(
                      kOp, &size, &executor, [&] { return busy_plan(&data); }, [] { return std::string(); }),
                  OK);
        ASSERT_LE(size, workspace.size());
        const uint64_t before = allocation_count();
        const aclnnStatus status = opbase::run_operator(kOp, workspace.data(), size, executor, stream_);
        const uint64_t made = allocation_count() - before;
        ASSERT_EQ(status, OK);
        ASSERT_EQ(made, 0U) << "call " << call;
    }
}

TEST_F(PhaseTwo, AllocatesNothingWhenRepeated) {
    opbase::set_thread_count(3);
    std::vector<float> data(64, 1.0F);
    std::vector<char> workspace(8192);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(opbase::plan_operator(
                  kOp, &size, &executor, [&] { return busy_plan(&data); }, [] { return std::string(); }),
              OK);
    ASSERT_EQ(aclSetAclOpExecutorRepeatable(executor), OK);
    const uint64_t before = allocation_count();
    for (int run = 0; run < 200; run++) {
        if (opbase::run_operator(kOp, workspace.data(), size, executor, stream_) != OK) break;
    }
    const uint64_t made = allocation_count() - before;
    EXPECT_EQ(made, 0U);
    EXPECT_EQ(aclDestroyAclOpExecutor(executor), OK);
}

// The default stream that such a thread uses does not exist yet; phase one makes it.
TEST(PhaseTwoWithoutAContext, AllocatesNothing) {
    aclrtResetDeviceForce(0);  // ends the one that another test may have left
    std::thread([] {
        std::vector<float> data(64, 1.0F);
        std::vector<char> workspace(8192);
        uint64_t size = 0;
        aclOpExecutor* executor = nullptr;
        ASSERT_EQ(opbase::plan_operator(
                      kOp, &size, &executor, [&] { return busy_plan(&data); }, [] { return std::string(); }),
                  OK);
        const uint64_t before = allocation_count();
        const aclnnStatus status = opbase::run_operator(kOp, workspace.data(), size, executor, nullptr);
        const uint64_t made = allocation_count() - before;
        EXPECT_EQ(status, OK);
        EXPECT_EQ(made, 0U);
    }).join();
}

TEST(Allocations, LoopsMakeNoneOnceThePoolRuns) {
    opbase::set_thread_count(4);
    opbase::thread_count();
    std::atomic<int64_t> sum{0};
    const uint64_t before = allocation_count();
    for (int loop = 0; loop < 200; loop++) opbase::parallel_for(50, 4, [&](int64_t item, int) { sum += item; });
    const uint64_t made = allocation_count() - before;
    EXPECT_EQ(made, 0U);
    EXPECT_EQ(sum, 200 * 1225);
}

}  // namespace
