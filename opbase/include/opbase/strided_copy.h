// Copy between two strided views of the same shape: gathers views into packed memory and scatters results back.
#pragma once

#include <cstdint>
#include <span>

#include "opbase/api.h"

namespace opbase {

// Copies every element of `shape` from src to dst; strides in elements, any value in src (0 repeats an element),
// distinct addresses in dst. Neighbouring dimensions that lie one after another are copied as one. The regions must not
// overlap. Allocates nothing; at most 16 dimensions.
OPBASE_API void strided_copy(void* dst, std::span<const int64_t> dst_strides, const void* src,
                             std::span<const int64_t> src_strides, std::span<const int64_t> shape,
                             int64_t element_size) noexcept;

}  // namespace opbase
