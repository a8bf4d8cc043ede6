#include "measure.h"

#include <algorithm>
#include <stdexcept>

#include "clock.h"
#include "opbase/parallel.h"

namespace fusion_bench {

double measure_by_turns(std::vector<Contender>& contenders, PeakLoop peak, const Effort& effort) {
    double best_peak = 0;
    const double begin = wall_time();
    for (int round = 0; round < effort.runs || wall_time() - begin < effort.seconds; round++) {
        best_peak = std::max(best_peak, measure_peak(peak));
        for (Contender& contender : contenders) contender.best = std::min(contender.best, contender.run());
    }
    return std::max(best_peak, measure_peak(peak));
}

double share_of_peak(const std::function<double()>& run, double flops, PeakLoop peak, int runs) {
    std::vector<double> shares;
    double before = measure_peak(peak, flops);
    for (int i = 0; i < runs; i++) {
        const double seconds = run();
        const double after = measure_peak(peak, flops);
        // As long on either side: the mean of the times is that of the neighbourhood.
        shares.push_back(flops / seconds * 0.5 * (1 / before + 1 / after));
        before = after;
    }
    std::nth_element(shares.begin(), shares.begin() + runs / 2, shares.end());
    return shares[runs / 2];
}

Processors::Processors() {
    CPU_ZERO(&one_);
    const int here = sched_getcpu();
    if (here < 0 || sched_getaffinity(0, sizeof(all_), &all_) != 0)
        throw std::runtime_error("the system does not tell which processors may be used");
    CPU_SET(here, &one_);
}

void Processors::use(int threads) const {
    opbase::set_thread_count(threads);
    if (sched_setaffinity(0, sizeof(cpu_set_t), threads == 1 ? &one_ : &all_) != 0)
        throw std::runtime_error("the system does not let choose processors");
}

}  // namespace fusion_bench
