// Runs a call through the C ABI and watches what the interface promises besides the numbers: nothing is written outside
// of the outputs and the workspace, inputs stay as they are, phase two allocates nothing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "testing/call.h"
#include "testing/view.h"

namespace flash_attention::testing {

struct ScoreArguments;  // entry_points.h

// Results as bits, so that they can be compared for equality, NaN included: row-major in the tensor's shape.
struct Outputs {
    std::vector<uint32_t> out;       // of the case's element type
    std::vector<uint32_t> max, sum;  // floats, each eight times
    bool operator==(const Outputs&) const = default;
};

enum class WorkspaceFill { kOnes /* 0xFF bytes */, kNan /* quiet NaN floats */ };

struct RunOptions {
    WorkspaceFill workspace = WorkspaceFill::kOnes;
    bool count_allocations = true;  // false when other threads run at the same time
    int64_t inner_precise = 0;
    std::string layout{};                     // instead of the case's, for other spellings of the same one
    std::vector<int64_t> statistics_shape{};  // instead of [T, N, 8], for other shapes of as many elements
    bool empty_text = false;                  // an absent softmaxOutLayout is "" instead of nullptr
    bool max_workspace = false;               // phase one of VarLenScoreV5: its ...GetMaxWorkspaceSize
};

// Memory of one operand or the workspace, exactly as long as asked, between guard bytes.
class GuardedMemory {
  public:
    GuardedMemory() = default;
    GuardedMemory(int64_t bytes, uint8_t fill);
    uint8_t* data() { return bytes_.get() + kGuard; }
    const uint8_t* data() const { return bytes_.get() + kGuard; }
    int64_t size() const { return size_; }
    bool guards_intact() const;

  private:
    struct Free {
        void operator()(void* memory) const { std::free(memory); }
    };
    static constexpr int64_t kGuard = 64;
    std::unique_ptr<uint8_t[], Free> bytes_;
    int64_t size_ = 0;
};

// One call with its buffers, phase by phase. Calls that no version can express are logic errors.
class PreparedCall {
  public:
    explicit PreparedCall(const Call& call, RunOptions options = {});
    ~PreparedCall();
    PreparedCall(const PreparedCall&) = delete;
    PreparedCall& operator=(const PreparedCall&) = delete;

    aclnnStatus phase_one();
    // The caller may destroy all descriptions between the phases.
    void destroy_descriptions();
    aclnnStatus phase_two();

    Outputs outputs() const;
    // Sentences about broken promises of all phases so far.
    std::vector<std::string> broken_promises() const;

    Version version() const { return version_; }
    ScoreArguments arguments();  // of phase one, as the C interface gets them
    uint64_t workspace_size() const { return workspace_size_; }
    aclOpExecutor* executor() const { return executor_; }
    void* address(Argument argument) { return operands_[argument].storage; }
    const aclTensor* tensor(Argument argument) const { return operands_[argument].tensor; }

  private:
    enum List { kQEnds, kKvEnds, kPrefix, kQStart, kKvStart, kListCount };
    struct Operand {
        StridedView view;
        int64_t element_bytes = 0;
        GuardedMemory guarded;  // outputs
        std::unique_ptr<uint8_t[]>
            exact;  // inputs: a read behind the end is one behind the block, for the address sanitizer
        std::vector<uint8_t> original;  // inputs
        void* storage = nullptr;
        const aclTensor* tensor = nullptr;
    };
    // `fill(storage, view)` writes the elements of the view.
    template <class Fill>
    void add_input(Argument argument, const std::vector<int64_t>& shape, aclDataType dtype, int64_t bytes, Fill fill);
    void add_output(Argument argument, const std::vector<int64_t>& shape, aclDataType dtype, int64_t bytes);
    void add_inputs();
    void add_list(List list, const std::vector<int64_t>& numbers);
    void describe(Argument argument, aclDataType dtype);
    std::vector<uint32_t> read(Argument argument, DType dtype) const;
    void note_stray_writes(Argument argument, std::vector<std::string>& broken) const;

    Call call_;
    RunOptions options_;
    Version version_;
    std::vector<char> layout_, softmax_layout_;
    Operand operands_[kArgumentCount];
    aclIntArray* lists_[kListCount] = {};
    GuardedMemory workspace_;
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

// The stream that all runs use; the first call starts the runtime.
aclrtStream stream();

}  // namespace flash_attention::testing
