// How long threads take for the loops of a plan, if each item takes a known time.
#pragma once

#include <cstdint>
#include <vector>

#include "planned_work.h"

namespace fusion_bench {

// As opbase::parallel_for does: items in order, each to the thread that is free first. When the last one is done.
double makespan(const std::vector<double>& costs, int threads);

// Time in multiply-adds of one core.
struct Schedule {
    int64_t items = 0;   // of the first loop
    double longest = 0;  // of its items, as a part of what each thread has on average in that loop
    double work = 0;     // of all loops, as all that follows
    double makespan = 0;
    double later = 0;    // the part of it that loops behind the first one take
    double balance = 1;  // work of a thread on average / makespan
    double bytes = 0, multiply_adds = 0;
    double bytes_per_multiply_add() const { return multiply_adds > 0 ? bytes / multiply_adds : 0; }
};

// An item takes as long as its multiply-adds or its bytes, whichever is more; a byte counts as so many multiply-adds.
Schedule hand_out(const std::vector<WorkLoop>& loops, int threads, double multiply_adds_of_byte);

}  // namespace fusion_bench
