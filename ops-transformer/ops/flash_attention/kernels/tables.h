// The tables that this build holds, one per instruction set; kernels_<isa>.cpp defines them.
#pragma once

#include "kernels/dispatch.h"

namespace flash_attention {

namespace portable {
extern const Kernels kTable;
}

}  // namespace flash_attention
