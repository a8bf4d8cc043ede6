#include "machine_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

namespace ascendcl {
namespace {

// The number after `key` in a file of "key value" lines.
std::optional<std::size_t> read_field(const std::string& path, std::string_view key) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string name;
        std::size_t value = 0;
        if (words >> name >> value && name == key) return value;
    }
    return std::nullopt;
}

// A file that holds one number; "max" (no limit) is none.
std::optional<std::size_t> read_number(const std::string& path) {
    std::ifstream file(path);
    std::size_t value = 0;
    if (file >> value) return value;
    return std::nullopt;
}

// The file names of one version of control groups.
struct GroupFiles {
    const char* mount;
    const char* limit;
    const char* usage;
    const char* reclaimable;  // key in memory.stat: page cache, which counts as used but is given back on demand
};
constexpr GroupFiles kVersion1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                  "total_inactive_file"};
constexpr GroupFiles kVersion2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};

void apply_group(MachineMemory& memory, const std::string& folder, const GroupFiles& files) {
    const std::optional<std::size_t> limit = read_number(folder + "/" + files.limit);
    if (!limit) return;
    memory.total = std::min(memory.total, *limit);
    const std::size_t usage = read_number(folder + "/" + files.usage).value_or(0);
    const std::size_t cache = read_field(folder + "/memory.stat", files.reclaimable).value_or(0);
    const std::size_t used = usage - std::min(usage, cache);
    memory.available = std::min(memory.available, *limit - std::min(*limit, used));
}

// A group's limit binds all below it, so every folder from the process's own up to the mount counts. In a container the
// path may be that of the host, of which only the mount itself is visible.
void apply_groups_up_to_mount(MachineMemory& memory, const std::string& root, std::string path,
                              const GroupFiles& files) {
    const std::string mount = root + files.mount;
    while (path.size() > 1) {
        apply_group(memory, mount + path, files);
        path.erase(path.rfind('/'));
    }
    apply_group(memory, mount, files);
}

bool contains_memory_controller(std::string_view controllers) {
    while (!controllers.empty()) {
        const std::size_t comma = controllers.find(',');
        if (controllers.substr(0, comma) == "memory") return true;
        controllers.remove_prefix(comma == std::string_view::npos ? controllers.size() : comma + 1);
    }
    return false;
}

}  // namespace

MachineMemory read_machine_memory(const std::string& root) {
    constexpr std::size_t kKibi = 1024;
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::string meminfo = root + "/proc/meminfo";
    MachineMemory memory;
    if (const auto total = read_field(meminfo, "MemTotal:")) {
        memory.total = *total * kKibi;
    } else {
        memory.total = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * page;
    }
    if (const auto available = read_field(meminfo, "MemAvailable:")) {
        memory.available = *available * kKibi;
    } else {
        memory.available = static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)) * page;
    }
    std::ifstream groups(root + "/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {  // "<number>:<controllers>:<path>"
        const std::size_t first = line.find(':');
        const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos || line.compare(second + 1, 1, "/") != 0) continue;
        const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
        const std::string path = line.substr(second + 1);
        if (controllers.empty()) apply_groups_up_to_mount(memory, root, path, kVersion2);
        if (contains_memory_controller(controllers)) apply_groups_up_to_mount(memory, root, path, kVersion1);
    }
    memory.available = std::min(memory.available, memory.total);
    return memory;
}

}  // namespace ascendcl
