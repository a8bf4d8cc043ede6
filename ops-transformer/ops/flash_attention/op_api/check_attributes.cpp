// Scalars and the arguments that only matter with dropout.
#include <fmt/format.h>

#include <cmath>

#include "ascendcl/log.h"
#include "op_api/checks.h"
#include "opbase/error.h"
#include "opbase/tensor.h"

namespace flash_attention {

using opbase::ParameterError;

// The operator computes with float, so scale and keep probability are judged as float.
void check_attributes(const ScoreRequest& request) {
    if (!std::isfinite(static_cast<float>(request.scale))) {
        throw ParameterError(fmt::format("scaleValue must be a finite float: got {}", request.scale));
    }
    const float keep_prob = static_cast<float>(request.keep_prob);
    if (!(keep_prob > 0.0F && keep_prob <= 1.0F)) {
        throw ParameterError(fmt::format("keepProb must be in (0, 1]: got {}", request.keep_prob));
    }
    if (!opbase::is_absent(request.drop_mask)) {
        throw ParameterError(
            fmt::format("dropMaskOptional is not supported yet: got a tensor of shape {}, expected nullptr",
                        opbase::to_string(request.drop_mask->shape)));
    }
    if (keep_prob < 1.0F) {
        ascendcl::warn_once("keepProb", fmt::format("keepProb {} has no effect because dropMaskOptional is nullptr",
                                                    request.keep_prob));
    }
}

}  // namespace flash_attention
