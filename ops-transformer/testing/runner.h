// Runs a call through the C ABI and watches what the interface promises besides the numbers: nothing is written outside
// of the outputs and the workspace, inputs stay as they are, phase two allocates nothing.
#pragma once

#include <string>
#include <vector>

#include "testing/call_memory.h"

namespace flash_attention::testing {

// Results as bits, so that they can be compared for equality, NaN included: row-major in the tensor's shape.
struct Outputs {
    std::vector<uint32_t> out;       // of the case's element type
    std::vector<uint32_t> max, sum;  // floats, each eight times
    bool operator==(const Outputs&) const = default;
};

struct RunOptions {
    WorkspaceFill workspace = WorkspaceFill::kOnes;
    bool count_allocations = true;  // false when other threads run at the same time
    int64_t inner_precise = 0;
    std::string layout{};                     // instead of the case's, for other spellings of the same one
    std::vector<int64_t> statistics_shape{};  // instead of [T, N, 8], for other shapes of as many elements
    bool empty_text = false;                  // an absent softmaxOutLayout is "" instead of nullptr
    bool max_workspace = false;               // phase one of VarLenScoreV5: its ...GetMaxWorkspaceSize
};

// One call with its buffers, phase by phase. Calls that no version can express are logic errors.
class PreparedCall {
  public:
    explicit PreparedCall(const Call& call, RunOptions options = {});

    aclnnStatus phase_one();
    // The caller may destroy all descriptions between the phases.
    void destroy_descriptions() { memory_.destroy_descriptions(); }
    aclnnStatus phase_two();

    Outputs outputs() const;
    // Sentences about broken promises of all phases so far.
    std::vector<std::string> broken_promises() const;

    Version version() const { return version_; }
    ScoreArguments arguments();  // of phase one, as the C interface gets them
    uint64_t workspace_size() const { return workspace_size_; }
    aclOpExecutor* executor() const { return executor_; }
    void* address(Argument argument) { return memory_.address(argument); }
    const aclTensor* tensor(Argument argument) const { return memory_.tensor(argument); }

  private:
    Call call_;
    RunOptions options_;
    Version version_;
    CallMemory memory_;
    uint64_t workspace_size_ = 0;
    aclOpExecutor* executor_ = nullptr;
    uint64_t allocations_ = 0;
};

struct RunResult {
    aclnnStatus phase_one = 0, phase_two = 0;
    std::string error_text;  // of the phase that failed
    Outputs outputs;
    std::vector<std::string> broken_promises;
};

RunResult run(const Call& call, const RunOptions& options = {});

// What aclGetRecentErrMsg says, also where it says nothing.
std::string error_text();

}  // namespace flash_attention::testing
