// The control groups of this process, of either version, as far as they can be seen from here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ascendcl {

enum class GroupVersion { kOne, kTwo };

struct ControlGroup {
    GroupVersion version;  // says how the files are named
    std::string folder;
};

// The groups whose limits for `controller` ("cpu", "memory") bind this process: its own and those above it, up to the
// mount point. Version 2 has one hierarchy for all controllers, so that its groups appear whether they limit this one
// or not. `root` goes in front of /proc and of the mount points, and is empty outside of tests.
std::vector<ControlGroup> control_groups(const std::string& root, std::string_view controller);

}  // namespace ascendcl
