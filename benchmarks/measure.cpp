#include "measure.h"

#include <algorithm>
#include <stdexcept>

#include "clock.h"
#include "opbase/parallel.h"

namespace fusion_bench {

namespace {

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    if (values.size() % 2 == 1) return *middle;
    return 0.5 * (*std::max_element(values.begin(), middle) + *middle);
}

}  // namespace

double Contender::best() const {
    return *std::min_element(seconds.begin(), seconds.end());
}

double measure_by_turns(std::vector<Contender>& contenders, PeakLoop peak, const Effort& effort) {
    double best_peak = 0;
    auto run_peak = [&] {
        if (peak != nullptr) best_peak = std::max(best_peak, measure_peak(peak));
    };
    const double begin = wall_time();
    for (int round = 0; round < effort.rounds || wall_time() - begin < effort.seconds; round++) {
        run_peak();
        for (size_t turn = 0; turn < contenders.size(); turn++) {
            Contender& contender = contenders[round % 2 == 0 ? turn : contenders.size() - 1 - turn];
            contender.seconds.push_back(contender.run());
        }
    }
    run_peak();
    return best_peak;
}

double median_ratio(const Contender& contender, const Contender& other) {
    std::vector<double> ratios;
    for (size_t round = 0; round < contender.seconds.size(); round++)
        ratios.push_back(contender.work / contender.seconds[round] / (other.work / other.seconds[round]));
    return median(std::move(ratios));
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
    return median(std::move(shares));
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
