#include "thread_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "ascendcl/processors.h"
#include "control_groups.h"

namespace ascendcl {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// Absent files and the words "max" and "-1" mean no limit.
double processors_of(const ControlGroup& group) {
    double quota = 0;
    double period = 0;
    if (group.version == GroupVersion::kTwo) {
        std::ifstream(group.folder + "/cpu.max") >> quota >> period;
    } else {
        std::ifstream(group.folder + "/cpu.cfs_quota_us") >> quota;
        std::ifstream(group.folder + "/cpu.cfs_period_us") >> period;
    }
    return quota > 0 && period > 0 ? quota / period : kNoLimit;
}

}  // namespace

int quota_processors(const std::string& root) {
    double limit = kNoLimit;
    for (const ControlGroup& group : control_groups(root, "cpu")) limit = std::min(limit, processors_of(group));
    // Part of a processor counts as a whole: a thread more is throttled now and then, a thread less never uses that
    // part.
    return limit == kNoLimit ? 0 : static_cast<int>(std::clamp(std::ceil(limit), 1.0, double{kMaxThreads}));
}

int parse_thread_setting(const char* text, std::string* problem) {
    if (text == nullptr || *text == '\0') return 0;
    int threads = 0;
    const char* end = text + std::strlen(text);
    const auto [stop, error] = std::from_chars(text, end, threads);
    if (error == std::errc() && stop == end && threads >= 1 && threads <= kMaxThreads) return threads;
    *problem = fmt::format("ASCEND_CPU_THREADS is \"{}\": expected a whole number from 1 to {}", text, kMaxThreads);
    return 0;
}

}  // namespace ascendcl
