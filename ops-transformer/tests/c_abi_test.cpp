// The two-phase C interface as programs use it: examples with known results, phases on different threads, descriptions
// that are gone before phase two, executors that run again, many callers at once; workspace and cost of planning.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iostream>
#include <numeric>
#include <thread>

#include "acl/acl.h"
#include "aclnnop/aclnn_flash_attention_score.h"
#include "entry_points.h"
#include "opbase/parallel.h"
#include "testing/judge.h"
#include "testing/reduced.h"

namespace flash_attention::testing {
namespace {

// Device memory with its tensor, made the way the interface's example programs do it.
class DeviceTensor {
  public:
    template <class T>
    DeviceTensor(const std::vector<int64_t>& shape, aclDataType dtype, const std::vector<T>& data)
        : bytes_(data.size() * sizeof(T)) {
        EXPECT_EQ(aclrtMalloc(&address_, bytes_, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
        EXPECT_EQ(aclrtMemcpy(address_, bytes_, data.data(), bytes_, ACL_MEMCPY_HOST_TO_DEVICE), ACL_SUCCESS);
        std::vector<int64_t> strides(shape.size(), 1);
        for (auto i = static_cast<int64_t>(shape.size()) - 2; i >= 0; i--) strides[i] = shape[i + 1] * strides[i + 1];
        tensor_ = aclCreateTensor(shape.data(), shape.size(), dtype, strides.data(), 0, ACL_FORMAT_ND, shape.data(),
                                  shape.size(), address_);
    }
    ~DeviceTensor() {
        EXPECT_EQ(aclDestroyTensor(tensor_), 0);
        EXPECT_EQ(aclrtFree(address_), ACL_SUCCESS);
    }
    DeviceTensor(const DeviceTensor&) = delete;
    DeviceTensor& operator=(const DeviceTensor&) = delete;

    const aclTensor* get() const { return tensor_; }

    template <class T>
    std::vector<T> read() const {
        std::vector<T> data(bytes_ / sizeof(T));
        EXPECT_EQ(aclrtMemcpy(data.data(), bytes_, address_, bytes_, ACL_MEMCPY_DEVICE_TO_HOST), ACL_SUCCESS);
        return data;
    }

  private:
    void* address_ = nullptr;
    size_t bytes_;
    aclTensor* tensor_ = nullptr;
};

// Phase two on device memory of the promised size.
template <class PhaseTwo>
void run_phase_two(PhaseTwo phase_two, uint64_t workspace_size, aclOpExecutor* executor) {
    void* workspace = nullptr;
    if (workspace_size > 0) {
        ASSERT_EQ(aclrtMalloc(&workspace, workspace_size, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    }
    EXPECT_EQ(phase_two(workspace, workspace_size, executor, stream()), 0) << aclGetRecentErrMsg();
    EXPECT_EQ(aclrtSynchronizeStream(stream()), ACL_SUCCESS);
    if (workspace != nullptr) {
        EXPECT_EQ(aclrtFree(workspace), ACL_SUCCESS);
    }
}

// The published varlen example: all inputs have the bit pattern 1, the smallest half precision number. Every key weighs
// the same, so that sum and output are exact.
TEST(Examples, VarLenOfSmallestNumbers) {
    stream();
    constexpr int64_t kT = 256, kD = 128;
    const std::vector<uint16_t> ones(kT * kD, 1);
    const DeviceTensor query({kT, 1, kD}, ACL_FLOAT16, ones), key({kT, 1, kD}, ACL_FLOAT16, ones),
        value({kT, 1, kD}, ACL_FLOAT16, ones);
    const DeviceTensor mask({kT, kT}, ACL_UINT8, std::vector<uint8_t>(kT * kT, 0));
    const DeviceTensor out({kT, 1, kD}, ACL_FLOAT16, std::vector<uint16_t>(kT * kD, 0));
    const DeviceTensor max({kT, 1, 8}, ACL_FLOAT, std::vector<float>(kT * 8, 3.0F));
    const DeviceTensor sum({kT, 1, 8}, ACL_FLOAT, std::vector<float>(kT * 8, 3.0F));
    const int64_t zero = 0, total = kT;
    aclIntArray* prefix = aclCreateIntArray(&zero, 1);  // not used by mode 0, and passed all the same
    aclIntArray* q_list = aclCreateIntArray(&total, 1);
    aclIntArray* kv_list = aclCreateIntArray(&total, 1);
    char layout[5] = {'T', 'N', 'D', 0};
    uint64_t workspace_size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(aclnnFlashAttentionVarLenScoreGetWorkspaceSize(query.get(), key.get(), value.get(), nullptr, nullptr,
                                                             nullptr, mask.get(), prefix, q_list, kv_list, 0.088388,
                                                             1.0, 65536, 65536, 1, layout, 0, 0, max.get(), sum.get(),
                                                             nullptr, out.get(), &workspace_size, &executor),
              0)
        << aclGetRecentErrMsg();
    run_phase_two(aclnnFlashAttentionVarLenScore, workspace_size, executor);
    for (const float s : sum.read<float>()) ASSERT_EQ(s, 256.0F);
    const double expected_max = 128 * 0x1p-48 * static_cast<double>(0.088388F);
    for (const float m : max.read<float>()) ASSERT_NEAR(m, expected_max, 4 * 0x1p-23 * expected_max);
    for (const uint16_t o : out.read<uint16_t>()) ASSERT_EQ(o, 1);
    aclDestroyIntArray(prefix);
    aclDestroyIntArray(q_list);
    aclDestroyIntArray(kv_list);
}

// The published fixed-length example: all ones, so that every logit is sqrt(128).
TEST(Examples, FixedLengthOfOnes) {
    stream();
    constexpr int64_t kS = 256, kD = 128;
    const std::vector<float> ones(kS * kD, 1.0F);
    const DeviceTensor query({kS, 1, kD}, ACL_FLOAT, ones), key({kS, 1, kD}, ACL_FLOAT, ones),
        value({kS, 1, kD}, ACL_FLOAT, ones);
    const DeviceTensor mask({kS, kS}, ACL_UINT8, std::vector<uint8_t>(kS * kS, 0));
    const DeviceTensor out({kS, 1, kD}, ACL_FLOAT, std::vector<float>(kS * kD, 0.0F));
    const DeviceTensor max({1, 1, kS, 8}, ACL_FLOAT, std::vector<float>(kS * 8, 3.0F));
    const DeviceTensor sum({1, 1, kS, 8}, ACL_FLOAT, std::vector<float>(kS * 8, 3.0F));
    char layout[] = "SBH";
    uint64_t workspace_size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(aclnnFlashAttentionScoreGetWorkspaceSize(query.get(), key.get(), value.get(), nullptr, nullptr, nullptr,
                                                       mask.get(), nullptr, 1.0 / std::sqrt(128.0), 1.0, INT32_MAX,
                                                       INT32_MAX, 1, layout, 0, 0, max.get(), sum.get(), nullptr,
                                                       out.get(), &workspace_size, &executor),
              0)
        << aclGetRecentErrMsg();
    run_phase_two(aclnnFlashAttentionScore, workspace_size, executor);
    for (const float s : sum.read<float>()) ASSERT_NEAR(s, 256.0F, 256 * 1e-6);
    for (const float m : max.read<float>()) ASSERT_NEAR(m, 11.3137, 5e-5);
    for (const float o : out.read<float>()) ASSERT_NEAR(o, 1.0F, 3e-6);
}

constexpr const char* kFixed = "layout=BSND dtype=fp32 b=2 n=4/2 d=64 q=70 kv=150 mode=3 mask=compressed seed=3";
constexpr const char* kVarLen = "layout=TND dtype=bf16 n=4/2 d=40 q=70,0,9 kv=150,3,129 mode=0 mask=total:rows seed=4";
constexpr const char* kStrided =
    "layout=BSH dtype=fp16 b=2 n=2 d=48 q=33 kv=65 mode=1 mask=b1:random "
    "strides=q:transposed,k:every2,v:padded,out:transposed,max:swapped";
// The largest versions, with every list, text and tensor that goes together.
constexpr const char* kAllOfV5 =
    "layout=TND dtype=fp16 n=4/2 d=40 q=70,9 kv=150,129 mode=6 mask=compressed prefix=100,129 pse=0:full:minus_inf "
    "q_start=3 kv_start=4 drop=longer keep=0.7 sink=normal stats=same_as_input strides=pse:every2,drop:offset seed=5";
constexpr const char* kRopeOfV5 =
    "layout=TND dtype=bf16 n=4/2 d=40 rope=24 q=70,9 kv=150,129 mode=4 pre=90 mask=compressed sink=normal "
    "strides=q_rope:transposed,k_rope:padded seed=6";
constexpr const char* kAllOfScoreV4 =
    "layout=BSND version=ScoreV4 b=2 n=4/2 d=40 q=70 kv=70 mode=1 mask=b1:random pse=2:slopes q_start=3 kv_start=4 "
    "drop=exact keep=0.7 sink=normal stats=same_as_input strides=sink:every2 seed=7";
constexpr const char* kRopeOfScoreV4 =
    "layout=TND dtype=bf16 version=ScoreV4 n=2 d=40 rope=40 q=70,9 kv=150,129 mask=total:rows sink=large seed=8";
constexpr const char* kSinkOfScoreV3 = "layout=BNSD dtype=bf16 n=4/2 d=40 q=70 kv=70 pse=1:row sink=normal seed=9";
constexpr const char* kEverything[] = {kFixed,    kVarLen,       kStrided,       kAllOfV5,
                                       kRopeOfV5, kAllOfScoreV4, kRopeOfScoreV4, kSinkOfScoreV3};

TEST(Phases, RunOnDifferentThreads) {
    for (const char* text : kEverything) {
        const Call call = make_call(parse_case(text));
        const Outputs expected = run(call).outputs;
        PreparedCall prepared(call, {.count_allocations = false});
        aclnnStatus one = -1, two = -1;
        std::thread([&] { one = prepared.phase_one(); }).join();
        std::thread([&] { two = prepared.phase_two(); }).join();
        EXPECT_EQ(one, 0);
        EXPECT_EQ(two, 0);
        EXPECT_TRUE(prepared.outputs() == expected) << rerun_hint(call.description);
        EXPECT_EQ(lines(prepared.broken_promises()), "");
    }
}

TEST(Phases, DescriptionsMayGoInBetween) {
    for (const char* text : kEverything) {
        const Call call = make_call(parse_case(text));
        const Outputs expected = run(call).outputs;
        PreparedCall prepared(call);
        ASSERT_EQ(prepared.phase_one(), 0);
        prepared.destroy_descriptions();
        ASSERT_EQ(prepared.phase_two(), 0);
        EXPECT_TRUE(prepared.outputs() == expected) << rerun_hint(call.description);
        EXPECT_EQ(lines(prepared.broken_promises()), "");
    }
}

// The tensor inputs in the order of the signature, absent ones and those that no call here has (kArgumentCount)
// included.
std::vector<Argument> input_order(Version version) {
    constexpr Argument kOther = kArgumentCount;  // paddingMask, dScaleQ, dScaleK, dScaleV
    std::vector<Argument> order;
    auto add = [&order](std::initializer_list<Argument> arguments) {
        for (const Argument argument : arguments) order.push_back(argument);
    };
    const VersionTraits& of = traits(version);
    if (of.rope && !of.everything) {
        add({kQuery, kQueryRope, kKey, kKeyRope, kValue});
    } else {
        add({kQuery, kKey, kValue});
    }
    add({kPse, kDrop, kOther, kMask});
    if (of.everything) add({kQueryRope, kKeyRope, kOther, kOther, kOther});
    if (of.sink) add({kSink});
    return order;
}

void point_to(aclOpExecutor* executor, PreparedCall& to) {
    const std::vector<Argument> inputs = input_order(to.version());
    for (size_t index = 0; index < inputs.size(); index++) {
        if (inputs[index] == kArgumentCount || to.tensor(inputs[index]) == nullptr) continue;
        auto* tensor = const_cast<aclTensor*>(to.tensor(inputs[index]));
        ASSERT_EQ(aclSetInputTensorAddr(executor, index, tensor, to.address(inputs[index])), 0) << index;
    }
    // softmaxMax, softmaxSum, softmaxOut, attentionOut
    for (const auto& [argument, index] : {std::pair{kMax, 0}, std::pair{kSum, 1}, std::pair{kOut, 3}}) {
        auto* tensor = const_cast<aclTensor*>(to.tensor(argument));
        ASSERT_EQ(aclSetOutputTensorAddr(executor, index, tensor, to.address(argument)), 0) << index;
    }
}

TEST(Executors, RunAgainWithOtherAddresses) {
    for (const char* text : kEverything) {
        Case c = parse_case(text);
        const Call first_call = make_call(c);
        c.seed += 100;
        const Call second_call = make_call(c);
        const Outputs first = run(first_call).outputs, second = run(second_call).outputs;
        ASSERT_FALSE(first == second);

        PreparedCall prepared(first_call), other(second_call);
        ASSERT_EQ(prepared.phase_one(), 0);
        ASSERT_EQ(aclSetAclOpExecutorRepeatable(prepared.executor()), 0);
        for (int again = 0; again < 2; again++) {
            ASSERT_EQ(prepared.phase_two(), 0);
            EXPECT_TRUE(prepared.outputs() == first) << rerun_hint(first_call.description);
        }
        point_to(prepared.executor(), other);
        ASSERT_EQ(prepared.phase_two(), 0);
        EXPECT_TRUE(other.outputs() == second) << rerun_hint(second_call.description);
        EXPECT_TRUE(prepared.outputs() == first);  // not written by the third run
        EXPECT_EQ(lines(other.broken_promises()), "");
        EXPECT_EQ(lines(prepared.broken_promises()), "");
        EXPECT_EQ(aclDestroyAclOpExecutor(prepared.executor()), 0);
    }
}

TEST(Callers, MayCallAtTheSameTime) {
    stream();
    const char* texts[] = {kFixed, kVarLen, kStrided, "layout=BNSD dtype=bf16 n=8/1 d=128 q=1 kv=700"};
    std::vector<std::thread> threads;
    std::vector<int> wrong(std::size(texts), 0);
    for (size_t t = 0; t < std::size(texts); t++) {
        threads.emplace_back([&, t] {
            const Call call = make_call(parse_case(texts[t]));
            const RunResult expected = run(call, {.count_allocations = false});
            for (int again = 0; again < 15; again++) {
                const RunResult result = run(call, {.count_allocations = false});
                wrong[t] += result.phase_one != 0 || result.phase_two != 0 || !(result.outputs == expected.outputs) ||
                            !result.broken_promises.empty();
            }
            // The first result may have been wrong too, and the same each time.
            wrong[t] += !judge(call, reference::score(call.arguments), expected.outputs).empty();
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t t = 0; t < std::size(texts); t++) EXPECT_EQ(wrong[t], 0) << texts[t];
}

TEST(Arguments, LayoutInAnyLetterCase) {
    for (const char* text : {kFixed, kVarLen}) {
        const Call call = make_call(parse_case(text));
        const Outputs expected = run(call).outputs;
        const bool varlen = call.description.varlen();
        for (const char* spelling : {varlen ? "tnd" : "bsnd", varlen ? "Tnd" : "bSnD"}) {
            RunOptions options;
            options.layout = spelling;
            const RunResult result = run(call, options);
            EXPECT_EQ(result.phase_one, 0) << result.error_text;
            EXPECT_TRUE(result.outputs == expected) << spelling;
        }
    }
}

TEST(Arguments, InnerPreciseChangesNothing) {
    for (const char* text : {kFixed, kVarLen, "layout=BSND n=1 d=16 q=70 kv=9 mode=3 mask=compressed"}) {
        const Call call = make_call(parse_case(text));
        const Outputs expected = run(call).outputs;
        for (const int64_t precise : {1, 2, 7, -1}) {
            RunOptions options;
            options.inner_precise = precise;
            EXPECT_TRUE(run(call, options).outputs == expected) << precise;
        }
    }
}

// Without a mask, mode and window are not looked at.
TEST(Arguments, ModeNeedsAMask) {
    const Call plain = make_call(parse_case("layout=BSND n=2 d=16 q=70 kv=65"));
    const Outputs expected = run(plain).outputs;
    for (const char* text : {"mode=3", "mode=2", "mode=4 pre=3 next=-70", "mode=0 pre=-4 next=-4", "mode=1"}) {
        const Call call = make_call(parse_case(std::string("layout=BSND n=2 d=16 q=70 kv=65 ") + text));
        const RunResult result = run(call);
        EXPECT_EQ(result.phase_one, 0) << text << " " << result.error_text;
        EXPECT_TRUE(result.outputs == expected) << text;
    }
}

// The softmax tensors of TND may have any shape with a last dimension of 8 and as many elements; the order stays the
// same.
TEST(Arguments, StatisticsOfOtherShapes) {
    const Call call = make_call(parse_case("layout=TND n=4 d=16 q=8,8 kv=9,9"));
    const Outputs expected = run(call).outputs;
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{4, 16, 8}, {2, 4, 8, 8}, {64, 8}}) {
        RunOptions options;
        options.statistics_shape = shape;
        const RunResult result = run(call, options);
        EXPECT_EQ(result.phase_one, 0) << result.error_text;
        EXPECT_TRUE(result.outputs == expected);
    }
}

// The same arguments and threads give the same size, and it grows with the length of the sequences at most.
TEST(Workspace, DoesNotHoldTheScores) {
    auto size = [](const std::string& text) {
        PreparedCall prepared(make_call(parse_case(text)));
        EXPECT_EQ(prepared.phase_one(), 0);
        EXPECT_EQ(prepared.phase_two(), 0);
        return prepared.workspace_size();
    };
    const std::string text = "layout=BSND n=1 d=16 q=2048 kv=2048 mode=3 mask=compressed";
    EXPECT_EQ(size(text), size(text));
    constexpr uint64_t kScores = 2048 * 2048 * sizeof(float);
    EXPECT_LT(size(text), kScores / 4);
    // Operands whose last dimension is not contiguous are gathered, which is linear in the length.
    EXPECT_LT(size(text + " strides=q:transposed,k:every2,v:expand_last,out:transposed"), kScores / 4);
}

// Lists with as many entries and tensors of the same shapes.
constexpr const char* kSameEntries[] = {
    "q=500,0,0,0,0 kv=600,0,0,0,0",
    "q=100,100,100,100,100 kv=120,120,120,120,120",
    "q=1,1,1,1,1 kv=1,1,1,1,1 slack=495/595",
    "q=65,129,3,1,302 kv=1,0,3,513,83",
    "q=250,250 kv=300,300 tail=3",
    "q=0,0,0,0,500 kv=0,0,0,0,600",
};

TEST(MaxWorkspace, IsEnoughForAllListsOfTheLength) {
    struct ThreadCount {
        ~ThreadCount() { opbase::set_thread_count(0); }
    } put_back;
    for (const char* arguments : {"n=4/2 d=40 dv=24 drop=exact keep=0.5 sink=normal", "n=1 d=16",
                                  "n=2 d=64 dtype=fp16 strides=q:transposed,v:every2,out:every2",
                                  "n=4/1 d=40 rope=16 dtype=bf16 mask=total:rows strides=k_rope:every2"}) {
        for (const int threads : reduced<std::vector<int>>({1, 3, 8, 64}, {1, 8})) {
            opbase::set_thread_count(threads);
            uint64_t most = 0, expected = 0;
            for (const char* lists : kSameEntries) {
                const std::string text = std::string("layout=TND version=VarLenScoreV5 ") + arguments + " " + lists;
                const Call call = make_call(parse_case(text));
                PreparedCall usual(call), largest(call, {.max_workspace = true});
                ASSERT_EQ(usual.phase_one(), 0) << aclGetRecentErrMsg() << text;
                ASSERT_EQ(largest.phase_one(), 0) << aclGetRecentErrMsg() << text;
                EXPECT_LE(usual.workspace_size(), largest.workspace_size()) << text << " on " << threads << " threads";
                most = std::max(most, usual.workspace_size());
                if (expected == 0) expected = largest.workspace_size();
                EXPECT_EQ(largest.workspace_size(), expected) << text << " on " << threads << " threads";
                EXPECT_EQ(usual.phase_two(), 0);
                EXPECT_EQ(largest.phase_two(), 0);
            }
            EXPECT_LE(most, expected);
        }
    }
}

// Its executor computes in V5 what the call is without dropout.
TEST(MaxWorkspace, ExecutorRunsWithoutDropout) {
    const std::string text = "layout=TND version=VarLenScoreV5 n=4/2 d=40 q=70,9 kv=150,129 pse=1:full sink=normal";
    const Outputs expected = run(make_call(parse_case(text))).outputs;
    for (const char* dropout : {"", " drop=exact keep=0.5", " keep=0.5"}) {
        const RunResult result = run(make_call(parse_case(text + dropout)), {.max_workspace = true});
        EXPECT_EQ(result.phase_one, 0) << result.error_text;
        EXPECT_EQ(result.phase_two, 0) << result.error_text;
        EXPECT_TRUE(result.outputs == expected) << dropout;
        EXPECT_EQ(lines(result.broken_promises), "");
    }
}

// What phase one and two cost. Other programs may run at the same time, so the best of many runs counts; with
// sanitizers and without optimization times mean nothing.
#if defined(NDEBUG) && !defined(FUSION_SANITIZED)
template <class Action>
double best_microseconds(int times, Action action) {
    double best = INFINITY;
    for (int i = 0; i < times; i++) {
        const auto begin = std::chrono::steady_clock::now();
        action();
        best =
            std::min(best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    }
    return best;
}

TEST(Cost, PlanningOfManySequences) {
    for (const char* text :
         {"n=1 d=8", "version=VarLenScoreV5 n=2 d=8 pse=2:slopes drop=exact sink=normal stats=same_as_input",
          "n=1 d=8 pse=1:row mode=6 mask=compressed"}) {
        Case c = parse_case(std::string("layout=TND ") + text);
        c.q.assign(20000, 1);
        c.kv.assign(20000, 1);
        if (c.mode == 6) c.prefix.assign(20000, 1);
        PreparedCall prepared(make_call(c));
        const double time = best_microseconds(10, [&] {
            EXPECT_EQ(prepared.phase_one(), 0) << aclGetRecentErrMsg();
            aclDestroyAclOpExecutor(prepared.executor());
        });
        std::cout << "20,000 sequences, " << text << ": " << time / 1000 << " ms\n";
        EXPECT_LT(time, 20000) << text;
    }
}

// One row, one key, one head: nothing but the interface.
TEST(Cost, BothPhasesOfATinyCall) {
    const Call call = make_call(parse_case("layout=BSND n=1 d=8 q=1 kv=1"));
    PreparedCall prepared(call);
    ASSERT_EQ(prepared.phase_one(), 0);
    ASSERT_EQ(prepared.phase_two(), 0);
    std::vector<char> workspace(prepared.workspace_size() + 64);
    ScoreArguments arguments = prepared.arguments();
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    arguments.workspace_size = &size;
    arguments.executor = &executor;
    aclnnStatus one = 0, two = 0;
    const double time = best_microseconds(5000, [&] {
        one = phase_one(prepared.version(), arguments);
        two = phase_two(prepared.version(), workspace.data(), size, executor, stream());
    });
    EXPECT_EQ(one, 0);
    EXPECT_EQ(two, 0);
    std::cout << "both phases: " << time << " microseconds\n";
    EXPECT_LT(time, 10);
}
#endif

}  // namespace
}  // namespace flash_attention::testing
