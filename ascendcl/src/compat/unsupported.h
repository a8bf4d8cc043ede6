// What must exist because torch-npu links it, but cannot work without an NPU: one way to refuse.
#pragma once

#include <string_view>

#include "call.h"

namespace ascendcl {

// Throws Failure with ACL_ERROR_INTERNAL_ERROR (500000) and "<what> not available on the CPU engine"; `what` carries
// its verb, as in "device binaries are". The code is 500000 and not ACL_ERROR_RT_FEATURE_NOT_SUPPORT (207000), which
// names this case, because torch-npu prints a line for 207000 and then goes on as if the call had succeeded.
[[noreturn]] void refuse(std::string_view what);

// A whole exported function that does nothing but refuse. Takes the arguments for the trace.
template <class... Args>
aclError refused_call(const char* function, std::string_view what, const Args&... args) noexcept {
    return api_call(
        function, [what] { refuse(what); }, args...);
}

}  // namespace ascendcl
