// The useful work of a call, from its description alone.
#pragma once

#include "reference/score.h"
#include "testing/case.h"

namespace fusion_bench {

// The call's sequences and what decides which keys a row sees; no data, and an explicit mask hides nothing.
flash_attention::reference::ScoreArguments visibility_of(const flash_attention::testing::Case& c);

// Pairs of a query row of one head and a key that mode, window, prefix and sequences let it see, of all sequences. The
// content of an explicit mask does not count: it hides pairs, but whoever computes them has to look first.
int64_t shown_pairs(const flash_attention::testing::Case& c);

// A multiplication and an addition for every feature, head and shown pair of every product. Forward has two: scores,
// with the features of the query and its rope part, and the output, with those of the value. Backward has five: scores
// again, dQ and dK with the former, dV and the gradient of the weights with the latter.
double useful_flops(const flash_attention::testing::Case& c);

}  // namespace fusion_bench
