// From a case to the operator's arguments with their data.
#pragma once

#include "reference/score.h"
#include "testing/case.h"

namespace flash_attention::testing {

// What the operator and the reference both get. `arguments` holds the inputs after rounding to their element types, so
// that an error is the operator's and not the input's. Compressed masks have their content.
struct Call {
    Case description;
    reference::ScoreArguments arguments;
};

// The description with what the arguments use, which may have been changed since the call was made: bias type, lists,
// rope parts, sink and layout of the statistics, which decide about the versions.
Case used_arguments(Case description, const reference::ScoreArguments& arguments);

// Same case, same call, on every machine.
Call make_call(const Case& c);

// Shapes of the operator's tensors, by layout.
std::vector<int64_t> query_shape(const Case& c);
std::vector<int64_t> key_shape(const Case& c, int64_t features);
std::vector<int64_t> out_shape(const Case& c);
std::vector<int64_t> statistics_shape(const Case& c);  // with the trailing 8
std::vector<int64_t> bias_shape(const Case& c);
std::vector<int64_t> drop_mask_shape(const Case& c);

// Element type of realShiftOptional: slopes are always fp32.
DType bias_type(const Case& c);

int64_t element_count(const std::vector<int64_t>& shape);

// Pairs of a query row of some head and a key of its sequence: the bits that a drop mask needs.
int64_t score_count(const Case& c);

}  // namespace flash_attention::testing
