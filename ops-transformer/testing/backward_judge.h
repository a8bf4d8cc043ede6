// Compares gradients with the reference, within bounds that have a reason each (backward_judge.cpp).
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "testing/backward_runner.h"
#include "testing/judge.h"

namespace flash_attention::testing {

// How far element `at` of a gradient may be away from the reference. `result` is the type of the gradient, `dtype` that
// of the call.
double gradient_bound(const reference::ScoreGradResult& expected, const reference::Gradient& gradient, size_t at,
                      DType dtype, DType result);

// The reference's gradient of an argument; not given() if the call has none.
const reference::Gradient& gradient_of(const reference::ScoreGradResult& r, Argument gradient);

// Collects the worst errors of many cases, for each element type and gradient.
class GradientAccuracy {
  public:
    void note(const Case& c, Argument gradient, double error, double bound);
    const Worst& worst(DType dtype, Argument gradient) const;
    std::string table() const;

  private:
    std::map<std::pair<DType, Argument>, Worst> worst_;
};

// The first few differences as sentences; empty if the gradients are right. Every element of every gradient that the
// case asks for is looked at.
std::vector<std::string> judge(const BackwardCall& call, const reference::ScoreGradResult& expected,
                               const Gradients& gradients, GradientAccuracy* accuracy = nullptr);

// As check_case and examine_case for forward.
std::vector<std::string> check_backward_case(const Case& c, GradientAccuracy* accuracy = nullptr,
                                             const BackwardOperator& computes = library());
std::vector<std::string> examine_backward_case(const Case& c, GradientAccuracy* accuracy = nullptr,
                                               const BackwardOperator& computes = library());

}  // namespace flash_attention::testing
