// The kernel tables of this build, as plans see them: the processor need not have their instructions.
#pragma once

#include <string>
#include <vector>

#include "planned_work.h"

namespace fusion_bench {

struct PlannedTable {
    std::string name;                            // as in ASCEND_CPU_ISA
    flash_attention::ForwardKernels forward[3];  // by ElementType; functions are those of kernels that run anywhere
    flash_attention::BackwardKernels backward[3];

    std::vector<WorkLoop> work_of(const flash_attention::Problem& problem, bool is_backward, int threads,
                                  double l2_bytes) const;
};

// Best first.
std::vector<PlannedTable> planned_tables();

}  // namespace fusion_bench
