#include "kernels/dispatch.h"

#include <cstdlib>

#include "kernels/tables.h"

namespace flash_attention {

namespace {

const Kernels& choose() {
    const char* asked = std::getenv("ASCEND_CPU_ISA");
    if (asked == nullptr || *asked == '\0' || std::string(asked) == portable::kTable.name) return portable::kTable;
    throw UnavailableKernels("ASCEND_CPU_ISA asks for \"" + std::string(asked) + "\": this build has \"" +
                             portable::kTable.name + "\"");
}

}  // namespace

// Not cached: an unavailable table must fail each time, and the choice is a getenv beside a whole planning phase.
const Kernels& kernels() {
    return choose();
}

}  // namespace flash_attention
