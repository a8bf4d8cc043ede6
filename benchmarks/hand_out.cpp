#include "hand_out.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

namespace fusion_bench {

double makespan(const std::vector<double>& costs, int threads) {
    std::priority_queue<double, std::vector<double>, std::greater<>> free_at;
    for (int thread = 0; thread < threads; thread++) free_at.push(0);
    double last = 0;
    for (const double cost : costs) {
        const double done = free_at.top() + cost;
        free_at.pop();
        free_at.push(done);
        last = std::max(last, done);
    }
    return last;
}

Schedule hand_out(const std::vector<WorkLoop>& loops, int threads, double multiply_adds_of_byte) {
    Schedule all;
    for (size_t loop = 0; loop < loops.size(); loop++) {
        std::vector<double> costs;
        costs.reserve(loops[loop].items.size());
        for (const WorkItem& item : loops[loop].items) {
            costs.push_back(std::max(item.multiply_adds, item.bytes * multiply_adds_of_byte));
            all.bytes += item.bytes;
            all.multiply_adds += item.multiply_adds;
        }
        const double work = std::accumulate(costs.begin(), costs.end(), 0.0);
        const double done = makespan(costs, threads);
        if (loop == 0) {
            all.items = static_cast<int64_t>(costs.size());
            if (work > 0) all.longest = *std::max_element(costs.begin(), costs.end()) / (work / threads);
        } else {
            all.later += done;
        }
        all.work += work;
        all.makespan += done;
    }
    if (all.makespan > 0) all.balance = all.work / threads / all.makespan;
    return all;
}

}  // namespace fusion_bench
