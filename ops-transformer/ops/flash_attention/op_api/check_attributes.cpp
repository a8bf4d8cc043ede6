// Scalars, and the small tensors that modify the softmax: dropout mask, sink and its gradient.
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

// Forward has no dropout without a mask, and backward refuses to guess which one forward had. The operators for all
// layouts make the mask themselves.
void check_missing_drop_mask(const ScoreRequest& request, const ScoreSizes& sizes, const SequenceLengths& lengths) {
    if (static_cast<float>(request.keep_prob) == 1.0F) return;
    if (makes_drop_mask(request)) {
        if (pair_count(sizes, lengths) == INT64_MAX) {
            throw ParameterError(
                fmt::format("keepProb {} needs a random bit for each pair, and the pairs of query "
                            "shape {} and {} shape {} cannot be counted",
                            request.keep_prob, opbase::to_string(request.query->shape), request.names.key,
                            opbase::to_string(request.key->shape)));
        }
        return;
    }
    if (request.backward) {
        throw ParameterError(fmt::format("dropMaskOptional cannot be nullptr when keepProb is {}", request.keep_prob));
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
    // The bound of the workspace is for calls without dropout; forward does not even look at these two.
    if (request.max_workspace) {
        if (opbase::is_absent(request.drop_mask)) return;
        throw ParameterError("dropMaskOptional must be nullptr for the bound of the workspace");
    }
    if (opbase::is_absent(request.drop_mask)) {
        check_missing_drop_mask(request, sizes, lengths);
    } else {
        check_drop_mask(request, sizes, lengths);
    }
}

void check_head_vector(const NamedTensor& argument, int64_t heads) {
    const aclTensor& tensor = *argument.tensor;
    if (tensor.dtype != ACL_FLOAT || tensor.shape != opbase::Shape{heads}) {
        throw ParameterError(fmt::format("{} must be FLOAT with shape [{}]: got {} {}", argument.name, heads,
                                         opbase::dtype_name(tensor.dtype), opbase::to_string(tensor.shape)));
    }
    require_plain_format(argument);
}

}  // namespace flash_attention
