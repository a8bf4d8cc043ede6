// The judge of the ring update: what it has to compute, in double precision and plain loops. It takes the operator's
// public arguments and includes nothing of the code that it judges.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ring_attention_update::reference {

// Row-major values, already widened from the operator's element type. Statistics have one value for each entry, without
// the trailing eight copies, in the order in which they lie in memory.
struct PartialResult {
    std::vector<double> out, max, sum;
};

struct RingArguments {
    std::string input_layout;          // "SBH" or "TND"
    std::string input_softmax_layout;  // "", "SBH" or "TND"
    std::vector<int64_t> out_shape;    // [S, B, N*D] or [T, N, D]
    int64_t heads = 1;
    std::vector<int64_t> actual_seq_qlen;  // TND: cumulative ends, with or without a leading 0
    PartialResult previous, current;
};

PartialResult merge(const RingArguments& arguments);

// One row: exact where a part does not count. Also for tests that merge in another order.
struct RowPart {
    std::vector<double> out;
    double max, sum;
};
RowPart merge_row(const RowPart& first, const RowPart& second);

}  // namespace ring_attention_update::reference
