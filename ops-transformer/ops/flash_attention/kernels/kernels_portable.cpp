// The table that runs everywhere: vector extensions for the compiler's baseline instruction set.
#define FUSION_ISA portable
#include "kernels/table.h"
#include "kernels/vec_portable.h"

namespace flash_attention::portable {

extern const Kernels kTable;
const Kernels kTable = make_table<F32, F16, Bf16>("portable", InstructionSet::kNone);

}  // namespace flash_attention::portable
