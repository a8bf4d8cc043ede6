// How many threads this process may keep busy. Shown to the tests only.
#pragma once

#include <string>

#include "opbase/api.h"

namespace opbase {

// More threads than this are a mistake in a setting, and the pool's counters hold as many.
inline constexpr int kMaxThreads = 1024;

// Processors of the calling thread's affinity mask, limited by the cgroup's CPU quota; at least 1.
OPBASE_API int available_processors();

// Processors that the CPU quota of this process's cgroup and of those above it allows, rounded up; 0 without a quota.
// `root` goes in front of /proc and of the mount points, and is empty outside of tests.
OPBASE_API int cgroup_processors(const std::string& root);

// The value of ASCEND_CPU_THREADS, which may be null. 0 when it is not set; 0 and a sentence in `problem` when it is
// not a whole number from 1 to kMaxThreads.
OPBASE_API int parse_thread_setting(const char* text, std::string* problem);

}  // namespace opbase
