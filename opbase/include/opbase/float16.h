// The conversions of ascendcl/float16.h under this library's names.
#pragma once

#include "ascendcl/float16.h"

namespace opbase {

using ascendcl::bf16_to_float;
using ascendcl::float_to_bf16;
using ascendcl::float_to_fp16;
using ascendcl::fp16_to_float;

}  // namespace opbase
