// How many threads this process should keep busy.
#pragma once

#include "ascendcl/api.h"

namespace ascendcl {

// More threads than this are a mistake in a setting, and the counters of the thread pool hold as many.
inline constexpr int kMaxThreads = 1024;

// Processors of the calling thread's affinity mask, limited by the CPU quota of the control groups; at least 1.
ASCENDCL_API int available_processors();

// The threads of operators unless the program asks for others, which aclGetDeviceCapability reports as cores: what
// ASCEND_CPU_THREADS says, else available_processors(). Read once a process; a setting that is no number from 1 to
// kMaxThreads is reported in the log and ignored.
ASCENDCL_API int default_threads();

}  // namespace ascendcl
