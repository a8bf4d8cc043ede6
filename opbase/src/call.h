// The wrapper that every public function of libnnopbase and both phases of every operator share: exceptions stop at the
// C boundary, a failure queues exactly one text, a success drops the thread's older aclnn texts, and
// ASCEND_CPU_LOG=debug shows the call with its arguments and its code.
#pragma once

#include <memory>
#include <string>

#include "aclnn/acl_meta.h"
#include "opbase/function_ref.h"

namespace opbase {

// Gives the arguments of a call as one line, "size=3, value=0x55d0"; asked for only when the call is traced.
using DescribeArguments = FunctionRef<std::string()>;

// Queues "<name>: <what>" for the exception in flight and gives its code: an OperatorError's own, `out_of_memory` for
// bad_alloc, 561000 for everything else.
aclnnStatus report_current_exception(const char* name, aclnnStatus out_of_memory) noexcept;

// Writes "<name>(<arguments>) = <code>" when the log level is debug. `suffix` completes the name of phase one.
void trace_call(const char* name, const char* suffix, aclnnStatus code, DescribeArguments describe) noexcept;

// Runs `body`, which throws OperatorError to fail, with the four habits above.
aclnnStatus checked_call(const char* name, FunctionRef<void()> body, DescribeArguments describe) noexcept;

// Tidying up must not hide why the work before it failed, so that destroying leaves the texts alone.
void destroy_call(const char* name, const void* object) noexcept;

// The same for functions that create something: nullptr on failure, otherwise the caller owns the result.
template <class T, class Make>
T* create_call(const char* name, Make&& make, DescribeArguments describe) noexcept {
    std::unique_ptr<T> made;
    checked_call(
        name, [&] { made = make(); }, describe);
    return made.release();
}

}  // namespace opbase
