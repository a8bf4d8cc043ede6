// The stream that an operator on given tensors runs on.
#pragma once

#include <c10/core/Device.h>

#include "acl/acl_base.h"

namespace ops_transformer {

// npu: the current stream of torch_npu, behind everything that was queued for it. cpu: one of the calling thread.
aclrtStream stream_of(c10::Device device);

}  // namespace ops_transformer
