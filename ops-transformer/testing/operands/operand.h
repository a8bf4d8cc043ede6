// Tensor arguments in guarded memory, and the two phases of any operator: for tests of operators that have no harness
// of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "tensor_spec.h"

namespace flash_attention::testing {

// One argument: its storage between guard elements, and its description. Everything holds the guard pattern until it is
// written. A spec without value is a null pointer.
class Operand {
  public:
    explicit Operand(Tensor spec);
    ~Operand() { aclDestroyTensor(tensor_); }
    Operand(const Operand&) = delete;
    Operand& operator=(const Operand&) = delete;

    aclTensor* tensor() const { return tensor_; }

    // Elements by their bits, in row-major order of the indices. Element must have the size of the tensor's type.
    template <class Element>
    void write(const std::vector<Element>& values) {
        for_each([&](int64_t i, std::byte* at) { std::memcpy(at, &values.at(i), sizeof(Element)); });
    }
    template <class Element>
    std::vector<Element> read() {
        std::vector<Element> values;
        for_each([&](int64_t, std::byte* at) { std::memcpy(&values.emplace_back(), at, sizeof(Element)); });
        return values;
    }

    bool untouched() const;
    // Nothing but the elements of the view differs from the guard pattern.
    bool surroundings_untouched();

  private:
    void for_each(const std::function<void(int64_t, std::byte*)>& visit);
    int64_t stored_elements() const;

    Tensor spec_;
    int64_t bytes_ = 0;  // of an element
    std::vector<std::byte> memory_;
    aclTensor* tensor_ = nullptr;
};

// What a call gave. `text` is that of aclGetRecentErrMsg after the last phase.
struct PhaseResult {
    aclnnStatus phase_one = 0, phase_two = 0;
    std::string text;
    uint64_t workspace_size = 0;
    bool executor_is_null = true;
    bool asked_for_size = true;  // workspaceSize was not null
    uint64_t allocations = 0;    // of phase two
};

struct PhasesOfCall {
    std::function<aclnnStatus(uint64_t*, aclOpExecutor**)> one;
    aclnnStatus (*two)(void*, uint64_t, aclOpExecutor*, const aclrtStream);
    std::function<void()> between = {};  // what happens between the phases
    bool null_workspace_size = false, null_executor = false;
};

// Both phases, the second one with a workspace full of 0xFF bytes if the first one succeeds.
PhaseResult run_phases(const PhasesOfCall& phases);

// Phase one (or two, after a first one that succeeded) gave the code and exactly this sentence of the operator.
void expect_refusal(const PhaseResult& result, const std::string& name, aclnnStatus code, const std::string& sentence,
                    int phase = 1);

}  // namespace flash_attention::testing
