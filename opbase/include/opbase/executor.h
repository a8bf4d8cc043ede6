// The two-phase contract. An operator gives a planning function for phase one; everything it decides is kept in the
// executor; phase two runs it on a stream. All checks of executors, addresses and workspaces are here, once for all
// operators.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "acl/acl_base.h"
#include "aclnn/acl_meta.h"
#include "opbase/api.h"
#include "opbase/function_ref.h"

namespace opbase {

// What one run gets. Addresses are those of phase one, or what the address functions (aclSetInputTensorAddr, ...) put
// there.
struct Launch {
    void* workspace;                 // at least Plan::workspace_size bytes, contents undefined, aligned to 64 bytes
    std::span<void* const> inputs;   // storage addresses in signature order, nullptr for absent tensors
    std::span<void* const> outputs;  // likewise
};

// What phase one decides.
struct Plan {
    uint64_t workspace_size = 0;
    std::vector<void*> inputs;  // one entry per tensor argument of the signature, absent ones included
    std::vector<void*> outputs;
    // Does the work. Everything it needs is captured by value; it allocates nothing and throws OperatorError only for
    // what cannot be known in phase one. Empty: nothing to do.
    std::function<void(const Launch&)> run;
};

// Phase one of operator `name` (a string literal, "aclnnFlashAttentionScore"). Sets *workspaceSize = 0 and *executor =
// nullptr, calls `plan`, and creates the executor. `plan` checks all pointers including executor and workspaceSize, in
// the order in which the operator reports; exceptions become codes and texts "<name>: <what>". `describe` gives the
// arguments as one line for the debug log. Returns the status; never throws.
OPBASE_API aclnnStatus plan_operator(const char* name, uint64_t* workspace_size, aclOpExecutor** executor,
                                     FunctionRef<Plan()> plan, FunctionRef<std::string()> describe) noexcept;

// Phase two of operator `name`: checks executor and workspace (a used-up executor 561000, another operator's 161002, a
// missing workspace 161001), submits the run to the stream, and frees the executor unless it is repeatable. Returns the
// status; never throws.
OPBASE_API aclnnStatus run_operator(const char* name, void* workspace, uint64_t workspace_size, aclOpExecutor* executor,
                                    aclrtStream stream) noexcept;

}  // namespace opbase
