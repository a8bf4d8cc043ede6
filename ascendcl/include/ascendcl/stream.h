// Submission of work to a stream: the one seam between operators and the way streams execute.
#pragma once

#include <string>

#include "acl/acl_base.h"
#include "ascendcl/api.h"

namespace ascendcl {

// A call without arguments that is not owned: plain function pointer and context, so that submitting allocates nothing.
struct TaskRef {
    void (*call)(void* context);
    void* context;
};

// Runs `task` in the order of `stream` (nullptr: the default stream of the current context, or of device 0 when the
// thread has none). Streams execute at once on the submitting thread, under the stream's lock, so the task has run when
// this returns ACL_SUCCESS. The task must not throw. A handle that is not a live stream gives
// ACL_ERROR_RT_INVALID_HANDLE (107017), and the task does not run. Queues no text: `problem` says what was wrong, for
// the caller's own message. Allocates only where a thread without a context uses device 0's default stream for the
// first time.
ASCENDCL_API aclError submit(aclrtStream stream, TaskRef task, std::string& problem) noexcept;

}  // namespace ascendcl
