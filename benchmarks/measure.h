// Timing of several things by turns, so that neighbours and clock rates meet all of them alike.
#pragma once

#include <sched.h>

#include <functional>
#include <limits>
#include <vector>

#include "peak.h"

namespace fusion_bench {

struct Effort {
    int rounds = 5;        // at least
    double seconds = 0.5;  // at least, of all rounds together
};

struct Contender {
    std::function<double()> run;       // gives its seconds
    double work = 0;                   // that a run does, in any unit that all contenders share
    std::vector<double> seconds = {};  // of every round

    double best() const;
};

// Runs the contenders one after another, again and again, and the peak loop, if there is one, before every round and
// after the last. Every second round goes backwards, so that none always follows the same one. Leaves the times of all
// rounds in the contenders and returns the best peak in operations a second.
double measure_by_turns(std::vector<Contender>& contenders, PeakLoop peak, const Effort& effort);

// The first contender's speed as a part of the other's: of both in the same round, and of all rounds the median. Best
// times would compare the quietest moment of one with that of the other; a short run finds one sooner than a long one.
double median_ratio(const Contender& contender, const Contender& other);

// The speed of `run`, which does `flops` operations, as a part of the peak: of each run compared with the loop just
// before and after it, for as many operations, and of all these the median. On a busy machine this keeps its value
// where best times of both do not, since a short loop finds a quiet moment sooner than a long run does.
double share_of_peak(const std::function<double()>& run, double flops, PeakLoop peak, int runs);

// How many threads the operator may use. One thread stays on one processor, where the loops that it is compared with
// run as well.
class Processors {
  public:
    Processors();
    void use(int threads) const;

  private:
    cpu_set_t all_, one_;
};

}  // namespace fusion_bench
