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
// the caller's own message. Allocates only where nullptr stands for a stream that does not exist yet (see below).
ASCENDCL_API aclError submit(aclrtStream stream, TaskRef task, std::string& problem) noexcept;

// Makes the stream that nullptr stands for on this thread, unless it exists: that of device 0 is made at its first use.
// For callers that must not allocate in submit(), which also reports when there is no such stream.
ASCENDCL_API void prepare_default_stream() noexcept;

// A stream of device 0 that belongs to the calling thread and ends with it, whatever contexts the thread has: for host
// frameworks whose threads run operators on the host's own memory and must not wait for each other. Made at the thread's
// first call; nullptr, which submit() takes as the default stream, when it cannot be made.
ASCENDCL_API aclrtStream thread_stream() noexcept;

}  // namespace ascendcl
