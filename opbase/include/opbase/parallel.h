// Threads: one pool per process, and a hook through which a host framework can lend its own.
#pragma once

#include <cstdint>

#include "opbase/api.h"
#include "opbase/function_ref.h"

namespace opbase {

// Body of a parallel loop. `slot` is below the number of slots asked for and never in use twice at a time, so that it
// may index scratch memory. Bodies must not throw.
using ParallelBody = FunctionRef<void(int64_t item, int slot)>;

// Threads that parallel_for may use: what set_thread_count asked for, else ASCEND_CPU_THREADS, else the processors of
// the affinity mask limited by the cgroup's quota. At least 1. Phase one reads it to size scratch memory; that call
// also starts the pool, so that phase two creates no threads.
OPBASE_API int thread_count();

// Overrides the number of threads of this process; 0 goes back to the default. For tests and host frameworks.
OPBASE_API void set_thread_count(int threads);

// Runs body(item, slot) for every item in [0, items), using at most `slots` slots. Items are handed out in order, so
// put the long ones first. Which slot or thread runs an item is not defined; results must not depend on it. A nested
// call, a call while the pool is busy with another thread's loop, and a call in a forked child before its first use of
// the pool all work (inline or on a fresh pool). Allocates nothing once the pool runs.
OPBASE_API void parallel_for(int64_t items, int slots, ParallelBody body);

// Replaces the pool by the host framework's own loop (nullptr restores the pool). The driver must follow the contract
// of parallel_for; it is called from the thread that runs phase two.
using ParallelDriver = void (*)(int64_t items, int slots, ParallelBody body);
OPBASE_API void set_parallel_driver(ParallelDriver driver);

}  // namespace opbase
