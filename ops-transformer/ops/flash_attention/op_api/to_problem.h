// The last step of phase one: a checked request becomes the engine's problem.
#pragma once

#include "engine/problem.h"
#include "op_api/checks.h"
#include "op_api/operands.h"
#include "op_api/score_request.h"

namespace flash_attention {

// Pre: the request has passed all checks. Adds the operands that the run needs; that can still refuse views that leave
// their storage and missing data. A backward problem without sequences has nothing to compute: all outputs are zeros,
// which the operands write.
Problem to_problem(const ScoreRequest& request, ScoreForm form, Operands& operands);

}  // namespace flash_attention
