#include "control_groups.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace ascendcl {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
    return parts;
}

bool names_controller(const std::string& list, std::string_view controller) {
    const std::vector<std::string> names = split(list, ',');
    return std::find(names.begin(), names.end(), controller) != names.end();
}

// A mounted tree of groups. Version 2 has one for everything, version 1 one per set of controllers.
struct Hierarchy {
    GroupVersion version;
    std::string top_group;  // the group that is seen at the mount point: not "/" inside many containers
    std::string mount_point;
};

// Lines are "36 35 98:0 <top group> <mount point> <options> ... - <type> <source> <super options>".
std::vector<Hierarchy> find_hierarchies(const std::string& root, std::string_view controller) {
    std::vector<Hierarchy> found;
    std::ifstream mounts(root + "/proc/self/mountinfo");
    for (std::string line; std::getline(mounts, line);) {
        const std::size_t dash = line.find(" - ");
        if (dash == std::string::npos) continue;
        const auto left = split(line.substr(0, dash), ' ');
        const auto right = split(line.substr(dash + 3), ' ');
        if (left.size() < 5 || right.size() < 3) continue;
        if (right[0] == "cgroup2") found.push_back({GroupVersion::kTwo, left[3], left[4]});
        if (right[0] == "cgroup" && names_controller(right[2], controller)) {
            found.push_back({GroupVersion::kOne, left[3], left[4]});
        }
    }
    return found;
}

// The group of this process; lines are "<id>:<controllers>:<path>", without controllers in version 2.
std::string own_group(const std::string& root, GroupVersion version, std::string_view controller) {
    std::ifstream groups(root + "/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {
        const std::size_t first = line.find(':');
        const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos || line.compare(second + 1, 1, "/") != 0) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const bool matches =
            version == GroupVersion::kTwo ? controllers.empty() : names_controller(controllers, controller);
        if (matches) return line.substr(second + 1);
    }
    return "/";
}

// The path of `group` below the mount point, "" for the mount point itself. A container may see the name that its group
// has on the host, but only that group mounted, or names of which nothing is mounted: what is mounted is then all there
// is to see.
std::string path_below(const std::string& top_group, const std::string& group) {
    const std::string top = top_group == "/" ? "" : top_group;
    const bool inside = group.compare(0, top.size() + 1, top + "/") == 0;
    std::string path = inside ? group.substr(top.size()) : "";
    if (path == "/") path.clear();
    return path;
}

}  // namespace

std::vector<ControlGroup> control_groups(const std::string& root, std::string_view controller) {
    std::vector<ControlGroup> groups;
    for (const Hierarchy& hierarchy : find_hierarchies(root, controller)) {
        const std::string top = root + hierarchy.mount_point;
        std::string path = path_below(hierarchy.top_group, own_group(root, hierarchy.version, controller));
        for (; !path.empty(); path.erase(path.rfind('/'))) groups.push_back({hierarchy.version, top + path});
        groups.push_back({hierarchy.version, top});
    }
    return groups;
}

}  // namespace ascendcl
