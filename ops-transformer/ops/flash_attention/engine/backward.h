// The backward driver: from a Problem to work items, and the loop over them.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/problem.h"
#include "kernels/dispatch.h"

namespace flash_attention {

struct BackwardPlan {
    int64_t workspace_bytes() const { return 0; }
};

// Phase one, as plan_forward.
BackwardPlan plan_backward(const Problem& problem);

// Phase two: computes every element of dq, dk, dv, their rope parts, dbias if wanted, dsink with a sink. `workspace`
// holds plan.workspace_bytes(), any contents, 64-byte aligned. Allocates nothing.
void run_backward(const Problem& problem, const BackwardPlan& plan, const Addresses& addresses, void* workspace);

}  // namespace flash_attention
