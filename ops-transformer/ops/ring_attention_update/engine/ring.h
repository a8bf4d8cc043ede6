// The driver of the ring update: two partial results over the same rows, merged row by row. It knows no Ascend type.
#pragma once

#include <array>
#include <cstdint>

#include "engine/problem.h"
#include "kernels/dispatch.h"

namespace ring_attention_update {

// In the order of the C signature: results are outputs with their softmax maximum and sum.
enum Operand { kPrevOut, kPrevMax, kPrevSum, kCurOut, kCurMax, kCurSum, kEnds, kOut, kMax, kSum, kOperandCount };

// Base addresses of one run.
using Addresses = std::array<void*, kOperandCount>;

// Elements between neighbours. Features and the eight copies of a statistic lie side by side.
struct Strides {
    int64_t batch = 0, row = 0, head = 0;
};

struct RingProblem {
    flash_attention::ElementType type{};
    int64_t batch = 1, rows = 0, heads = 0, dim = 0;  // packed sequences: batch 1, rows = T
    std::array<Strides, kOperandCount> strides{};
    // Statistics in one block [heads, rows of the sequence, 8] for each sequence, instead of by the strides.
    bool statistics_by_sequence = false;
    int64_t sequences = 0;  // entries of kEnds: the row behind each sequence. A leading 0 is an empty sequence
    int64_t ends_stride = 0;
};

struct RingPlan {
    int slots = 1;
    MergeRowsKernel merge = nullptr;
};

// Phase one. Throws flash_attention::UnavailableKernels.
RingPlan plan_ring(const RingProblem& problem);

// Why the ends in device memory cannot be used: the number of the first entry that is wrong, or `sequences` when the
// last one is not `rows`; -1 when all is well.
int64_t first_bad_end(const RingProblem& problem, const int64_t* ends);

// Phase two: writes every row of the three outputs, which may be the memory of either partial result. Allocates
// nothing. Pre: the ends are good.
void run_ring(const RingProblem& problem, const RingPlan& plan, const Addresses& addresses);

}  // namespace ring_attention_update
