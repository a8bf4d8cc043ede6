// Phase two allocates nothing: the global operator new counts.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "acl/acl_rt.h"
#include "opbase/executor.h"
#include "opbase/parallel.h"
#include "opbase/strided_copy.h"
#include "opbase/tensor.h"

namespace {

std::atomic<int64_t> g_allocations{0};

void* allocate(std::size_t size, std::size_t alignment = alignof(std::max_align_t)) {
    g_allocations++;
    void* memory = nullptr;
    if (posix_memalign(&memory, std::max(alignment, sizeof(void*)), std::max<std::size_t>(size, 1)) != 0) {
        throw std::bad_alloc();
    }
    return memory;
}

}  // namespace

// The nothrow forms of the standard library call these.
void* operator new(std::size_t size) {
    return allocate(size);
}
void* operator new[](std::size_t size) {
    return allocate(size);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
    return allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
    return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete[](void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
    std::free(memory);
}

namespace {

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
    const int64_t before = g_allocations;
    delete new int;
    EXPECT_EQ(g_allocations, before + 1);
}

// As in a program: the stream exists before the first operator. (The default stream of a thread without a context is
// made by its first use.)
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
        const int64_t before = g_allocations;
        const aclnnStatus status = opbase::run_operator(kOp, workspace.data(), size, executor, stream_);
        const int64_t made = g_allocations - before;
        ASSERT_EQ(status, OK);
        ASSERT_EQ(made, 0) << "call " << call;
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
    const int64_t before = g_allocations;
    for (int run = 0; run < 200; run++) {
        if (opbase::run_operator(kOp, workspace.data(), size, executor, stream_) != OK) break;
    }
    const int64_t made = g_allocations - before;
    EXPECT_EQ(made, 0);
    EXPECT_EQ(aclDestroyAclOpExecutor(executor), OK);
}

TEST(Allocations, LoopsMakeNoneOnceThePoolRuns) {
    opbase::set_thread_count(4);
    opbase::thread_count();
    std::atomic<int64_t> sum{0};
    const int64_t before = g_allocations;
    for (int loop = 0; loop < 200; loop++) opbase::parallel_for(50, 4, [&](int64_t item, int) { sum += item; });
    const int64_t made = g_allocations - before;
    EXPECT_EQ(made, 0);
    EXPECT_EQ(sum, 200 * 1225);
}

}  // namespace
