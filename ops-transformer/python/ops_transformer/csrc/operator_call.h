// Both phases of an aclnn operator on tensors of PyTorch.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include "aclnn/aclnn_base.h"

namespace ops_transformer {

using PhaseOne = c10::function_ref<aclnnStatus(uint64_t* workspace_size, aclOpExecutor** executor)>;
using PhaseTwo = aclnnStatus (*)(void* workspace, uint64_t workspace_size, aclOpExecutor* executor,
                                 const aclrtStream stream);

// On the device of `tensor` and on its current stream. Raises ValueError with the operator's sentence for an argument
// that it refuses, RuntimeError for any other failure.
void run_operator(const at::Tensor& tensor, PhaseOne plan, PhaseTwo run);

}  // namespace ops_transformer
