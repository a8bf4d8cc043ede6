// Scalars, and the small tensors that modify the softmax: dropout mask and sink.
#include <fmt/format.h>

#include <cmath>

#include "ascendcl/log.h"
#include "op_api/checks.h"
#include "opbase/dtype.h"
#include "opbase/error.h"
#include "opbase/tensor.h"

namespace flash_attention {
namespace {

using opbase::ParameterError;

void check_drop_mask(const ScoreRequest& request, const ScoreSizes& sizes, const SequenceLengths& lengths) {
    const aclTensor& mask = *request.drop_mask;
    if (mask.dtype != ACL_UINT8) {
        throw ParameterError(
            fmt::format("dropMaskOptional dtype {}: expected UINT8 (packed bits)", opbase::dtype_name(mask.dtype)));
    }
    require_plain_format({"dropMaskOptional", &mask});
    const int64_t pairs = pair_count(sizes, lengths);
    const int64_t bytes = pairs / 8 + (pairs % 8 != 0);
    if (mask.count() < bytes) {
        throw ParameterError(fmt::format("dropMaskOptional has {} bytes, needs at least {} for {} elements",
                                         mask.count(), bytes, pairs));
    }
}

// Without a mask there is no dropout, except in the one version that would make its mask itself.
void check_missing_drop_mask(const ScoreRequest& request) {
    if (static_cast<float>(request.keep_prob) == 1.0F) return;
    if (request.any_layout) {
        throw ParameterError(fmt::format(
            "dropMaskOptional cannot be nullptr when keepProb is {}: a mask made from seed and offset is not "
            "supported yet",
            request.keep_prob));
    }
    ascendcl::warn_once(
        "keepProb", fmt::format("keepProb {} has no effect because dropMaskOptional is nullptr", request.keep_prob));
}

}  // namespace

// The operator computes with float, so scale and keep probability are judged as float.
void check_attributes(const ScoreRequest& request, const ScoreSizes& sizes, const SequenceLengths& lengths) {
    if (!std::isfinite(static_cast<float>(request.scale))) {
        throw ParameterError(fmt::format("scaleValue must be a finite float: got {}", request.scale));
    }
    const float keep_prob = static_cast<float>(request.keep_prob);
    if (!(keep_prob > 0.0F && keep_prob <= 1.0F)) {
        throw ParameterError(fmt::format("keepProb must be in (0, 1]: got {}", request.keep_prob));
    }
    if (opbase::is_absent(request.drop_mask)) {
        check_missing_drop_mask(request);
    } else {
        check_drop_mask(request, sizes, lengths);
    }
}

void check_sink(const ScoreRequest& request, int64_t heads) {
    if (opbase::is_absent(request.sink)) return;
    const aclTensor& sink = *request.sink;
    if (sink.dtype != ACL_FLOAT || sink.shape != opbase::Shape{heads}) {
        throw ParameterError(fmt::format("sinkOptional must be FLOAT with shape [{}]: got {} {}", heads,
                                         opbase::dtype_name(sink.dtype), opbase::to_string(sink.shape)));
    }
    require_plain_format({"sinkOptional", &sink});
}

}  // namespace flash_attention
