// Phase one from end to end: checks, strides, and the run that the executor keeps.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "arguments/views.h"
#include "op_api/planning.h"
#include "opbase/dtype.h"
#include "opbase/error.h"
#include "opbase/executor.h"
#include "opbase/tensor.h"
#include "ring_attention_update/op_api/ring_request.h"

namespace ring_attention_update {
namespace {

using arguments::Need;
using opbase::Shape;

constexpr bool is_statistic(int operand) {
    return operand != kPrevOut && operand != kCurOut && operand != kOut && operand != kEnds;
}

// What phase two needs, by value.
struct RingRun {
    RingProblem problem;
    RingPlan plan;
    arguments::Views views;

    void operator()(const opbase::Launch& launch) const {
        Addresses addresses{};
        for (int operand = 0; operand < kOperandCount; operand++) addresses[operand] = views.address(operand, launch);
        check_ends(static_cast<const int64_t*>(addresses[kEnds]));
        views.pack_inputs(launch);
        run_ring(problem, plan, addresses);
        views.unpack_outputs(launch);
    }

    // Only now the list can be read.
    void check_ends(const int64_t* ends) const {
        if (!problem.statistics_by_sequence) return;
        const int64_t bad = first_bad_end(problem, ends);
        if (bad < 0) return;
        const auto end = [&](int64_t i) { return ends[i * problem.ends_stride]; };
        std::string sentence;
        if (bad == problem.sequences) {
            sentence = fmt::format("actualSeqQlenOptional must end with T: last entry {}, T is {}", end(bad - 1),
                                   problem.rows);
        } else if (end(bad) < 0) {
            sentence = fmt::format("actualSeqQlenOptional entry {} is {}: expected 0 or more", bad, end(bad));
        } else if (bad > 0 && end(bad) < end(bad - 1)) {
            sentence = fmt::format("actualSeqQlenOptional is not non-decreasing: entry {} is {} after {}", bad,
                                   end(bad), end(bad - 1));
        } else {
            sentence = fmt::format("actualSeqQlenOptional entry {} is {}, but T is {}", bad, end(bad), problem.rows);
        }
        throw opbase::OperatorError(opbase::kInner, sentence);
    }
};

// Statistics in blocks are found by their position. Of other inputs only the first of eight copies is read, wherever
// the others are; outputs write the eight side by side.
Need need_of(const RingProblem& problem, int operand) {
    if (operand == kEnds) return Need::kAnything;
    if (!is_statistic(operand)) return Need::kContiguousRows;
    if (problem.statistics_by_sequence) return Need::kContiguous;
    return operand == kMax || operand == kSum ? Need::kContiguousRows : Need::kAnything;
}

// From the strides of [S, B, H] and [B, N, S, 8], or of [T, N, D] and [T, N, 8].
Strides strides_of(const RingProblem& problem, bool packed, const Shape& strides) {
    if (strides.size() == 4) return {.batch = strides[0], .row = strides[2], .head = strides[1]};
    if (packed) return {.batch = 0, .row = strides[0], .head = strides[1]};
    return {.batch = strides[1], .row = strides[0], .head = problem.dim};
}

opbase::Plan make_plan(const RingRequest& request) {
    RingRun run;
    run.problem = check_ring(request);
    const bool packed = request.tensors[kPrevMax]->rank() == 3;
    for (int operand = 0; operand < kOperandCount; operand++) {
        const aclTensor* tensor = request.tensors[operand];
        const char* name = kNames[operand];
        if (operand == kEnds) {
            const Shape strides =
                run.views.add_input(name, run.problem.sequences > 0 ? tensor : nullptr, need_of(run.problem, operand));
            if (!strides.empty()) run.problem.ends_stride = strides[0];
            continue;
        }
        const Need need = need_of(run.problem, operand);
        const Shape strides =
            operand < kEnds ? run.views.add_input(name, tensor, need) : run.views.add_output(name, tensor, need);
        run.problem.strides[operand] = strides_of(run.problem, packed, strides);
    }
    run.plan = flash_attention::plan_with_kernels([&] { return plan_ring(run.problem); });
    opbase::Plan plan = run.views.plan();
    plan.run = [run = std::make_shared<const RingRun>(std::move(run))](const opbase::Launch& launch) {
        (*run)(launch);
    };
    return plan;
}

std::string describe(const RingRequest& request) {
    std::string line;
    for (int operand = 0; operand < kOperandCount; operand++) {
        const aclTensor* tensor = request.tensors[operand];
        if (tensor == nullptr) continue;
        line += fmt::format("{}={}{}, ", kNames[operand], opbase::dtype_name(tensor->dtype),
                            opbase::to_string(tensor->shape));
    }
    const auto text = [](const char* layout) { return layout == nullptr ? "" : layout; };
    return line + fmt::format("inputLayout=\"{:.32}\", inputSoftmaxLayout=\"{:.32}\"", text(request.input_layout),
                              text(request.input_softmax_layout));
}

}  // namespace

aclnnStatus plan_ring_update(const RingRequest& request) noexcept {
    return opbase::plan_operator(
        request.name, request.workspace_size, request.executor, [&] { return make_plan(request); },
        [&] { return describe(request); });
}

}  // namespace ring_attention_update
