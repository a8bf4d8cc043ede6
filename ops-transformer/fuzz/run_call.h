// Runs a call through the C interface and checks what the interface promises whatever the arguments are.
#pragma once

#include "recipe.h"

namespace flash_attention::fuzzing {

// Prints the broken promise and aborts.
void run_call(const FuzzCall& call);

}  // namespace flash_attention::fuzzing
