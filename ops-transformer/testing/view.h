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

    // Calls visit(position) for every element, in row-major order of the indices.
    template <class Visit>
    void for_each_position(Visit visit) const;

    // The same as a list.
    std::vector<int64_t> positions() const;
};

StridedView make_view(View kind, const std::vector<int64_t>& shape);

template <class Visit>
void StridedView::for_each_position(Visit visit) const {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    std::vector<int64_t> index(shape.size(), 0);
    int64_t position = offset;
    for (int64_t i = 0; i < count; i++) {
        visit(position);
        // Steps to the next index; a dimension that is through goes back to its start.
        for (size_t k = shape.size(); k-- > 0;) {
            position += strides[k];
            if (++index[k] < shape[k]) break;
            position -= strides[k] * shape[k];
            index[k] = 0;
        }
    }
}

}  // namespace flash_attention::testing
