// From a case to the arguments of backward with their data.
#pragma once

#include "reference/score_grad.h"
#include "testing/call.h"

namespace flash_attention::testing {

// What backward and its reference both get: values after rounding to their element types.
struct BackwardCall {
    Case description;
    reference::ScoreGradArguments arguments;

    // The forward call whose gradients are asked for.
    Call forward() const { return {description, arguments.forward}; }
};

// Same case, same call, on every machine. With given=operator output and statistics are those of the forward operator,
// else those of the reference, rounded.
BackwardCall make_backward_call(const Case& c);

// The same for a forward call that has been changed since it was made, or is not made of a case.
BackwardCall make_backward_call(const Call& forward);

// Computes output and statistics again, after inputs were changed. dy stays.
void refresh_results(BackwardCall& call);

// Element type of a gradient: dsink is always fp32.
DType gradient_type(const Case& c, Argument gradient);

}  // namespace flash_attention::testing
