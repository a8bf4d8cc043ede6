#include "ascendcl/processors.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include "ascendcl/log.h"
#include "first_answer.h"
#include "thread_limits.h"

namespace ascendcl {
namespace {

int affinity_processors() {
    // Machines may have more processors than cpu_set_t holds; the kernel then answers EINVAL.
    for (int processors = CPU_SETSIZE; processors <= 64 * CPU_SETSIZE; processors *= 2) {
        std::vector<cpu_set_t> mask(static_cast<std::size_t>(processors / CPU_SETSIZE));
        const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
        if (sched_getaffinity(0, bytes, mask.data()) == 0) return CPU_COUNT_S(bytes, mask.data());
        if (errno != EINVAL) break;
    }
    return 1;
}

int read_default_threads() {
    std::string problem;
    const int asked = parse_thread_setting(std::getenv("ASCEND_CPU_THREADS"), &problem);
    if (asked != 0) return asked;
    const int available = available_processors();
    if (!problem.empty()) warn_once("ASCEND_CPU_THREADS", fmt::format("{}; using {} threads", problem, available));
    return available;
}

}  // namespace

int available_processors() {
    const int by_affinity = std::clamp(affinity_processors(), 1, kMaxThreads);
    const int by_quota = quota_processors();
    return by_quota == 0 ? by_affinity : std::min(by_affinity, by_quota);
}

int default_threads() {
    static constinit std::atomic<int> kept{0};
    return first_answer(kept, 0, read_default_threads);
}

}  // namespace ascendcl
