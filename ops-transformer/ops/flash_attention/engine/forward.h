// The forward driver: from a Problem to work items, and the loop over them.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/problem.h"
#include "kernels/dispatch.h"

namespace flash_attention {

struct ForwardPlan {
    // One block of query rows of one sequence; an item of work for each query head.
    struct Block {
        int64_t sequence;
        int64_t row_begin, row_end;
        int64_t pairs;  // visible ones: the cost of an item
    };
    // Blocks whose items follow each other head by head. In one run: all blocks of a sequence, so that keys and values
    // of a head stay in cache from block to block; or, where items are few beside the threads, a single block.
    struct Run {
        int64_t first_item;
        int64_t first_block, blocks;
    };
    std::vector<Block> blocks;  // longest first within a run
    std::vector<Run> runs;      // most work first
    int64_t items = 0;
    const ForwardKernels* kernels = nullptr;
    int slots = 1;              // concurrency: scratch areas in the workspace
    int64_t scratch_bytes = 0;  // per slot, a multiple of 64
    int64_t workspace_bytes() const { return slots * scratch_bytes; }
};

// Phase one: reads the number of threads, chooses the kernels, cuts the work. What is cut where depends on the shapes
// of each sequence alone, so that results do not depend on threads or on what else is in the call.
ForwardPlan plan_forward(const Problem& problem);

// Phase two: computes every output element. `workspace` holds plan.workspace_bytes(), any contents, 64-byte aligned.
// Allocates nothing.
void run_forward(const Problem& problem, const ForwardPlan& plan, const Addresses& addresses, void* workspace);

}  // namespace flash_attention
