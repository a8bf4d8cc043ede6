// The namespace of the instruction set that a kernel file is compiled for: FUSION_ISA comes from the build (avx512,
// avx2, portable). All code of the kernels lives in it, helpers and templates too: an inline function that two
// instruction sets share would be kept once by the linker, for both of them.
#pragma once

#ifndef FUSION_ISA
#define FUSION_ISA portable
#endif

// Kernels are unrolled into registers, so every helper must really be inlined; an attribute cannot be named otherwise.
#define KERNEL_INLINE [[gnu::always_inline]] static inline
