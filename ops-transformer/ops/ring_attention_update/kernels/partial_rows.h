// Rows of one head of two partial attention results, and of their merge: everything the ring kernel needs.
#pragma once

#include <cstdint>

namespace ring_attention_update {

// Of one partial result, or of the merged one. Features lie side by side; strides are in elements, between rows.
template <class Out, class Statistic>
struct ResultRows {
    Out* out = nullptr;  // fp32, fp16 or bf16
    Statistic* max = nullptr;
    Statistic* sum = nullptr;
    int64_t out_stride = 0, max_stride = 0, sum_stride = 0;
};
using PartialRows = ResultRows<const void, const float>;  // the first float of a row's statistics counts
using MergedRows = ResultRows<void, float>;               // a row's statistics are eight equal floats side by side

// `merged` may be the same memory as `previous`.
struct RowsToMerge {
    PartialRows previous, current;
    MergedRows merged;
    int64_t rows = 0, dim = 0;
};

using MergeRowsKernel = void (*)(const RowsToMerge& rows);

}  // namespace ring_attention_update
