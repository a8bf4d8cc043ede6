// CPU kernels without boxed arguments, for operators that are called so often that boxing their lists is felt.
#pragma once

#include <torch/library.h>

#include <string_view>

namespace npu_fallback {

/// Whether the aten operator, with its overload, is registered here.
bool is_unboxed(std::string_view name);

/// Registers them for the npu's backend.
void register_unboxed(torch::Library& kernels);

}  // namespace npu_fallback
