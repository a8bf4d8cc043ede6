// A problem string as the engine plans it, without operands: lengths, heads, features and bands.
#pragma once

#include "engine/problem.h"
#include "testing/case.h"

namespace fusion_bench {

// Offsets and strides are left out, but for what tells one gradient of a bias from another.
flash_attention::Problem problem_of(const flash_attention::testing::Case& c);

}  // namespace fusion_bench
