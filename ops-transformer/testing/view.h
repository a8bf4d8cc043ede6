// Strided views of a storage, for building operands and for reading results back.
#pragma once

#include <cstdint>
#include <vector>

#include "testing/case.h"

namespace flash_attention::testing {

struct StridedView {
    std::vector<int64_t> shape, strides;
    int64_t offset = 0;
    int64_t storage = 0;  // elements from the start of the storage to behind the last one that the view could need

    // Where the elements lie, in row-major order of the indices.
    std::vector<int64_t> positions() const;
};

StridedView make_view(View kind, const std::vector<int64_t>& shape);

}  // namespace flash_attention::testing
