// What the backward computes besides dq, dk and dv: the gradients of a bias and of sinks. Each entry has one owner,
// which adds up all that it stands for.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/problem.h"
#include "kernels/dispatch.h"

namespace flash_attention {

// A part of the gradient of the bias: a block of query rows of a head, or the one row that all share, and some keys.
// Sequences [first, end) of the problem share it.
struct BiasPart {
    int64_t first_sequence, end_sequence;
    int64_t head;
    KeyRange rows, keys;
    int64_t pairs;  // the cost
};

// All of them, most work first; none when the gradient is not wanted. `query_block`: of the kernels that run.
std::vector<BiasPart> plan_bias_gradient(const Problem& problem, int64_t query_block);

void run_bias_gradient(const Problem& problem, const BackwardKernels& kernels, const BiasPart& part,
                       const Addresses& at, void* scratch);

// dsink = -sum of P(sink) delta over all rows of the head.
void write_sink_gradient(const Problem& problem, const BackwardKernels& kernels, int64_t head, const Addresses& at);

}  // namespace flash_attention
