#include "testing/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "allocation_counter.h"

namespace flash_attention::testing {
namespace {

// The case's version, or the smallest that has what the arguments use: these may have been changed since make_call.
Version choose_version(const Call& call) {
    const Case used = used_arguments(call.description, call.arguments);
    const std::vector<Version> able = versions_of(used);
    if (std::find(able.begin(), able.end(), version_of(used)) == able.end())
        throw std::logic_error(fmt::format("{} does not have all arguments", name_of(version_of(used))));
    return version_of(used);
}

}  // namespace

PreparedCall::PreparedCall(const Call& call, RunOptions options)
    : call_(call), options_(std::move(options)), version_(choose_version(call)), memory_(call.description) {
    const Case& c = call_.description;
    const reference::ScoreArguments& a = call_.arguments;
    stream();
    memory_.set_texts(options_.layout.empty() ? a.input_layout : options_.layout, a.softmax_out_layout,
                      options_.empty_text);
    memory_.add_inputs(a);
    memory_.add_output(kOut, out_shape(c), c.dtype);
    const std::vector<int64_t> statistics =
        options_.statistics_shape.empty() ? statistics_shape(c) : options_.statistics_shape;
    memory_.add_output(kMax, statistics, DType::kFp32);
    memory_.add_output(kSum, statistics, DType::kFp32);
}

ScoreArguments PreparedCall::arguments() {
    ScoreArguments arguments = memory_.arguments(call_.arguments);
    arguments.inner_precise = options_.inner_precise;
    arguments.workspace_size = &workspace_size_;
    arguments.executor = &executor_;
    return arguments;
}

aclnnStatus PreparedCall::phase_one() {
    const Version version = options_.max_workspace ? Version::kVarLenV5Max : version_;
    const aclnnStatus status = testing::phase_one(version, arguments());
    if (status == 0) memory_.set_workspace(workspace_size_, options_.workspace);
    return status;
}

aclnnStatus PreparedCall::phase_two() {
    const Version version = options_.max_workspace ? Version::kVarLenV5Max : version_;
    const uint64_t before = opbase::testing::allocation_count();
    const aclnnStatus status = testing::phase_two(version, memory_.workspace(), workspace_size_, executor_, stream());
    allocations_ = opbase::testing::allocation_count() - before;
    if (status == 0) aclrtSynchronizeStream(stream());
    return status;
}

Outputs PreparedCall::outputs() const {
    return {memory_.read(kOut, call_.description.dtype), memory_.read(kMax, DType::kFp32),
            memory_.read(kSum, DType::kFp32)};
}

std::vector<std::string> PreparedCall::broken_promises() const {
    std::vector<std::string> broken = memory_.broken_promises();
    if (options_.count_allocations && allocations_ != 0)
        broken.push_back(fmt::format("phase two allocated {} times", allocations_));
    return broken;
}

std::string error_text() {
    const char* text = aclGetRecentErrMsg();
    return text == nullptr ? "no error text" : text;
}

RunResult run(const Call& call, const RunOptions& options) {
    RunResult result;
    PreparedCall prepared(call, options);
    result.phase_one = prepared.phase_one();
    if (result.phase_one != 0) {
        result.error_text = error_text();
        result.broken_promises = prepared.broken_promises();
        return result;
    }
    result.phase_two = prepared.phase_two();
    if (result.phase_two != 0) result.error_text = error_text();
    result.broken_promises = prepared.broken_promises();
    result.outputs = prepared.outputs();
    return result;
}

}  // namespace flash_attention::testing
