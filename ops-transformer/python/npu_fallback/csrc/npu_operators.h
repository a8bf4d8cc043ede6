// Operators of torch_npu's own namespace that common models call beside attention, as plain compositions.
#pragma once

#include <torch/library.h>

namespace npu_fallback {

/// `kernels` registers for npu tensors, `autograd` for npu tensors that are differentiated; both in namespace npu.
/// Normalisations, rotary embeddings and activations keep the derivatives that torch_npu registers for them, which call
/// the backward operators here.
void register_npu_operators(torch::Library& kernels, torch::Library& autograd);

}  // namespace npu_fallback
