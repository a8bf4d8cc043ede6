// The kernel tables as people see them: for those who describe the choice, not for those who run it.
#pragma once

#include <span>
#include <vector>

namespace flash_attention {

struct Kernels;

struct TableInfo {
    const char* name;                    // as in ASCEND_CPU_ISA
    std::span<const char* const> needs;  // flags of the processor, in Linux's words
    bool runs_here;
    const Kernels& table;  // its functions may be called only where it runs
};

// All of this build, best first.
std::vector<TableInfo> all_tables();

}  // namespace flash_attention
