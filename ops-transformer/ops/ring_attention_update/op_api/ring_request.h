// The arguments of one call, whatever version of the operator it came through.
#pragma once

#include <cstdint>

#include "acl/acl_base.h"
#include "aclnn/acl_meta.h"
#include "ring_attention_update/engine/ring.h"

namespace ring_attention_update {

struct RingRequest {
    const char* name = nullptr;                    // of the operator: "aclnnRingAttentionUpdate"
    const aclTensor* tensors[kOperandCount] = {};  // by Operand; kEnds: actualSeqQlenOptional
    const char* input_layout = nullptr;            // nullptr: "SBH"
    const char* input_softmax_layout = nullptr;    // nullptr: ""
    uint64_t* workspace_size = nullptr;
    aclOpExecutor** executor = nullptr;
};

// The names of the C signature, by Operand.
inline constexpr const char* kNames[kOperandCount] = {
    "prevAttnOut",   "prevSoftmaxMax",        "prevSoftmaxSum", "curAttnOut",    "curSoftmaxMax",
    "curSoftmaxSum", "actualSeqQlenOptional", "attnOutOut",     "softmaxMaxOut", "softmaxSumOut"};

// All checks of a call, in the order in which the operator reports, and what they find out: all but the strides. Each
// throws opbase::OperatorError and changes nothing.
RingProblem check_ring(const RingRequest& request);

// Phase one. Never throws.
aclnnStatus plan_ring_update(const RingRequest& request) noexcept;

}  // namespace ring_attention_update
