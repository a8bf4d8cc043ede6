#include "compat/unsupported.h"

#include <fmt/format.h>

namespace ascendcl {

void refuse(std::string_view what) {
    throw Failure{ACL_ERROR_INTERNAL_ERROR, fmt::format("{} not available on the CPU engine", what)};
}

}  // namespace ascendcl
