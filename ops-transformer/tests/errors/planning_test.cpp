// What phase one promises besides its answer: size and determinism of the workspace, its own cost, and that it keeps
// nothing of the caller's but data addresses.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "call.h"

namespace flash_attention::testing {
namespace {

TEST(Planning, WorkspaceDependsOnTheArgumentsOnly) {
    const uint64_t first = run(dense_call(), true).workspace_size;
    ASSERT_EQ(run(varlen_call(), true).code, 0);
    EXPECT_EQ(run(dense_call(), true).workspace_size, first);
}

TEST(Planning, WorkspaceDoesNotGrowWithTheSequence) {
    const auto workspace = [](int64_t length) {
        return run(dense_call("BSND", {.b = 1, .n = 8, .nkv = 8, .sq = length, .skv = length, .d = 16, .dv = 16}), true)
            .workspace_size;
    };
    EXPECT_EQ(workspace(16384), workspace(4096));
}

// A dense or packed call whose handles exist already, so that only phase one is timed.
struct Handles {
    std::vector<float> memory;
    std::vector<aclTensor*> tensors;
    aclIntArray* ends = nullptr;

    Handles(const std::vector<int64_t>& shape, const std::vector<int64_t>& stats, const std::vector<int64_t>& list) {
        const auto count = [](const std::vector<int64_t>& s) {
            return std::accumulate(s.begin(), s.end(), int64_t{1}, std::multiplies<>());
        };
        memory.resize(count(shape) * 4 + count(stats) * 2);
        float* data = memory.data();
        for (const auto& s : {shape, shape, shape, shape, stats, stats}) {
            tensors.push_back(
                aclCreateTensor(s.data(), s.size(), ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, s.data(), s.size(), data));
            data += count(s);
        }
        ends = aclCreateIntArray(list.data(), list.size());
    }
    ~Handles() { destroy(); }
    Handles(const Handles&) = delete;
    Handles& operator=(const Handles&) = delete;

    aclOpExecutor* plan(int64_t heads, const char* layout, uint64_t* workspace) const {
        aclOpExecutor* executor = nullptr;
        EXPECT_EQ(aclnnFlashAttentionVarLenScoreGetWorkspaceSize(
                      tensors[0], tensors[1], tensors[2], nullptr, nullptr, nullptr, nullptr, nullptr, ends, ends, 1.0,
                      1.0, INT64_MAX, INT64_MAX, heads, const_cast<char*>(layout), 0, 0, tensors[4], tensors[5],
                      nullptr, tensors[3], workspace, &executor),
                  0);
        return executor;
    }
    void destroy() {
        for (aclTensor*& tensor : tensors) aclDestroyTensor(std::exchange(tensor, nullptr));
        aclDestroyIntArray(std::exchange(ends, nullptr));
    }
};

// Times are bounds for a release build on a busy machine; a plan that is quadratic in anything exceeds them many times.
#if defined(NDEBUG) && !defined(FUSION_SANITIZED)
// The shortest of several runs: what the work costs when nothing disturbs it.
double best_milliseconds(int runs, const std::function<void()>& work) {
    double best = 1e9;
    for (int i = 0; i < runs; i++) {
        const auto begin = std::chrono::steady_clock::now();
        work();
        best =
            std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    }
    return best;
}

TEST(Planning, ManyShortSequences) {
    constexpr int64_t kSequences = 20000;
    std::vector<int64_t> ends(kSequences);
    std::iota(ends.begin(), ends.end(), 1);
    const Handles handles({kSequences, 1, 8}, {kSequences, 1, 8}, ends);
    uint64_t workspace = 0;
    const double time = best_milliseconds(10, [&] { aclDestroyAclOpExecutor(handles.plan(1, "TND", &workspace)); });
    RecordProperty("milliseconds", std::to_string(time));
    EXPECT_LT(time, 20.0);
}

TEST(Planning, OneShortSequence) {
    const Handles handles({1, 1, 8}, {1, 1, 8}, {1});
    uint64_t workspace = 0;
    const double time = best_milliseconds(1000, [&] { aclDestroyAclOpExecutor(handles.plan(1, "TND", &workspace)); });
    RecordProperty("milliseconds", std::to_string(time));
    EXPECT_LT(time, 0.05);  // a few microseconds are expected
}
#endif

std::vector<float> run_and_read(aclOpExecutor* executor, uint64_t workspace_size, const float* out, int64_t count) {
    const std::unique_ptr<std::byte[]> workspace(new std::byte[workspace_size]);
    EXPECT_EQ(aclnnFlashAttentionVarLenScore(workspace.get(), workspace_size, executor, nullptr), 0);
    return {out, out + count};
}

TEST(Planning, HandlesAndTextsMayBeGoneInPhaseTwo) {
    Handles handles({2, 1, 4}, {2, 1, 8}, {1, 2});
    std::fill(handles.memory.begin(), handles.memory.end(), 3.0F);
    auto layout = std::make_unique<char[]>(8);
    std::strcpy(layout.get(), "TND");
    uint64_t workspace = 0;
    aclOpExecutor* executor = handles.plan(1, layout.get(), &workspace);
    layout.reset();
    handles.destroy();
    EXPECT_EQ(run_and_read(executor, workspace, handles.memory.data() + 24, 8), std::vector<float>(8, 3.0F));
}

// Indices count the tensors of the signature, absent ones included.
TEST(Planning, AddressesCanBeExchanged) {
    Handles handles({2, 1, 4}, {2, 1, 8}, {1, 2});
    uint64_t workspace = 0;
    aclOpExecutor* executor = handles.plan(1, "TND", &workspace);
    ASSERT_EQ(aclSetAclOpExecutorRepeatable(executor), 0);
    std::vector<float> query(8, 1.0F), key(8, 2.0F), value(8, 7.0F), out(8), max(16), sum(16);
    EXPECT_EQ(aclSetInputTensorAddr(executor, 0, handles.tensors[0], query.data()), 0);
    EXPECT_EQ(aclSetInputTensorAddr(executor, 1, handles.tensors[1], key.data()), 0);
    EXPECT_EQ(aclSetInputTensorAddr(executor, 2, handles.tensors[2], value.data()), 0);
    EXPECT_EQ(aclSetOutputTensorAddr(executor, 0, handles.tensors[4], max.data()), 0);
    EXPECT_EQ(aclSetOutputTensorAddr(executor, 1, handles.tensors[5], sum.data()), 0);
    EXPECT_EQ(aclSetOutputTensorAddr(executor, 3, handles.tensors[3], out.data()), 0);
    EXPECT_EQ(aclSetInputTensorAddr(executor, 7, handles.tensors[2], value.data()), 161002);
    EXPECT_EQ(aclSetOutputTensorAddr(executor, 4, handles.tensors[3], out.data()), 161002);
    EXPECT_EQ(run_and_read(executor, workspace, out.data(), 8), std::vector<float>(8, 7.0F));
    EXPECT_EQ(max, std::vector<float>(16, 8.0F));  // 4 features of 1 x 2, scale 1
    EXPECT_EQ(sum, std::vector<float>(16, 1.0F));
    EXPECT_EQ(handles.memory, std::vector<float>(handles.memory.size(), 0.0F)) << "an old address was used";
    EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
}

}  // namespace
}  // namespace flash_attention::testing
