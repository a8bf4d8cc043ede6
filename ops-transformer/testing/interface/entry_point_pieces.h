// How the signatures of phase one are put together.
#pragma once

#include <tuple>

#include "entry_points.h"

namespace flash_attention::testing {

// Every signature is a row of the same pieces; the compiler checks the row against the prototype.
template <class Function, class... Pieces>
aclnnStatus call(Function function, const Pieces&... pieces) {
    return std::apply(function, std::tuple_cat(pieces...));
}

// phase_one of the backward versions.
aclnnStatus grad_phase_one(Version version, const ScoreArguments& arguments);

}  // namespace flash_attention::testing
