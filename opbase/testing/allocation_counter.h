// How often this process has allocated: phase two of an operator must not.
#pragma once

#include <cstdint>

namespace opbase::testing {

// Calls of operator new in any thread and any library of the process since it started. Whoever links this function gets
// the counting operators with it.
uint64_t allocation_count();

}  // namespace opbase::testing
