// The forward driver: from a Problem to work items, and the loop over them.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/problem.h"
#include "kernels/dispatch.h"

namespace flash_attention {

struct ForwardPlan {
    // A part of one sequence: a block of query rows, an item of work for each query head; or, where query rows are few
    // (engine/decode.h), a chunk of keys for all of them, an item for each part of the heads that share a head of keys
    // and values.
    struct Block {
        int64_t sequence = 0;
        int64_t row_begin = 0, row_end = 0;
        KeyRange keys;             // of a chunk
        int64_t chunk = kNoChunk;  // its number
        int64_t split = kNoSplit;  // where its partial results go, if it is not the only chunk
        int64_t cost = 0;          // of an item: visible pairs, or what takes as long
    };
    static constexpr int64_t kNoChunk = -1, kNoSplit = -1;
    // Blocks whose items follow each other head by head. In one run: all blocks of a sequence, so that keys and values
    // of a head stay in cache from block to block; or, where items are few beside the threads, a single block.
    struct Run {
        int64_t first_item;
        int64_t first_block, blocks;
    };
    // A sequence with several chunks: its partial results are [head of keys and values][chunk][row of any head].
    struct Split {
        int64_t sequence;
        int64_t chunks, chunk_bytes;
        int64_t first_byte;  // among the partial results of all
    };
    std::vector<Block> blocks;  // longest first within a run
    std::vector<Run> runs;      // most work first
    std::vector<Split> splits;
    int64_t items = 0;
    const ForwardKernels* kernels = nullptr;
    int slots = 1;              // concurrency: scratch areas in the workspace
    int64_t scratch_bytes = 0;  // per slot, a multiple of 64
    int64_t partial_bytes = 0;  // of all splits, behind the scratch areas
    int64_t workspace_bytes() const { return slots * scratch_bytes + partial_bytes; }
};

// Phase one: reads the number of threads, chooses the kernels, cuts the work. What is cut where depends on the shapes
// of each sequence alone, so that results do not depend on threads or on what else is in the call.
ForwardPlan plan_forward(const Problem& problem);

// The same for any kernels and number of threads, so that plans for other machines than this one can be looked at.
ForwardPlan plan_forward(const Problem& problem, const ForwardKernels& kernels, int threads);

// Phase two: computes every output element. `workspace` holds plan.workspace_bytes(), any contents, 64-byte aligned.
// Allocates nothing.
void run_forward(const Problem& problem, const ForwardPlan& plan, const Addresses& addresses, void* workspace);

}  // namespace flash_attention
