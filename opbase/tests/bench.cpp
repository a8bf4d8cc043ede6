// What a call costs before the operator does anything, and the speed of the small building blocks.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "opbase/op_base.h"

namespace {

constexpr const char* kOp = "aclnnEmpty";

constexpr auto kNoArguments = [] { return std::string(); };

// Both phases of an operator that does nothing.
void two_phases(benchmark::State& state) {
    for (auto _ : state) {
        uint64_t size = 0;
        aclOpExecutor* executor = nullptr;
        opbase::plan_operator(
            kOp, &size, &executor,
            [] {
                opbase::Plan plan;
                plan.inputs.assign(12, nullptr);
                plan.outputs.assign(4, nullptr);
                plan.run = [](const opbase::Launch&) {};
                return plan;
            },
            kNoArguments);
        opbase::run_operator(kOp, nullptr, 0, executor, nullptr);
    }
}
BENCHMARK(two_phases);

void create_and_destroy_tensor(benchmark::State& state) {
    const int64_t dims[] = {1, 8, 512, 64};
    for (auto _ : state) {
        aclDestroyTensor(aclCreateTensor(dims, 4, ACL_FLOAT16, nullptr, 0, ACL_FORMAT_ND, dims, 4, nullptr));
    }
}
BENCHMARK(create_and_destroy_tensor);

// A loop with as many empty items as threads.
void empty_loop(benchmark::State& state) {
    const int threads = static_cast<int>(state.range(0));
    opbase::set_thread_count(threads);
    opbase::thread_count();
    for (auto _ : state) opbase::parallel_for(threads, threads, [](int64_t, int) {});
    opbase::set_thread_count(0);
}
BENCHMARK(empty_loop)->Arg(1)->Arg(2)->Arg(4)->UseRealTime();

void fp16_to_float(benchmark::State& state) {
    std::vector<uint16_t> from(4096, 0x3C01);
    std::vector<float> to(from.size());
    for (auto _ : state) {
        for (size_t i = 0; i < from.size(); i++) to[i] = opbase::fp16_to_float(from[i]);
        benchmark::DoNotOptimize(to.data());
        benchmark::ClobberMemory();
    }
    state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(from.size()));
}
BENCHMARK(fp16_to_float);

void float_to_fp16(benchmark::State& state) {
    std::vector<float> from(4096, 1.25F);
    std::vector<uint16_t> to(from.size());
    for (auto _ : state) {
        for (size_t i = 0; i < from.size(); i++) to[i] = opbase::float_to_fp16(from[i]);
        benchmark::DoNotOptimize(to.data());
        benchmark::ClobberMemory();
    }
    state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(from.size()));
}
BENCHMARK(float_to_fp16);

// A matrix of 2-byte elements: copied row by row, and transposed.
void copy_matrix(benchmark::State& state, bool transposed) {
    constexpr int64_t kRows = 1024;
    constexpr int64_t kCols = 1024;
    std::vector<uint16_t> from(2 * kRows * kCols);
    std::vector<uint16_t> to(kRows * kCols);
    const opbase::Shape shape = {kRows, kCols};
    const opbase::Shape src = transposed ? opbase::Shape{1, kRows} : opbase::Shape{2 * kCols, 1};
    for (auto _ : state) {
        opbase::strided_copy(to.data(), opbase::contiguous_strides(shape), from.data(), src, shape, sizeof(uint16_t));
        benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(state.iterations() * kRows * kCols * static_cast<int64_t>(sizeof(uint16_t)));
}
BENCHMARK_CAPTURE(copy_matrix, rows, false);
BENCHMARK_CAPTURE(copy_matrix, transposed, true);

}  // namespace
