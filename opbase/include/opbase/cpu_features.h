// Instruction sets that both the processor and the operating system offer (AVX state must be saved on a context
// switch).
#pragma once

#include <string>

#include "opbase/api.h"

namespace opbase {

struct CpuFeatures {
    bool avx2 = false;         // with FMA and F16C
    bool avx512 = false;       // F, BW, CD, DQ, VL
    bool avx512_bf16 = false;  // with avx512
    std::string model;         // "AMD EPYC ...", empty when unknown
};

OPBASE_API const CpuFeatures& cpu_features();

}  // namespace opbase
