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

    // Calls visit(position of the first element) for every row along the last dimension, in row-major order.
    template <class Visit>
    void for_each_row(Visit visit) const;

    // Calls visit(position) for every element, in row-major order of the indices.
    template <class Visit>
    void for_each_position(Visit visit) const {
        for_each_row([&](int64_t position) {
            for (int64_t i = 0; i < shape.back(); i++) visit(position + i * strides.back());
        });
    }

    // The same as a list.
    std::vector<int64_t> positions() const;
};

StridedView make_view(View kind, const std::vector<int64_t>& shape);

template <class Visit>
void StridedView::for_each_row(Visit visit) const {
    int64_t rows = 1;
    for (size_t k = 0; k + 1 < shape.size(); k++) rows *= shape[k];
    std::vector<int64_t> index(shape.size(), 0);
    int64_t position = offset;
    for (int64_t row = 0; row < rows; row++) {
        visit(position);
        // Steps to the next row; a dimension that is through goes back to its start.
        for (size_t k = shape.size() - 1; k-- > 0;) {
            position += strides[k];
            if (++index[k] < shape[k]) break;
            position -= strides[k] * shape[k];
            index[k] = 0;
        }
    }
}

}  // namespace flash_attention::testing
