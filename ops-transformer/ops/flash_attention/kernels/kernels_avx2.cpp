// AVX2 with FMA and F16C.
#define FUSION_ISA avx2
#include "kernels/table.h"
#include "kernels/vec_avx2.h"

namespace flash_attention::avx2 {

extern const Kernels kTable;
const Kernels kTable = make_table<F32, F16, Bf16>("avx2", InstructionSet::kAvx2);

}  // namespace flash_attention::avx2
