// AVX-512 with the dot product of AVX512_BF16.
#define FUSION_ISA avx512_bf16
#define FUSION_BF16_PAIRS
#include "kernels/table.h"
#include "kernels/vec_avx512.h"

namespace flash_attention::avx512_bf16 {

extern const Kernels kTable;
const Kernels kTable = make_table<F32, F16, Bf16>("avx512_bf16", InstructionSet::kAvx512Bf16);

}  // namespace flash_attention::avx512_bf16
