// Operators of PyTorch that neither have a CPU kernel nor may use theirs: each is a few other operators on npu tensors.
#pragma once

#include <torch/library.h>

#include <string_view>

namespace npu_fallback {

/// Whether `name` ("operator.overload", without namespace) gets its kernel from register_compositions.
bool is_composition(std::string_view name);

/// `kernels` registers for npu tensors, `autograd` for npu tensors that are differentiated; both in namespace aten.
void register_compositions(torch::Library& kernels, torch::Library& autograd);

}  // namespace npu_fallback
