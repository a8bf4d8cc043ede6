// The table of one instruction set. The file that includes this is compiled for it.
#pragma once

#include <algorithm>

#include "dropout_gen_mask/generator/mask_bits.h"
#include "kernels/backward.h"
#include "kernels/bias_gradient.h"
#include "kernels/decode.h"
#include "kernels/dispatch.h"
#include "kernels/forward.h"
#include "ring_attention_update/kernels/merge_results.h"

namespace flash_attention::FUSION_ISA {

template <class V>
int64_t scratch_bytes(const FeatureShape& shape) {
    return std::max(Scratch<V>(nullptr, shape).bytes(), DecodeScratch(nullptr, shape).bytes);
}

template <class V>
constexpr ForwardKernels forward_kernels() {
    return {kQueryBlock<V>, forward<V>, scratch_bytes<V>, decode<V>, finish_decode<V>};
}

template <class V>
constexpr BackwardKernels backward_kernels() {
    return {kBackwardRows<V>,
            backward_scratch_bytes<V>,
            dq_floats<V>,
            begin_backward<V>,
            add_backward<V>,
            end_backward<V>,
            write_dq<V>,
            row_deltas<V>,
            {bias_scratch_bytes<V>, begin_bias<V>, add_bias_gradient<V>, end_bias<V>}};
}

// Types: the elements of ElementType, in its order.
template <class... Types>
constexpr Kernels make_table(const char* name, InstructionSet needs) {
    return {name,     needs, {forward_kernels<Types>()...}, {backward_kernels<Types>()...}, {merge_results<Types>...},
            fill_mask};
}

}  // namespace flash_attention::FUSION_ISA
