#include "testing/backward_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "allocation_counter.h"
#include "entry_points.h"

namespace flash_attention::testing {
namespace {

constexpr int64_t kCopies = 8;  // of a row's maximum and sum

Version choose_version(const BackwardCall& call) {
    const Case used = used_arguments(call.description, call.arguments.forward);
    const std::vector<Version> able = grad_versions_of(used);
    if (std::find(able.begin(), able.end(), grad_version_of(used)) == able.end())
        throw std::logic_error(fmt::format("{} does not have all arguments", name_of(grad_version_of(used))));
    return grad_version_of(used);
}

reference::Tensor first_of_eight(const Case& c, const std::vector<double>& statistics) {
    reference::Tensor tensor{statistics_shape(c), {}};
    tensor.values.assign(statistics.size() * kCopies, std::numeric_limits<double>::quiet_NaN());
    for (size_t row = 0; row < statistics.size(); row++) tensor.values[row * kCopies] = statistics[row];
    return tensor;
}

}  // namespace

PreparedBackward::PreparedBackward(const BackwardCall& call, RunOptions options, const BackwardOperator& computes)
    : call_(call),
      options_(std::move(options)),
      operator_(computes),
      version_(choose_version(call)),
      memory_(call.description) {
    const Case& c = call_.description;
    const reference::ScoreGradArguments& g = call_.arguments;
    const reference::ScoreArguments& a = g.forward;
    stream();
    memory_.set_texts(options_.layout.empty() ? a.input_layout : options_.layout, a.softmax_out_layout,
                      options_.empty_text);
    memory_.add_inputs(a);
    memory_.add_tensor(kDy, g.dy, c.dtype);
    memory_.add_tensor(kOut, g.attention_in, c.dtype);
    memory_.add_tensor(kMax, first_of_eight(c, g.softmax_max), DType::kFp32);
    memory_.add_tensor(kSum, first_of_eight(c, g.softmax_sum), DType::kFp32);
    auto add = [&](Argument gradient, const std::vector<int64_t>& shape) {
        memory_.add_output(gradient, shape, gradient_type(c, gradient));
    };
    add(kDq, a.query.shape);
    add(kDk, a.key.shape);
    add(kDv, a.value.shape);
    if (a.query_rope) add(kDqRope, a.query_rope->shape);
    if (a.key_rope) add(kDkRope, a.key_rope->shape);
    if (c.dpse == Dpse::kEmpty) add(kDpse, {0});
    if (c.dpse == Dpse::kWanted) add(kDpse, a.real_shift->shape);
    if (!a.sink.empty()) add(kDsink, {static_cast<int64_t>(a.sink.size())});
}

ScoreArguments PreparedBackward::arguments() {
    ScoreArguments arguments = memory_.arguments(call_.arguments.forward);
    arguments.inner_precise = options_.inner_precise;
    arguments.workspace_size = &workspace_size_;
    arguments.executor = &executor_;
    arguments.dy = memory_.tensor(kDy);
    arguments.dq = memory_.tensor(kDq);
    arguments.dq_rope = memory_.tensor(kDqRope);
    arguments.dk = memory_.tensor(kDk);
    arguments.dk_rope = memory_.tensor(kDkRope);
    arguments.dv = memory_.tensor(kDv);
    arguments.dpse = memory_.tensor(kDpse);
    arguments.dsink = memory_.tensor(kDsink);
    return arguments;
}

aclnnStatus PreparedBackward::phase_one() {
    if (options_.max_workspace) version_ = Version::kUnpaddingGradV5Max;
    const aclnnStatus status = operator_.phase_one(*this);
    if (status == 0) memory_.set_workspace(workspace_size_, options_.workspace);
    return status;
}

aclnnStatus PreparedBackward::phase_two() {
    const uint64_t before = opbase::testing::allocation_count();
    const aclnnStatus status = operator_.phase_two(*this);
    allocations_ = opbase::testing::allocation_count() - before;
    if (status == 0) aclrtSynchronizeStream(stream());
    return status;
}

Gradients PreparedBackward::gradients() const {
    Gradients gradients;
    for (size_t g = 0; g < kGradientCount; g++)
        gradients[g] = memory_.read(kGradientArguments[g], gradient_type(call_.description, kGradientArguments[g]));
    return gradients;
}

std::vector<std::string> PreparedBackward::broken_promises() const {
    std::vector<std::string> broken = memory_.broken_promises();
    if (options_.count_allocations && !operator_.allocates && allocations_ != 0)
        broken.push_back(fmt::format("phase two allocated {} times", allocations_));
    return broken;
}

const BackwardOperator& library() {
    static const BackwardOperator functions{
        [](PreparedBackward& p) { return testing::phase_one(p.version(), p.arguments()); },
        [](PreparedBackward& p) {
            return testing::phase_two(p.version(), p.memory().workspace(), p.workspace_size(), p.executor(), stream());
        }};
    return functions;
}

BackwardResult run(const BackwardCall& call, const RunOptions& options, const BackwardOperator& computes) {
    BackwardResult result;
    PreparedBackward prepared(call, options, computes);
    result.phase_one = prepared.phase_one();
    if (result.phase_one == 0) {
        result.phase_two = prepared.phase_two();
        result.gradients = prepared.gradients();
    }
    if (result.phase_one != 0 || result.phase_two != 0) result.error_text = error_text();
    result.broken_promises = prepared.broken_promises();
    return result;
}

}  // namespace flash_attention::testing
