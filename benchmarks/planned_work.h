// What the items of a plan multiply, and what they move between a core and whatever lies behind its L2 cache.
//
// The plans are the engine's own; here they are only weighed. An item counts as if nothing that an earlier one read
// were left in L2. How much of its bytes come from memory and how much from a shared cache is not looked at.
#pragma once

#include <string>
#include <vector>

#include "engine/backward.h"
#include "engine/forward.h"

namespace fusion_bench {

struct WorkItem {
    double multiply_adds = 0;  // useful ones, as useful_flops counts them
    double bytes = 0;          // read and written
};

// A parallel loop: items in the order in which threads take them. The loops of a plan follow each other.
struct WorkLoop {
    std::string name;
    std::vector<WorkItem> items;
};

std::vector<WorkLoop> work_of(const flash_attention::Problem& problem, const flash_attention::ForwardPlan& plan);

// Backward goes through the same keys for each block of query rows. What it can keep of them is what counts:
// `l2_bytes`.
// A rough estimate: in the one case that was tried, a simulated cache missed several times fewer bytes.
std::vector<WorkLoop> work_of(const flash_attention::Problem& problem, const flash_attention::BackwardPlan& plan,
                              double l2_bytes);

// Every operand and result once: what remains where a shared cache keeps everything.
double bytes_once(const flash_attention::Problem& problem, bool backward);

}  // namespace fusion_bench
