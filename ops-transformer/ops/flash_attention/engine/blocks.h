// From a Problem and addresses to the blocks that kernels see.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/problem.h"
#include "kernels/dispatch.h"

namespace flash_attention {

// A pointer into an operand, or nullptr when the problem does not use it.
template <class T>
T* element(void* base, int64_t offset, int64_t bytes) {
    return base == nullptr ? nullptr : reinterpret_cast<T*>(static_cast<std::byte*>(base) + offset * bytes);
}

// Rows of `head` from `first_row` of the sequence whose row 0 of head 0 lies at `origin`.
Rows rows_of(void* base, int64_t origin, const RowStrides& strides, int64_t head, int64_t first_row, int64_t bytes);

// Rows [row_begin, row_end) of a query head of a sequence.
ScoreBlock score_block(const Problem& problem, const Sequence& s, int64_t head, int64_t row_begin, int64_t row_end,
                       const Addresses& at);

BackwardBlock backward_block(const Problem& problem, const Sequence& s, int64_t head, KeyRange rows,
                             const Addresses& at);

inline FeatureShape shape_of(const Problem& problem) {
    return {{problem.head_dim, problem.rope_dim}, problem.value_dim};
}

}  // namespace flash_attention
