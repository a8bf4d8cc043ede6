// Runs calls that are mostly wrong: a test case is a legal call with one or two things changed.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <ostream>
#include <string>
#include <vector>

#include "any_call.h"

namespace flash_attention::testing {

struct Outcome {
    aclnnStatus code = 0;  // of phase one, and if that is 0 of phase two
    std::string text;      // of aclGetRecentErrMsg after the last phase
    uint64_t workspace_size = 0;
    std::vector<float> max, sum, out;  // of forward: elements in row-major order
    std::vector<std::vector<float>>
        gradients;                  // likewise of backward, in the order of kGradients; absent ones are empty
    int64_t unwritten = 0;          // elements of outputs that the run left as they were
    bool outputs_untouched = true;  // including everything around the views
    bool executor_is_null = true;   // after phase one
};

// Runs both phases, or only the first.
Outcome run(const Call& call, bool only_phase_one = false);

// The call is refused: code, exact sentence, nothing written, no executor, workspace size 0.
void expect_refused(const Call& call, aclnnStatus code, const std::string& sentence);

// A kCounting call succeeds, and `visible` is the number of keys that (sequence, head, row) sees: 0 for a fully masked
// row and kNoKeys for a row of a sequence without keys.
inline constexpr int64_t kNoKeys = -1;
using VisibleKeys = std::function<int64_t(int64_t sequence, int64_t head, int64_t row)>;
void expect_counts(const Call& call, const std::vector<int64_t>& q_lengths, int64_t heads, const VisibleKeys& visible);

// The same through each version.
void expect_counts_in(const std::vector<Version>& versions, Call call, const std::vector<int64_t>& q_lengths,
                      const VisibleKeys& visible);

// Both calls succeed with the same bits in all outputs.
void expect_same_bits(const Call& a, const Call& b);

// One line of a table of mistakes.
struct Mistake {
    const char* id;  // entry of the list of known mistakes, or a short name
    void (*make)(Call&);
    std::string sentence;
    aclnnStatus code = 161002;
};
std::ostream& operator<<(std::ostream& stream, const Mistake& mistake);

// Applies each mistake to a fresh call of each version and expects the refusal; then the legal call itself must work
// again.
void expect_all_refused(const std::vector<Version>& versions, Call (*make_call)(),
                        std::initializer_list<Mistake> mistakes);

// `mistakes` in the order in which they are reported; a later one must not undo an earlier one. Starts with all of them
// in one call and mends one after the other.
void expect_order(Call (*legal)(), const std::vector<Mistake>& mistakes);

}  // namespace flash_attention::testing
