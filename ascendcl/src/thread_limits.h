// What limits the number of threads besides the affinity mask.
#pragma once

#include <string>

namespace ascendcl {

// Processors that the CPU quota of this process's control groups allows, rounded up; 0 without a quota. `root` goes in
// front of /proc and of the mount points, and is empty outside of tests.
int quota_processors(const std::string& root = "");

// The value of ASCEND_CPU_THREADS, which may be null. 0 when it is not set; 0 and a sentence in `problem` when it is
// not a whole number from 1 to kMaxThreads.
int parse_thread_setting(const char* text, std::string* problem);

}  // namespace ascendcl
