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

    aclOpExecutor* plan(uint64_t* workspace, Version version = Version::kVarLen, const char* layout = "TND") const {
        aclOpExecutor* executor = nullptr;
        ScoreArguments arguments;
        arguments.query = tensors[0];
        arguments.key = tensors[1];
        arguments.value = tensors[2];
        arguments.out = tensors[3];
        arguments.max = tensors[4];
        arguments.sum = tensors[5];
        arguments.q_ends = arguments.kv_ends = ends;
        arguments.head_num = 1;
        arguments.layout = const_cast<char*>(layout);
        arguments.workspace_size = workspace;
        arguments.executor = &executor;
        EXPECT_EQ(phase_one(version, arguments), 0);
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
    const double time = best_milliseconds(10, [&] { aclDestroyAclOpExecutor(handles.plan(&workspace)); });
    RecordProperty("milliseconds", std::to_string(time));
    EXPECT_LT(time, 20.0);
}

TEST(Planning, OneShortSequence) {
    const Handles handles({1, 1, 8}, {1, 1, 8}, {1});
    uint64_t workspace = 0;
    const double time = best_milliseconds(1000, [&] { aclDestroyAclOpExecutor(handles.plan(&workspace)); });
    RecordProperty("milliseconds", std::to_string(time));
    EXPECT_LT(time, 0.05);  // a few microseconds are expected
}
#endif

std::vector<float> run_and_read(aclOpExecutor* executor, uint64_t workspace_size, const float* out, int64_t count,
                                Version version = Version::kVarLen) {
    const std::unique_ptr<std::byte[]> workspace(new std::byte[workspace_size]);
    EXPECT_EQ(phase_two(version, workspace.get(), workspace_size, executor, nullptr), 0);
    return {out, out + count};
}

TEST(Planning, HandlesAndTextsMayBeGoneInPhaseTwo) {
    Handles handles({2, 1, 4}, {2, 1, 8}, {1, 2});
    std::fill(handles.memory.begin(), handles.memory.end(), 3.0F);
    auto layout = std::make_unique<char[]>(8);
    std::strcpy(layout.get(), "TND");
    uint64_t workspace = 0;
    aclOpExecutor* executor = handles.plan(&workspace, Version::kVarLen, layout.get());
    layout.reset();
    handles.destroy();
    EXPECT_EQ(run_and_read(executor, workspace, handles.memory.data() + 24, 8), std::vector<float>(8, 3.0F));
}

// Where query, key, value lie among the tensor inputs of a version, and how many there are.
struct Inputs {
    Version version;
    int query, key, value, count;
};
const Inputs kInputs[] = {
    {Version::kVarLen, 0, 1, 2, 7},   {Version::kVarLenV2, 0, 1, 2, 7},  {Version::kVarLenV3, 0, 2, 4, 9},
    {Version::kVarLenV4, 0, 1, 2, 7}, {Version::kVarLenV5, 0, 2, 4, 10}, {Version::kVarLenV5Max, 0, 2, 4, 10},
    {Version::kScoreV4, 0, 1, 2, 13},
};

// Indices count the tensors of the signature, absent ones included.
TEST(Planning, AddressesCanBeExchanged) {
    for (const Inputs& inputs : kInputs) {
        SCOPED_TRACE(traits(inputs.version).name);
        Handles handles({2, 1, 4}, {2, 1, 8}, {1, 2});
        uint64_t workspace = 0;
        aclOpExecutor* executor = handles.plan(&workspace, inputs.version);
        ASSERT_EQ(aclSetAclOpExecutorRepeatable(executor), 0);
        std::vector<float> query(8, 1.0F), key(8, 2.0F), value(8, 7.0F), out(8), max(16), sum(16);
        EXPECT_EQ(aclSetInputTensorAddr(executor, inputs.query, handles.tensors[0], query.data()), 0);
        EXPECT_EQ(aclSetInputTensorAddr(executor, inputs.key, handles.tensors[1], key.data()), 0);
        EXPECT_EQ(aclSetInputTensorAddr(executor, inputs.value, handles.tensors[2], value.data()), 0);
        EXPECT_EQ(aclSetOutputTensorAddr(executor, 0, handles.tensors[4], max.data()), 0);
        EXPECT_EQ(aclSetOutputTensorAddr(executor, 1, handles.tensors[5], sum.data()), 0);
        EXPECT_EQ(aclSetOutputTensorAddr(executor, 3, handles.tensors[3], out.data()), 0);
        EXPECT_EQ(aclSetInputTensorAddr(executor, inputs.count, handles.tensors[2], value.data()), 161002);
        EXPECT_EQ(aclSetOutputTensorAddr(executor, 4, handles.tensors[3], out.data()), 161002);
        EXPECT_EQ(run_and_read(executor, workspace, out.data(), 8, inputs.version), std::vector<float>(8, 7.0F));
        EXPECT_EQ(max, std::vector<float>(16, 8.0F));  // 4 features of 1 x 2, scale 1
        EXPECT_EQ(sum, std::vector<float>(16, 1.0F));
        EXPECT_EQ(handles.memory, std::vector<float>(handles.memory.size(), 0.0F)) << "an old address was used";
        EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
    }
}

// 2.15: every version is an operator of its own.
TEST(Planning, ExecutorsRunInTheirOwnVersion) {
    const Handles handles({2, 1, 4}, {2, 1, 8}, {1, 2});
    for (const Version planned : tnd_versions()) {
        uint64_t workspace_size = 0;
        aclOpExecutor* executor = handles.plan(&workspace_size, planned);
        ASSERT_EQ(aclSetAclOpExecutorRepeatable(executor), 0);
        const std::unique_ptr<std::byte[]> workspace(new std::byte[workspace_size]);
        for (const Version run : tnd_versions()) {
            const bool same = std::strcmp(traits(planned).name, traits(run).name) == 0;
            EXPECT_EQ(phase_two(run, workspace.get(), workspace_size, executor, nullptr), same ? 0 : 161002);
        }
        EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
    }
}

// The maximum is one for all lists with as many entries, with dropout or without.
TEST(Planning, MaximumOfAllLists) {
    const auto workspace = [](Version version, const std::vector<int64_t>& lengths, double keep_prob) {
        Call call = varlen_call(lengths, lengths);
        call.version = version;
        call.keep_prob = keep_prob;
        if (keep_prob < 1) call.drop_mask = TensorSpec{.shape = {100000}, .dtype = ACL_UINT8};
        return run(call, true).workspace_size;
    };
    const uint64_t maximum = workspace(Version::kVarLenV5Max, {100, 100, 100}, 1.0);
    EXPECT_EQ(workspace(Version::kVarLenV5Max, {300, 0, 0}, 0.5), maximum);
    EXPECT_EQ(workspace(Version::kVarLenV5Max, {1, 1, 298}, 1.0), maximum);
    for (const auto& lengths : {std::vector<int64_t>{100, 100, 100}, {300, 0, 0}, {1, 1, 298}, {65, 65, 170}}) {
        EXPECT_LE(workspace(Version::kVarLenV5, lengths, 1.0), maximum);
        EXPECT_LE(workspace(Version::kVarLenV5, lengths, 0.5), maximum);
    }
}

// The most that the header allows, where the number of threads does not enter: one head, one block of 32 rows. 63 bytes
// let the run start at a multiple of 64, wherever the caller's memory lies. Not much less either: the features of the
// query, three levels of sums and the copies of a block of keys must fit.
TEST(Planning, WorkspaceIsWhatTheHeaderSays) {
    const auto rounded = [](int64_t dim) { return (dim + 15) / 16 * 16; };
    const auto expect_within = [&](const Call& call, int64_t d, int64_t rope, int64_t dv) {
        const auto bytes = static_cast<int64_t>(run(call, true).workspace_size);
        EXPECT_LE(bytes, 63 + 114688 + 2304 * (rounded(d) + rounded(rope)) + 3840 * rounded(dv));
        EXPECT_GE(bytes, 32 * 4 * (d + rope + 2 * dv));
    };
    for (const int64_t d : {1, 8, 100, 768}) {
        const int64_t dv = (d + 1) / 2;
        expect_within(dense_call("BSND", {.b = 1, .n = 1, .nkv = 1, .sq = 32, .skv = 300, .d = d, .dv = dv}), d, 0, dv);
    }
    Call rope = varlen_call({32}, {70}, 1, 1, 32);
    rope.version = Version::kVarLenV3;
    set_dtype(rope, ACL_BF16);
    rope.query_rope = TensorSpec{.shape = {32, 1, 16}, .dtype = ACL_BF16};
    rope.key_rope = TensorSpec{.shape = {70, 1, 16}, .dtype = ACL_BF16};
    rope.mask = compressed_mask();
    rope.sparse_mode = 3;
    expect_within(rope, 32, 16, 32);
}

}  // namespace
}  // namespace flash_attention::testing
