// AVX-512; bf16 is widened.
#define FUSION_ISA avx512
#include "kernels/table.h"
#include "kernels/vec_avx512.h"

namespace flash_attention::avx512 {

extern const Kernels kTable;
const Kernels kTable = make_table<F32, F16, Bf16>("avx512", InstructionSet::kAvx512);

}  // namespace flash_attention::avx512
