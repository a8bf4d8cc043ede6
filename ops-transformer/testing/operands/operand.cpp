#include "operands/operand.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "allocation_counter.h"

namespace flash_attention::testing {
namespace {

constexpr auto kGuard = std::byte{0xA5};
constexpr int64_t kGuardElements = 64;
// Larger views exist only in calls that are refused; they get no storage.
constexpr double kMostElements = 1 << 26;

constexpr uint64_t kUnset = 12345;

std::string recent_text() {
    const char* text = aclGetRecentErrMsg();
    return text == nullptr ? "" : text;
}

}  // namespace

Operand::Operand(Tensor spec) : spec_(std::move(spec)) {
    if (!spec_) return;
    if (spec_->strides.empty()) {
        spec_->strides.assign(spec_->shape.size(), 1);
        for (size_t i = spec_->shape.size(); i-- > 1;) spec_->strides[i - 1] = spec_->strides[i] * spec_->shape[i];
    }
    bytes_ = static_cast<int64_t>(aclDataTypeSize(spec_->dtype));
    memory_.assign((stored_elements() + 2 * kGuardElements) * bytes_, kGuard);
    tensor_ = aclCreateTensor(spec_->shape.data(), spec_->shape.size(), spec_->dtype, spec_->strides.data(),
                              spec_->offset, spec_->format, spec_->storage.data(), spec_->storage.size(),
                              spec_->without_data ? nullptr : memory_.data() + kGuardElements * bytes_);
}

int64_t Operand::stored_elements() const {
    double last = static_cast<double>(spec_->offset), count = 1;
    for (size_t i = 0; i < spec_->shape.size(); i++) {
        count *= static_cast<double>(spec_->shape[i]);
        last += static_cast<double>(spec_->shape[i] - 1) * static_cast<double>(spec_->strides[i]);
    }
    return count > 0 && std::max(count, last) < kMostElements ? static_cast<int64_t>(last) + 1 : 0;
}

void Operand::for_each(const std::function<void(int64_t, std::byte*)>& visit) {
    if (!spec_ || stored_elements() == 0) return;
    std::byte* data = memory_.data() + kGuardElements * bytes_;
    std::vector<int64_t> index(spec_->shape.size(), 0);
    for (int64_t i = 0;; i++) {
        visit(i, data + std::inner_product(index.begin(), index.end(), spec_->strides.begin(), spec_->offset) * bytes_);
        size_t axis = index.size();
        while (axis > 0 && ++index[axis - 1] == spec_->shape[axis - 1]) index[--axis] = 0;
        if (axis == 0) return;
    }
}

bool Operand::untouched() const {
    return std::all_of(memory_.begin(), memory_.end(), [](std::byte b) { return b == kGuard; });
}

bool Operand::surroundings_untouched() {
    std::vector<std::byte> copy = memory_;
    for_each([&](int64_t, std::byte* at) { std::fill_n(copy.begin() + (at - memory_.data()), bytes_, kGuard); });
    return std::all_of(copy.begin(), copy.end(), [](std::byte b) { return b == kGuard; });
}

PhaseResult run_phases(const PhasesOfCall& phases) {
    recent_text();  // what creating the arguments may have left
    PhaseResult result;
    result.workspace_size = kUnset;  // both have to be overwritten, also on failure
    auto* executor = reinterpret_cast<aclOpExecutor*>(&result);
    result.phase_one = phases.one(phases.null_workspace_size ? nullptr : &result.workspace_size,
                                  phases.null_executor ? nullptr : &executor);
    result.text = recent_text();
    result.asked_for_size = !phases.null_workspace_size;
    result.executor_is_null = phases.null_executor || executor == nullptr;
    if (result.phase_one != 0) return result;
    if (phases.between) phases.between();
    const std::unique_ptr<std::byte[]> workspace(new std::byte[result.workspace_size]);
    std::fill_n(workspace.get(), result.workspace_size, std::byte{0xFF});
    const uint64_t before = opbase::testing::allocation_count();
    result.phase_two = phases.two(workspace.get(), result.workspace_size, executor, nullptr);
    result.allocations = opbase::testing::allocation_count() - before;
    result.text = recent_text();
    return result;
}

void expect_refusal(const PhaseResult& result, const std::string& name, aclnnStatus code, const std::string& sentence,
                    int phase) {
    EXPECT_EQ(phase == 1 ? result.phase_one : result.phase_two, code) << sentence;
    const std::string category = code / 100000 == 1 ? "AclNN_Parameter_Error(EZ1001)" : "AclNN_Inner_Error(EZ9999)";
    const std::string end = fmt::format(" {}: {}: {}", category, name, sentence);
    EXPECT_TRUE(result.text.ends_with(end)) << "text:     " << result.text << "\nexpected: [PID:..] <time>" << end;
    if (phase == 1) {
        EXPECT_TRUE(result.executor_is_null);
        EXPECT_EQ(result.workspace_size, result.asked_for_size ? 0U : kUnset);
    }
}

}  // namespace flash_attention::testing
