// Tests of situations that users of attention libraries reported elsewhere. README.md lists them by their ids.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "testing/backward_judge.h"
#include "testing/judge.h"
#include "testing/reduced.h"

namespace flash_attention::testing {

// A reported situation as calls in the words of testing/case.h.
struct Reported {
    std::string id;
    std::vector<std::string> calls;
};
std::ostream& operator<<(std::ostream& stream, const Reported& reported);

// Names of tests take no dashes: ASC_07.
std::string test_name(const ::testing::TestParamInfo<Reported>& info);

Call call_of(const std::string& text);

// Runs a call that must succeed and keep all promises.
Outputs outputs_of(const Call& call, const RunOptions& options = {});

// The same, and compares with the reference. For calls that were changed by hand; others are check_case's.
Outputs expect_agrees(const Call& call, const RunOptions& options = {});

// The same of backward.
Gradients gradients_of(const BackwardCall& call);
Gradients expect_agrees(const BackwardCall& call);

// Gives the call an explicit mask, [Sq, Skv] or with four dimensions, that hides where the predicate says so. For the
// shorter shapes b and n are 0.
using Hides = std::function<bool(int64_t b, int64_t n, int64_t i, int64_t j)>;
void set_mask(Call& call, std::vector<int64_t> shape, const Hides& hides);

// Gives the call a bias of the reference's shape [B, N, Sq, Skv], or another with four dimensions, in its element type.
using BiasValue = std::function<double(int64_t b, int64_t n, int64_t i, int64_t j)>;
void set_bias(Call& call, int64_t pse_type, std::vector<int64_t> shape, const BiasValue& value);

// Fills a tensor of the call by the index of the element, rounded to the call's element type.
void set_values(const Call& call, reference::Tensor& tensor, const std::function<double(int64_t)>& value);

// For each row, in the order of the statistics, how many keys it sees: with queries of zero all logits are equal, and
// softmaxSum counts. Rows without any give 0.
std::vector<int64_t> visible_counts(Call call);

// The results of row number `row` in the order of the statistics: output, maximum and sum.
std::vector<uint32_t> row_bits(const Call& call, const Outputs& outputs, const reference::ScoreResult& expected,
                               size_t row);

// Each output element as a number.
std::vector<double> numbers(const Call& call, const Outputs& outputs);

// Each element of a gradient as a number.
std::vector<double> numbers(const BackwardCall& call, const Gradients& gradients, Argument gradient);

// Puts NaN into one key and value position after another (about `probes` of them) and compares with the call as it is:
// rows that do not see the key keep their bits, all others have no finite result left.
void expect_only_visible_keys_count(const Call& call, int64_t probes);

// A few rows of a BNSD call of one batch entry with a compressed mask, as a call with an explicit mask that the
// reference can afford, and what the long call gave for them.
Call sampled(const Call& call, const std::vector<int64_t>& rows);
Outputs sampled(const Call& call, const Outputs& outputs, const std::vector<int64_t>& rows);

}  // namespace flash_attention::testing
