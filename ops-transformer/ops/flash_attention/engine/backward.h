// The backward driver: from a Problem to work items, and the loop over them.
//
// An item is a head of keys and values of a sequence, with all query heads that share it; or, where such heads are few
// beside the threads, one of at most 8 chunks of its keys. Partial dq of several chunks are added in order, either way,
// so that results do not depend on how the work is shared out.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/backward_extras.h"
#include "engine/problem.h"
#include "kernels/dispatch.h"

namespace flash_attention {

// A sequence's keys in parts of kBackwardKeys, and these in at most 8 chunks, as equal as can be.
struct KeyChunks {
    int64_t kv_len, parts, count;
    explicit KeyChunks(int64_t keys);
    KeyRange operator[](int64_t chunk) const;
};

struct BackwardPlan {
    struct Item {
        int64_t sequence, kv_head;
        int64_t chunk;     // kAllChunks: one after the other
        int64_t pairs;     // visible ones of all heads: the cost
        int64_t dq_bytes;  // where the partial dq of the head begin, when chunks are apart
    };
    static constexpr int64_t kAllChunks = -1;
    std::vector<Item> items;     // most work first
    std::vector<Item> sums;      // chunks apart: a head whose partial dq are to be added up
    std::vector<BiasPart> bias;  // when its gradient is wanted
    const BackwardKernels* kernels = nullptr;
    bool chunks_apart = false;
    int slots = 1;
    int64_t scratch_bytes = 0;  // a slot: of the kernels
    int64_t slot_dq_bytes = 0;  // a slot: partial dq of one head, when chunks follow each other
    int64_t dq_bytes = 0;       // behind the slots: partial dq of all heads, when chunks are apart
    int64_t dq_floats = 0;      // of a block of query rows
    int64_t slot_bytes() const { return scratch_bytes + slot_dq_bytes; }
    int64_t workspace_bytes() const { return slots * slot_bytes() + dq_bytes; }
};

// Phase one, as plan_forward.
BackwardPlan plan_backward(const Problem& problem);
BackwardPlan plan_backward(const Problem& problem, const BackwardKernels& kernels, int threads);

// The most that plan_backward asks for, for any lengths of `entries` sequences that add up to q_len rows and kv_len
// keys. Of the problem everything but the sequences counts.
int64_t most_workspace_bytes(const Problem& problem, int64_t entries, int64_t q_len, int64_t kv_len);

// Phase two: computes every element of dq, dk, dv, their rope parts, dbias if wanted, dsink with a sink. `workspace`
// holds plan.workspace_bytes(), any contents, 64-byte aligned. Allocates nothing.
void run_backward(const Problem& problem, const BackwardPlan& plan, const Addresses& addresses, void* workspace);

}  // namespace flash_attention
