// What phase one of backward promises besides its answer. The calls have no key, so that what phase two writes is
// known: zeros.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "call.h"

namespace flash_attention::testing {
namespace {

// Two rows of one head and four features, without keys, and a dpse, although there is no bias.
struct Handles {
    std::vector<float> memory = std::vector<float>(64, 7.0F);
    std::vector<aclTensor*> tensors;
    aclIntArray *rows = nullptr, *keys = nullptr;

    explicit Handles(bool tnd) {
        const auto add = [this, tnd](std::vector<int64_t> shape, float* data) {
            if (!tnd) shape.insert(shape.begin(), 1);
            tensors.push_back(aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND,
                                              shape.data(), shape.size(), data));
        };
        const std::vector<int64_t> row_shape = {2, 1, 4}, key_shape = {0, 1, 4};
        for (int i = 0; i < 3; i++) add(row_shape, memory.data());  // query, dy, attentionIn
        for (int i = 0; i < 4; i++) add(key_shape, nullptr);        // key, value and their gradients
        for (int i = 0; i < 2; i++)
            add(tnd ? std::vector<int64_t>{2, 1, 8} : std::vector<int64_t>{1, 2, 8}, memory.data());
        add(row_shape, memory.data() + 32);  // dq
        add({3}, memory.data() + 48);        // dpse
        const int64_t two = 2, none = 0;
        rows = aclCreateIntArray(&two, 1);
        keys = aclCreateIntArray(&none, 1);
    }
    ~Handles() { destroy(); }
    Handles(const Handles&) = delete;
    Handles& operator=(const Handles&) = delete;

    aclOpExecutor* plan(Version version, const char* layout, uint64_t* workspace) const {
        aclOpExecutor* executor = nullptr;
        ScoreArguments arguments;
        arguments.query = tensors[0];
        arguments.dy = tensors[1];
        arguments.out = tensors[2];
        arguments.key = tensors[3];
        arguments.value = tensors[4];
        arguments.dk = tensors[5];
        arguments.dv = tensors[6];
        arguments.max = tensors[7];
        arguments.sum = tensors[8];
        arguments.dq = tensors[9];
        arguments.dpse = tensors[10];
        arguments.q_ends = rows;
        arguments.kv_ends = keys;
        arguments.head_num = 1;
        arguments.layout = const_cast<char*>(layout);
        arguments.workspace_size = workspace;
        arguments.executor = &executor;
        EXPECT_EQ(phase_one(version, arguments), 0);
        return executor;
    }
    void destroy() {
        for (aclTensor*& tensor : tensors) aclDestroyTensor(std::exchange(tensor, nullptr));
        aclDestroyIntArray(std::exchange(rows, nullptr));
        aclDestroyIntArray(std::exchange(keys, nullptr));
    }
};

bool is_dense(Version version) {
    return traits(version).dense;
}

// How many tensors the signature of a version has, absent ones included, and where dpse lies among the outputs.
struct Tensors {
    Version version;
    int inputs, outputs, dpse;
};
const Tensors kTensorsOf[] = {
    {Version::kGrad, 12, 4, 3},
    {Version::kGradV2, 12, 4, 3},
    {Version::kGradV3, 13, 5, 3},
    {Version::kGradV4, 20, 7, 5},
    {Version::kUnpaddingGrad, 12, 4, 3},
    {Version::kUnpaddingGradV2, 12, 4, 3},
    {Version::kUnpaddingGradV3, 14, 6, 5},
    {Version::kUnpaddingGradV4, 12, 4, 3},
    {Version::kUnpaddingGradV5, 15, 7, 5},
    {Version::kUnpaddingGradV5Max, 15, 7, 5},
};

TEST(GradPlanning, AddressesCanBeExchanged) {
    for (const Tensors& of : kTensorsOf) {
        SCOPED_TRACE(traits(of.version).name);
        const Handles handles(!is_dense(of.version));
        uint64_t workspace = 0;
        aclOpExecutor* executor = handles.plan(of.version, is_dense(of.version) ? "BSND" : "TND", &workspace);
        ASSERT_EQ(aclSetAclOpExecutorRepeatable(executor), 0);
        std::vector<float> dq(8, 7.0F), dpse(3, 7.0F);
        EXPECT_EQ(aclSetOutputTensorAddr(executor, 0, handles.tensors[9], dq.data()), 0);
        EXPECT_EQ(aclSetOutputTensorAddr(executor, of.dpse, handles.tensors[10], dpse.data()), 0);
        EXPECT_EQ(aclSetOutputTensorAddr(executor, of.outputs, handles.tensors[9], dq.data()), 161002);
        EXPECT_EQ(aclSetInputTensorAddr(executor, of.inputs - 1, handles.tensors[0], dq.data()), 0);
        EXPECT_EQ(aclSetInputTensorAddr(executor, of.inputs, handles.tensors[0], dq.data()), 161002);
        EXPECT_EQ(phase_two(of.version, nullptr, workspace, executor, nullptr), 0);
        EXPECT_EQ(dq, std::vector<float>(8, 0.0F));
        EXPECT_EQ(dpse, std::vector<float>(3, 0.0F));
        EXPECT_EQ(handles.memory, std::vector<float>(64, 7.0F)) << "an old address was used";
        EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
    }
}

TEST(GradPlanning, HandlesAndTextsMayBeGoneInPhaseTwo) {
    Handles handles(true);
    auto layout = std::make_unique<char[]>(8);
    std::strcpy(layout.get(), "TND");
    uint64_t workspace = 0;
    aclOpExecutor* executor = handles.plan(Version::kUnpaddingGrad, layout.get(), &workspace);
    layout.reset();
    handles.destroy();
    EXPECT_EQ(phase_two(Version::kUnpaddingGrad, nullptr, workspace, executor, nullptr), 0);
    std::vector<float> expected(64, 7.0F);
    std::fill_n(expected.begin() + 32, 8, 0.0F);
    std::fill_n(expected.begin() + 48, 3, 0.0F);
    EXPECT_EQ(handles.memory, expected);
}

// 2.15: every version is an operator of its own, and forward is another one.
TEST(GradPlanning, ExecutorsRunInTheirOwnVersion) {
    const Handles handles(true);
    std::vector<Version> others = tnd_grad_versions();
    others.push_back(Version::kVarLen);
    for (const Version planned : tnd_grad_versions()) {
        uint64_t workspace = 0;
        aclOpExecutor* executor = handles.plan(planned, "TND", &workspace);
        ASSERT_EQ(aclSetAclOpExecutorRepeatable(executor), 0);
        for (const Version run : others) {
            const bool same = std::strcmp(traits(planned).name, traits(run).name) == 0;
            EXPECT_EQ(phase_two(run, nullptr, workspace, executor, nullptr), same ? 0 : 161002);
        }
        EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
    }
}

TEST(GradPlanning, PhaseTwoNeedsAnExecutor) {
    for (const Tensors& of : kTensorsOf) EXPECT_EQ(phase_two(of.version, nullptr, 0, nullptr, nullptr), 161001);
}

// Packed copies are as large as the views that need them.
TEST(GradPlanning, WorkspaceDependsOnTheArgumentsOnly) {
    Call call = backward_of(dense_call());
    const uint64_t without = run(call, true).workspace_size;
    call.dq->strides = {1, 2, 8, 24};
    const uint64_t with_copy = run(call, true).workspace_size;
    EXPECT_GE(with_copy, without + 2 * 4 * 3 * 8 * sizeof(float));
    ASSERT_EQ(run(backward_of(varlen_call()), true).code, 0);
    EXPECT_EQ(run(call, true).workspace_size, with_copy);
}

// The most that the header allows, where the number of threads does not enter: one head and few rows. Not much less
// either: sums for all keys must fit.
TEST(GradPlanning, WorkspaceIsWhatTheHeaderSays) {
    const auto rounded = [](int64_t dim) { return (dim + 15) / 16 * 16; };
    for (const int64_t d : {1, 8, 100, 768}) {
        const int64_t dv = (d + 1) / 2;
        for (const int64_t keys : {300, 2048, 9000, 20000}) {
            SCOPED_TRACE(::testing::Message() << "D " << d << ", " << keys << " keys");
            const int64_t summed = std::min<int64_t>(keys, 2048);
            const int64_t chunks = keys > 2048 ? std::min<int64_t>((keys + 2047) / 2048, 8) : 0;
            const auto bytes = static_cast<int64_t>(
                run(backward_of(
                        dense_call("BSND", {.b = 1, .n = 1, .nkv = 1, .sq = 32, .skv = keys, .d = d, .dv = dv})),
                    true)
                    .workspace_size);
            // As many slots as chunks, or one.
            const int64_t most = std::max<int64_t>(chunks, 1);
            EXPECT_LE(bytes, 63 +
                                 most * (200704 + 3072 * rounded(d) + 1920 * rounded(dv) +
                                         8 * (summed + 8) * (rounded(d) + rounded(dv))) +
                                 4 * 192 * most * rounded(d));
            EXPECT_GE(bytes, 8 * summed * (d + dv));
        }
    }
}

// Twice as long sequences take twice as much at the most, and no more than a part of dq for each chunk of keys.
TEST(GradPlanning, WorkspaceIsLinear) {
    const auto bytes = [](int64_t length) {
        return static_cast<double>(
            run(backward_of(
                    dense_call("BSND", {.b = 1, .n = 1, .nkv = 1, .sq = length, .skv = length, .d = 64, .dv = 64})),
                true)
                .workspace_size);
    };
    const double base = bytes(16384);
    EXPECT_LE(bytes(32768), 2 * base);
    EXPECT_LE(bytes(65536), 4 * base);
}

}  // namespace
}  // namespace flash_attention::testing
