// Runs a backward call and watches the same promises as runner.h.
#pragma once

#include <array>
#include <functional>

#include "testing/backward_call.h"
#include "testing/call_memory.h"
#include "testing/runner.h"

namespace flash_attention::testing {

// Results as bits, in the order of kGradientArguments, row-major in the tensor's shape; empty where there is none.
using Gradients = std::array<std::vector<uint32_t>, kGradientCount>;

class PreparedBackward;

// What computes gradients: the library, or, where harness and judge are tested, something else.
struct BackwardOperator {
    std::function<aclnnStatus(PreparedBackward&)> phase_one, phase_two;
    bool allocates = false;  // in phase two, which the library promises not to do
};
// The functions of the library.
const BackwardOperator& library();

// One backward call with its buffers, phase by phase. Of the statistics only the first of each eight numbers is there,
// the others are NaN, since nothing may look at them.
class PreparedBackward {
  public:
    // `options` mean what they mean for forward, those of the layout of the statistics excepted.
    explicit PreparedBackward(const BackwardCall& call, RunOptions options = {},
                              const BackwardOperator& computes = library());

    aclnnStatus phase_one();
    void destroy_descriptions() { memory_.destroy_descriptions(); }
    aclnnStatus phase_two();

    Gradients gradients() const;
    std::vector<std::string> broken_promises() const;

    // For operators.
    const BackwardCall& call() const { return call_; }
    Version version() const { return version_; }
    ScoreArguments arguments();
    CallMemory& memory() { return memory_; }
    const aclTensor* tensor(Argument argument) const { return memory_.tensor(argument); }
    uint64_t workspace_size() const { return workspace_size_; }
    aclOpExecutor* executor() const { return executor_; }

  private:
    BackwardCall call_;
    RunOptions options_;
    BackwardOperator operator_;
    Version version_;
    CallMemory memory_;
    uint64_t workspace_size_ = 0;
    aclOpExecutor* executor_ = nullptr;
    uint64_t allocations_ = 0;
};

struct BackwardResult {
    aclnnStatus phase_one = 0, phase_two = 0;
    std::string error_text;  // of the phase that failed
    Gradients gradients;
    std::vector<std::string> broken_promises;
};

BackwardResult run(const BackwardCall& call, const RunOptions& options = {},
                   const BackwardOperator& computes = library());

}  // namespace flash_attention::testing
