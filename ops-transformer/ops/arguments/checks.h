// Checks of tensor arguments that all operators share. Each throws opbase::ParameterError with the argument's name.
#pragma once

#include <cstdint>

#include "opbase/tensor.h"

namespace arguments {

// No process addresses more than 2^47 bytes. Sizes up to here can be added and compared without thinking of overflow.
inline constexpr int64_t kAddressSpace = int64_t{1} << 47;

void require_plain_format(const char* name, const opbase::Tensor& tensor);

// That the view of a tensor with elements lies inside of its storage and has a data address.
void check_view(const char* name, const opbase::Tensor& tensor);

// That also no two indices lead to the same element.
void check_output_view(const char* name, const opbase::Tensor& tensor);

bool last_axis_is_contiguous(const opbase::Tensor& tensor);

}  // namespace arguments
