// Where the elements of an operand are, for the reference.
#pragma once

#include "reference/score.h"

namespace flash_attention::reference {

// A tensor as batch entries x positions x heads x features; features lie side by side in every layout.
struct Axes {
    int64_t batches = 0, positions = 0, heads = 0, features = 0;
    int64_t batch_stride = 0, position_stride = 0, head_stride = 0;

    int64_t at(int64_t batch, int64_t position, int64_t head) const {
        return batch * batch_stride + position * position_stride + head * head_stride;
    }
};

// `heads` is needed where the layout has only H = heads x features.
Axes axes_of(const std::string& layout, const std::vector<int64_t>& shape, int64_t heads);

}  // namespace flash_attention::reference
