// The memory, the descriptions and the workspace of one call of either direction, and what a call may not do to them.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "entry_points.h"
#include "testing/call.h"
#include "testing/view.h"

namespace flash_attention::testing {

aclDataType acl_type(DType dtype);

enum class WorkspaceFill { kOnes /* 0xFF bytes */, kNan /* quiet NaN floats */, kZeros };

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

class CallMemory {
  public:
    // The views of the case's arguments are those of all tensors that are added.
    explicit CallMemory(const Case& c) : case_(c) {}
    ~CallMemory() { destroy_descriptions(); }
    CallMemory(const CallMemory&) = delete;
    CallMemory& operator=(const CallMemory&) = delete;

    // What both directions take: query, key, value and modifiers, lists, numbers and texts.
    void add_inputs(const reference::ScoreArguments& a);
    void add_tensor(Argument argument, const reference::Tensor& tensor, DType dtype);
    void add_output(Argument argument, const std::vector<int64_t>& shape, DType dtype);
    // Of an absent layout of the statistics, "" instead of nullptr if `empty_text`.
    void set_texts(const std::string& layout, const std::string& softmax_layout, bool empty_text);
    void set_workspace(uint64_t bytes, WorkspaceFill fill);

    // Texts are spoilt too. The caller may do so between the phases.
    void destroy_descriptions();

    // Of phase one, as the C interface gets them; tensors that were not added are null. Inputs, numbers and texts, and
    // output and statistics, which are results of forward and inputs of backward.
    ScoreArguments arguments(const reference::ScoreArguments& a);
    const aclTensor* tensor(Argument argument) const { return operands_[argument].tensor; }
    void* address(Argument argument) { return operands_[argument].storage; }
    void* workspace() { return workspace_.size() == 0 ? nullptr : workspace_.data(); }
    int64_t workspace_size() const { return workspace_.size(); }

    // Elements as bits, row-major in the tensor's shape; none if it was not added.
    std::vector<uint32_t> read(Argument argument, DType dtype) const;
    void write(Argument argument, DType dtype, const std::vector<double>& values);

    // Sentences: something was written outside of the outputs and the workspace, or an input was changed.
    std::vector<std::string> broken_promises() const;

  private:
    enum List { kQEnds, kKvEnds, kPrefix, kQStart, kKvStart, kListCount };
    struct Operand {
        StridedView view;
        int64_t element_bytes = 0;
        GuardedMemory guarded;  // outputs
        std::unique_ptr<uint8_t[]>
            exact;  // inputs: a read behind the end is one behind the block, for the address sanitizer
        std::vector<uint8_t> original;  // inputs
        bool output = false;
        void* storage = nullptr;
        const aclTensor* tensor = nullptr;
    };
    // `fill(storage, view)` writes the elements of the view.
    template <class Fill>
    void add_input(Argument argument, const std::vector<int64_t>& shape, aclDataType dtype, int64_t bytes, Fill fill);
    void add_bytes(Argument argument, const std::vector<int64_t>& shape, aclDataType dtype,
                   const std::vector<uint8_t>& bytes);
    void add_list(List list, const std::vector<int64_t>& numbers);
    void describe(Argument argument, aclDataType dtype);
    void note_stray_writes(Argument argument, std::vector<std::string>& broken) const;

    Case case_;
    std::vector<char> layout_, softmax_layout_;
    Operand operands_[kArgumentCount];
    aclIntArray* lists_[kListCount] = {};
    GuardedMemory workspace_;
};

// The stream that all runs use; the first call starts the runtime.
aclrtStream stream();

}  // namespace flash_attention::testing
