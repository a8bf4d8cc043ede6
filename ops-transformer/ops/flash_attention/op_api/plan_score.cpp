// Phase one of forward from end to end: checks, problem, plan, and the run that the executor keeps.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "ascendcl/log.h"
#include "engine/decode.h"
#include "engine/forward.h"
#include "op_api/checks.h"
#include "op_api/describe.h"
#include "op_api/operands.h"
#include "op_api/planning.h"
#include "op_api/to_problem.h"
#include "opbase/parallel.h"

namespace flash_attention {
namespace {

// What phase two needs, by value: tensors and lists may be gone by then.
struct ScoreRun {
    Problem problem;
    ForwardPlan plan;
    Operands operands;

    void operator()(const opbase::Launch& launch) const {
        std::byte* area = static_cast<std::byte*>(launch.workspace) + plan.workspace_bytes();
        operands.before_run(launch, area);
        run_forward(problem, plan, operands.addresses(launch, area), launch.workspace);
        operands.after_run(launch, area);
    }
};

// Arguments without effect, where the interface does not call that an error.
void warn_about_ineffective(const ScoreRequest& request) {
    if (has_elements(request.softmax_out)) {
        ascendcl::warn_once("softmaxOutOut", "softmaxOutOut is reserved and never written");
    }
    const std::string_view layout = statistics_layout(request);
    if (!layout.empty() && layout != kSameAsInput) {
        ascendcl::warn_once("softmaxOutLayout",
                            fmt::format("softmaxOutLayout \"{}\" is not supported and counts as \"\": expected \"\" or "
                                        "\"{}\"",
                                        layout, kSameAsInput));
    } else if (!layout.empty() && !request.varlen) {
        ascendcl::warn_once(
            "softmaxOutLayout of a dense batch",
            fmt::format("softmaxOutLayout \"{}\" has no effect for inputLayout \"{}\"", layout, request.input_layout));
    }
}

// In the order in which the operator reports.
ScoreForm check_call(const ScoreRequest& request) {
    ScoreForm form;
    form.sizes = check_inputs(request);
    form.lengths = check_sequences(request, form.sizes);
    check_attributes(request, form.sizes, form.lengths);
    form.mask = check_mask(request, form.sizes, form.lengths);
    if (form.mask != MaskForm::kNone) check_window(request, form.sizes, form.lengths);
    form.bias = check_bias(request, form.sizes, form.lengths, form.mask);
    check_outputs(request, form.sizes);
    return form;
}

opbase::Plan make_plan(const ScoreRequest& request) {
    check_required(request);
    opbase::Plan plan = make_empty_plan(request);
    if (all_outputs_empty(request)) return plan;

    ScoreForm form = check_call(request);
    warn_about_ineffective(request);
    const ScoreSizes sizes = form.sizes;
    const auto entries = static_cast<int64_t>(form.lengths.sequences.size());

    auto run = std::make_shared<ScoreRun>();
    run->problem = to_problem(request, std::move(form), run->operands);
    run->plan = plan_with_kernels([&] { return plan_forward(run->problem); });
    if (request.max_workspace) {
        run->plan.slots = std::max(run->plan.slots, opbase::thread_count());
        run->plan.partial_bytes = most_partial_bytes(run->problem, entries, sizes.q_len, sizes.kv_len);
    }
    plan.workspace_size = static_cast<uint64_t>(run->plan.workspace_bytes() + run->operands.workspace_bytes());
    plan.run = [run = std::move(run)](const opbase::Launch& launch) { (*run)(launch); };
    return plan;
}

}  // namespace

aclnnStatus plan_score(const ScoreRequest& request) noexcept {
    return opbase::plan_operator(
        request.name, request.workspace_size, request.executor, [&] { return make_plan(request); },
        [&] { return describe(request); });
}

}  // namespace flash_attention
