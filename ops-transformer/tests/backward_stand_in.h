// An operator of backward that computes with the reference and rounds: what proves that harness and judge accept right
// results through the same buffers as those of the library, and find wrong ones.
#pragma once

#include "testing/backward_runner.h"

namespace flash_attention::testing {

// Changes gradients before they are rounded and written, the buffers after.
struct Damage {
    std::function<void(reference::ScoreGradArguments&)> arguments;
    std::function<void(reference::ScoreGradResult&)> results;
    std::function<void(CallMemory&)> memory;
};

BackwardOperator stand_in(const Damage& damage = {});

}  // namespace flash_attention::testing
