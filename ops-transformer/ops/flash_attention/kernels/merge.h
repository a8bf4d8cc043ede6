// Softmax over some keys and softmax over others, made into one: the online softmax as a step of its own.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/isa.h"

namespace flash_attention::FUSION_ISA {

// A query row over some keys: the largest score (-infinity when there is none), and the sum of the weights
// exp2((score - max) * exponent_scale). The sum is 0 exactly when there is no weight above 0.
struct SoftmaxPart {
    float max, sum;
};

// What both parts are together, and by what the outputs of each, sums of weights times values, enter.
struct MergedParts {
    SoftmaxPart both;
    float first_factor, second_factor;
};

// exponent_scale is positive. A part without weights leaves the other as it is, bit by bit. NaN and infinite maxima
// give a NaN sum, as they do within one softmax, and a NaN maximum of either part stays one.
inline MergedParts merge_parts(const SoftmaxPart& first, const SoftmaxPart& second, float exponent_scale) {
    MergedParts merged;
    merged.both.max = std::isnan(second.max) ? second.max : std::max(first.max, second.max);
    const auto factor_of = [&](const SoftmaxPart& part) {
        return part.sum == 0.0F ? 0.0F : std::exp2((part.max - merged.both.max) * exponent_scale);
    };
    merged.first_factor = factor_of(first);
    merged.second_factor = factor_of(second);
    merged.both.sum = merged.first_factor * first.sum + merged.second_factor * second.sum;
    return merged;
}

// first = first_factor * first + second_factor * second over whole vectors. A factor of 0 still lets NaN through: a
// value that is seen counts even where its weight is 0.
template <class V>
void merge_outputs(const MergedParts& merged, float* first, const float* second, int64_t count) {
    const auto first_factor = V::set(merged.first_factor), second_factor = V::set(merged.second_factor);
    for (int64_t c = 0; c < count; c += V::lanes)
        V::store(first + c,
                 V::multiply_add(second_factor, V::load(second + c), V::mul(first_factor, V::load(first + c))));
}

}  // namespace flash_attention::FUSION_ISA
