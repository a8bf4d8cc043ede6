// The table of one instruction set. The file that includes this is compiled for it.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/forward.h"

namespace flash_attention::FUSION_ISA {

template <class V>
int64_t scratch_bytes(const ForwardShape& shape) {
    return Scratch<V>(nullptr, shape).bytes();
}

template <class V>
constexpr ForwardKernels forward_kernels() {
    return {kQueryBlock<V>, forward<V>, scratch_bytes<V>};
}

// Types: the elements of ElementType, in its order.
template <class... Types>
constexpr Kernels make_table(const char* name, InstructionSet needs) {
    return {name, needs, {forward_kernels<Types>()...}};
}

}  // namespace flash_attention::FUSION_ISA
