#pragma once

#include "opbase/tensor.h"

namespace arguments {

// Whether two indices of a view lead to the same element. Such a view cannot be an output. Exact, except that views
// which are too tangled to be checked with little memory count as overlapping; slices and permutations of a tensor
// never do.
bool elements_overlap(const opbase::Tensor& tensor);

}  // namespace arguments
