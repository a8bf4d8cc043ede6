// Two clocks, in seconds.
#pragma once

#include <ctime>

namespace fusion_bench {

using Clock = double (*)();

template <clockid_t id>
inline double read_clock() {
    timespec t{};
    clock_gettime(id, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// For several threads, and to know how long something has been going on.
inline double wall_time() {
    return read_clock<CLOCK_MONOTONIC>();
}

// Of all threads of this process together. What a single thread takes is measured with it, since programs that share
// its processor then count only as far as they disturb its caches.
inline double processor_time() {
    return read_clock<CLOCK_PROCESS_CPUTIME_ID>();
}

}  // namespace fusion_bench
