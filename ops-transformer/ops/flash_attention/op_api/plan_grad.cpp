// Phase one of backward from end to end: checks, problem, plan, and the run that the executor keeps.
#include <memory>
#include <utility>

#include "engine/backward.h"
#include "op_api/checks.h"
#include "op_api/describe.h"
#include "op_api/operands.h"
#include "op_api/planning.h"
#include "op_api/to_problem.h"

namespace flash_attention {
namespace {

// What phase two needs, by value: tensors and lists may be gone by then.
struct GradRun {
    Problem problem;
    BackwardPlan plan;
    int64_t engine_bytes = 0;  // of the workspace, in front of the packed copies
    Operands operands;

    void operator()(const opbase::Launch& launch) const {
        std::byte* area = static_cast<std::byte*>(launch.workspace) + engine_bytes;
        operands.before_run(launch, area);
        if (problem.sequences.empty()) return;
        run_backward(problem, plan, operands.addresses(launch, area), launch.workspace);
        operands.after_run(launch, area);
    }
};

// In the order in which the operator reports.
ScoreForm check_call(const ScoreRequest& request) {
    ScoreForm form;
    form.sizes = check_inputs_of_grad(request);
    form.lengths = check_sequences(request, form.sizes);
    check_company_of_grad(request, form.sizes);
    check_results_of_forward(request, form.sizes);
    check_attributes(request, form.sizes, form.lengths);
    form.mask = check_mask(request, form.sizes, form.lengths);
    if (form.mask != MaskForm::kNone) check_window(request, form.sizes, form.lengths);
    check_bias_dtype(request);
    form.bias = check_bias(request, form.sizes, form.lengths, form.mask);
    form.wants_dbias = check_dbias(request, form.bias);
    return form;
}

opbase::Plan make_plan(const ScoreRequest& request) {
    check_required_of_grad(request);
    opbase::Plan plan = make_empty_plan(request);
    if (all_gradients_empty(request)) return plan;

    ScoreForm form = check_call(request);
    const ScoreSizes sizes = form.sizes;
    const auto entries = static_cast<int64_t>(form.lengths.sequences.size());
    auto run = std::make_shared<GradRun>();
    run->problem = to_problem(request, std::move(form), run->operands);
    if (!run->problem.sequences.empty()) {
        run->plan = plan_with_kernels([&] { return plan_backward(run->problem); });
        run->engine_bytes = request.max_workspace
                                ? most_workspace_bytes(run->problem, entries, sizes.q_len, sizes.kv_len)
                                : run->plan.workspace_bytes();
        run->engine_bytes = (run->engine_bytes + 63) / 64 * 64;  // packed copies begin at such a boundary
    }
    plan.workspace_size = static_cast<uint64_t>(run->engine_bytes + run->operands.workspace_bytes());
    plan.run = [run = std::move(run)](const opbase::Launch& launch) { (*run)(launch); };
    return plan;
}

}  // namespace

aclnnStatus plan_grad(const ScoreRequest& request) noexcept {
    return opbase::plan_operator(
        request.name, request.workspace_size, request.executor, [&] { return make_plan(request); },
        [&] { return describe(request); });
}

}  // namespace flash_attention
