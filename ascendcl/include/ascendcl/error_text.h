// The texts behind aclGetRecentErrMsg: one queue per thread, newest first, at most eight entries.
#pragma once

#include <string_view>

#include "ascendcl/api.h"

namespace ascendcl {

// Who reports. A call that succeeds clears what its own side left, so that an old text never explains a new error.
enum class ErrorSource { kRuntime /* acl* and aclrt* */, kOperator /* aclnn* and the meta functions */ };

// Queues "[PID:<pid>] <time> <category>: <text>" for the calling thread and logs it at level error.
// `category` is for example "AclNN_Parameter_Error(EZ1001)" or "Runtime_Error(EE9999)". Never throws; when memory runs
// out, the text is lost.
ASCENDCL_API void queue_error(ErrorSource source, std::string_view category, std::string_view text) noexcept;

// Drops the calling thread's entries of one side. What every succeeding call does.
ASCENDCL_API void clear_errors(ErrorSource source) noexcept;

}  // namespace ascendcl
