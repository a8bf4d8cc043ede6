// The loop behind every measured peak. All of it is static: an inline function that files for several instruction sets
// share would be kept once by the linker, for all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace fusion_bench {

// Advances every chain `rounds` times. The chains are independent and start apart, so that the compiler can neither
// merge them nor leave one out, and none starts at the 1 that it goes to. There are as many as hide the latency of the
// operation and fit the registers.
template <class Vector, class Step, size_t... i>
static inline void advance_chains(int64_t rounds, Step step, std::index_sequence<i...>) {
    Vector chains[] = {(Vector{} + static_cast<float>(i + 2))...};
    for (int64_t round = 0; round < rounds; round++) ((chains[i] = step(chains[i])), ...);
    const volatile Vector kept = (chains[i] + ...);
    static_cast<void>(kept);
}

// Gives the operations done: `flops_per_lane` a step and lane.
template <class Vector, size_t kChains, class Step>
static inline double run_chains(int64_t rounds, double flops_per_lane, Step step) {
    advance_chains<Vector>(rounds, step, std::make_index_sequence<kChains>());
    constexpr size_t kLanes = sizeof(Vector) / sizeof(float);
    return flops_per_lane * static_cast<double>(kLanes * kChains) * static_cast<double>(rounds);
}

// x -> kFactor x + kTerm goes to 1 and stays there, far from all slow numbers.
inline constexpr float kFactor = 0.75F, kTerm = 0.25F;

}  // namespace fusion_bench
