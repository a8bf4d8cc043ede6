// The arguments of one call, whatever version of the operator it came through.
#pragma once

#include <cstdint>

#include "acl/acl_base.h"
#include "aclnn/acl_meta.h"

namespace dropout_gen_mask {

struct MaskRequest {
    const char* name = nullptr;  // of the operator: "aclnnDropoutGenMask"
    const aclIntArray* shape = nullptr;
    double prob = 0.0;
    int64_t seed = 0;
    int64_t offset = 0;
    bool from_tensors = false;  // V2Tensor: the seed is in seed_tensor, and what is in offset_tensor adds to the offset
    const aclTensor* seed_tensor = nullptr;
    const aclTensor* offset_tensor = nullptr;
    aclDataType prob_dtype = ACL_FLOAT;
    aclTensor* out = nullptr;
    uint64_t* workspace_size = nullptr;
    aclOpExecutor** executor = nullptr;
};

// Phase one. Never throws.
aclnnStatus plan_mask(const MaskRequest& request) noexcept;

}  // namespace dropout_gen_mask
