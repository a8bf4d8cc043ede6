// What a call costs besides the arithmetic: planning a batch of very many sequences, and both phases of a problem that
// is as small as can be. Prints numbers only; bounds are in the tests.
#include <benchmark/benchmark.h>

#include <numeric>

#include "device.h"

namespace fusion_bench {
namespace {

// Sequences of one token each, one head, four features: tensors and lists of a packed call, made once.
class OneTokenSequences {
  public:
    explicit OneTokenSequences(int64_t count) : count_(count) {
        std::vector<int64_t> ends(static_cast<size_t>(count));
        std::iota(ends.begin(), ends.end(), 1);
        ends_ = aclCreateIntArray(ends.data(), ends.size());
        const std::vector<float> zeros(4096);
        for (const DeviceMemory* memory : {&query_, &key_, &value_}) memory->fill(zeros.data(), zeros.size() * 4);
    }
    OneTokenSequences(const OneTokenSequences&) = delete;
    OneTokenSequences& operator=(const OneTokenSequences&) = delete;
    ~OneTokenSequences() { aclDestroyIntArray(ends_); }

    Plan plan() const {
        char layout[] = "TND";
        Plan plan;
        check(aclnnFlashAttentionVarLenScoreGetWorkspaceSize(
                  query_view_.get(), key_view_.get(), value_view_.get(), nullptr, nullptr, nullptr, nullptr, nullptr,
                  ends_, ends_, 1.0, 1.0, INT64_MAX, INT64_MAX, 1, layout, 0, 0, max_view_.get(), sum_view_.get(),
                  nullptr, out_view_.get(), &plan.workspace_size, &plan.executor),
              "aclnnFlashAttentionVarLenScoreGetWorkspaceSize");
        return plan;
    }

  private:
    static constexpr int64_t kDim = 4, kCopies = 8;
    DeviceMemory memory(int64_t width) const { return DeviceMemory(static_cast<size_t>(count_ * width * 4)); }
    TensorView view(const DeviceMemory& memory, int64_t width) const {
        return {memory, ACL_FLOAT, {count_, 1, width}, {width, width, 1}, 0, count_ * width};
    }

    int64_t count_;
    aclIntArray* ends_ = nullptr;
    DeviceMemory query_ = memory(kDim), key_ = memory(kDim), value_ = memory(kDim), out_ = memory(kDim);
    DeviceMemory max_ = memory(kCopies), sum_ = memory(kCopies);
    TensorView query_view_ = view(query_, kDim), key_view_ = view(key_, kDim), value_view_ = view(value_, kDim);
    TensorView out_view_ = view(out_, kDim), max_view_ = view(max_, kCopies), sum_view_ = view(sum_, kCopies);
};

void plan_one_token_sequences(benchmark::State& state) {
    const OneTokenSequences problem(state.range(0));
    for (auto _ : state) check(aclDestroyAclOpExecutor(problem.plan().executor), "aclDestroyAclOpExecutor");
}
BENCHMARK(plan_one_token_sequences)->Arg(1)->Arg(200)->Arg(20000)->Unit(benchmark::kMicrosecond);

// Both phases, the workspace kept by the caller as frameworks do.
void both_phases(benchmark::State& state) {
    const Session session;
    const OneTokenSequences problem(state.range(0));
    const Plan first = problem.plan();
    check(aclDestroyAclOpExecutor(first.executor), "aclDestroyAclOpExecutor");
    const DeviceMemory workspace(first.workspace_size);
    for (auto _ : state) {
        const Plan plan = problem.plan();
        check(aclnnFlashAttentionVarLenScore(workspace.address(), plan.workspace_size, plan.executor, session.stream()),
              "aclnnFlashAttentionVarLenScore");
    }
}
BENCHMARK(both_phases)->Arg(1)->Arg(20000)->Unit(benchmark::kMicrosecond)->UseRealTime();

}  // namespace
}  // namespace fusion_bench
