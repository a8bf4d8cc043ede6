#include "machine_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include "control_groups.h"

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

// How the files of a group are named.
struct GroupFiles {
    const char* limit;
    const char* usage;
    const char* reclaimable;  // key in memory.stat: page cache, which counts as used but is given back on demand
};
constexpr GroupFiles kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr GroupFiles kVersion2 = {"memory.max", "memory.current", "inactive_file"};

void apply_group(MachineMemory& memory, const ControlGroup& group) {
    const GroupFiles& files = group.version == GroupVersion::kOne ? kVersion1 : kVersion2;
    const std::optional<std::size_t> limit = read_number(group.folder + "/" + files.limit);
    if (!limit) return;
    memory.total = std::min(memory.total, *limit);
    const std::size_t usage = read_number(group.folder + "/" + files.usage).value_or(0);
    const std::size_t cache = read_field(group.folder + "/memory.stat", files.reclaimable).value_or(0);
    const std::size_t used = usage - std::min(usage, cache);
    memory.available = std::min(memory.available, *limit - std::min(*limit, used));
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
    for (const ControlGroup& group : control_groups(root, "memory")) apply_group(memory, group);
    memory.available = std::min(memory.available, memory.total);
    return memory;
}

}  // namespace ascendcl
