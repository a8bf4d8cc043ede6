#pragma once

#include <string>

#include "op_api/score_request.h"

namespace flash_attention {

// All arguments of a call on one line for the debug log: tensors with dtype and shape (and strides where they are not
// the contiguous ones), lists shortened, arguments that only one version has where they are not the default. Any
// pointer may be null.
std::string describe(const ScoreRequest& request);

}  // namespace flash_attention
