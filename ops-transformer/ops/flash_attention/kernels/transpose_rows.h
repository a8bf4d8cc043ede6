// Rows as right operand of a product over features.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/dispatch.h"
#include "kernels/key_block.h"
#include "kernels/softmax.h"

namespace flash_attention::FUSION_ISA {

// panel[c][i] = the c-th element of row i times a sign, for as many rows as a strip has; `stride` lies between
// elements. Rows past the last repeat it: numbers that nobody reads.
template <class V>
void transpose_rows(const Rows& rows, int64_t count, int64_t dim, float sign, typename V::element* panel,
                    int64_t stride) {
    const auto* data = static_cast<const typename V::value*>(rows.data);
    const int64_t elements = feature_elements<V>(dim);
    for (int64_t i = 0; i < Softmax<V>::kColumns; i += V::lanes) {
        for (int64_t c = 0; c < elements; c += V::lanes) {
            typename V::vec x[V::lanes];
#pragma GCC unroll 16
            for (int r = 0; r < V::lanes; r++)
                x[r] = V::load_features(data + std::min(i + r, count - 1) * rows.stride + c * V::depth,
                                        dim - c * V::depth);
            V::transpose(x);
            for (int64_t j = 0; j < std::min<int64_t>(V::lanes, elements - c); j++)
                V::store_elements(panel + (c + j) * stride + i, V::multiply_elements(x[j], sign));
        }
    }
}

}  // namespace flash_attention::FUSION_ISA
