// How fast a core can multiply and add at most, measured by loops that touch nothing but registers; and how fast it
// reads and writes memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "testing/element.h"

namespace fusion_bench {

// Gives the number of floating-point operations that it did.
using PeakLoop = double (*)(int64_t rounds);

// One a file, compiled for its instruction set; only what the processor has may be called.
double multiply_add_portable(int64_t rounds);
double multiply_add_avx2(int64_t rounds);
double multiply_add_avx512(int64_t rounds);
double dot_product_avx512_bf16(int64_t rounds);

// The limit of the kernels of `table` (a value of ASCEND_CPU_ISA) for an element type: 16-bit types compute in fp32,
// but bf16 with dot products where the table has them. Where kernels of a larger instruction set are emulated, the
// loop is the processor's own best one.
PeakLoop peak_loop(std::string_view table, flash_attention::testing::DType dtype);

// Operations a second of one thread, from about that many operations; by default some milliseconds.
double measure_peak(PeakLoop loop, double flops = 3e8);

// out = a + b, for what reads two arrays and writes a third.
void add_arrays(const float* a, const float* b, float* out, size_t count);

// Seconds to read `bytes` bytes and do nothing with them but add them up.
double measure_reading(const void* data, size_t bytes);

}  // namespace fusion_bench
