#include "cpu_limit.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>
#include <vector>

namespace opbase {
namespace {

int affinity_processors() {
    // Machines may have more processors than cpu_set_t holds; the kernel then answers EINVAL.
    for (int processors = CPU_SETSIZE; processors <= 64 * CPU_SETSIZE; processors *= 2) {
        std::vector<cpu_set_t> mask(static_cast<size_t>(processors / CPU_SETSIZE));
        const size_t bytes = mask.size() * sizeof(cpu_set_t);
        if (sched_getaffinity(0, bytes, mask.data()) == 0) return CPU_COUNT_S(bytes, mask.data());
        if (errno != EINVAL) break;
    }
    return 1;
}

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
    return parts;
}

bool contains(const std::vector<std::string>& values, std::string_view wanted) {
    return std::find(values.begin(), values.end(), wanted) != values.end();
}

// A mounted hierarchy that limits CPU time. Version 2 has one for everything, version 1 one per group of controllers.
struct Hierarchy {
    int version;
    std::string cgroup_root;  // the cgroup that is seen at the mount point: not "/" inside many containers
    std::string mount_point;
};

// Lines are "36 35 98:0 <root> <mount point> <options> ... - <type> <source> <super options>".
std::vector<Hierarchy> find_hierarchies(const std::string& root) {
    std::vector<Hierarchy> found;
    std::ifstream mounts(root + "/proc/self/mountinfo");
    for (std::string line; std::getline(mounts, line);) {
        const size_t dash = line.find(" - ");
        if (dash == std::string::npos) continue;
        const auto left = split(line.substr(0, dash), ' ');
        const auto right = split(line.substr(dash + 3), ' ');
        if (left.size() < 5 || right.size() < 3) continue;
        if (right[0] == "cgroup2") found.push_back({2, left[3], left[4]});
        if (right[0] == "cgroup" && contains(split(right[2], ','), "cpu")) found.push_back({1, left[3], left[4]});
    }
    return found;
}

// The cgroup of this process within a hierarchy; lines are "<id>:<controllers>:<path>", without controllers in
// version 2.
std::string own_cgroup(const std::string& root, int version) {
    std::ifstream cgroups(root + "/proc/self/cgroup");
    for (std::string line; std::getline(cgroups, line);) {
        const size_t first = line.find(':');
        const size_t second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        if (version == 2 ? controllers.empty() : contains(split(controllers, ','), "cpu")) {
            return line.substr(second + 1);
        }
    }
    return "/";
}

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

double processors_of(double quota, double period) {
    return quota > 0 && period > 0 ? quota / period : kNoLimit;
}

// Absent files and the words "max" and "-1" mean no limit.
double folder_limit(const std::string& folder, int version) {
    double quota = 0;
    double period = 0;
    if (version == 2) {
        std::ifstream(folder + "/cpu.max") >> quota >> period;
    } else {
        std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
        std::ifstream(folder + "/cpu.cfs_period_us") >> period;
    }
    return processors_of(quota, period);
}

// The tightest limit from the process's own cgroup up to the mount point.
double hierarchy_limit(const std::string& root, const Hierarchy& hierarchy) {
    std::string path = own_cgroup(root, hierarchy.version);
    if (hierarchy.cgroup_root != "/") {
        const bool inside = path.compare(0, hierarchy.cgroup_root.size(), hierarchy.cgroup_root) == 0;
        path = inside ? path.substr(hierarchy.cgroup_root.size()) : std::string();
    }
    const std::string top = root + hierarchy.mount_point;
    double limit = kNoLimit;
    for (;;) {
        limit = std::min(limit, folder_limit(top + path, hierarchy.version));
        const size_t slash = path.rfind('/');
        if (slash == std::string::npos) return limit;
        path.erase(slash);
    }
}

}  // namespace

int cgroup_processors(const std::string& root) {
    double limit = kNoLimit;
    for (const Hierarchy& hierarchy : find_hierarchies(root)) {
        limit = std::min(limit, hierarchy_limit(root, hierarchy));
    }
    // Part of a processor counts as a whole: a thread more is throttled now and then, a thread less never uses that
    // part.
    return limit == kNoLimit ? 0 : static_cast<int>(std::clamp(std::ceil(limit), 1.0, double{kMaxThreads}));
}

int available_processors() {
    const int by_affinity = std::clamp(affinity_processors(), 1, kMaxThreads);
    const int by_quota = cgroup_processors("");
    return by_quota == 0 ? by_affinity : std::min(by_affinity, by_quota);
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

}  // namespace opbase
