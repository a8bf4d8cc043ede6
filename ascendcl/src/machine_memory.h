// How much memory the machine has for this process.
#pragma once

#include <cstddef>
#include <string>

namespace ascendcl {

struct MachineMemory {
    std::size_t total = 0;      // the smaller of RAM and the limits of the control groups
    std::size_t available = 0;  // what can be had without swapping and within those limits
};

// Reads /proc/meminfo and the limits of the process's control groups (versions 1 and 2), all below `root`, which is
// empty except in tests.
MachineMemory read_machine_memory(const std::string& root = "");

}  // namespace ascendcl
