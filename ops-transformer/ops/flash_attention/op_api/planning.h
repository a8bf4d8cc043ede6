// What phase one of both directions does alike.
#pragma once

#include <span>
#include <vector>

#include "ascendcl/log.h"
#include "kernels/dispatch.h"
#include "op_api/score_request.h"
#include "opbase/error.h"
#include "opbase/executor.h"
#include "opbase/tensor.h"

namespace flash_attention {

inline std::vector<void*> storage_addresses(const ScoreRequest& request,
                                            std::span<const ScoreRequest::TensorField> fields) {
    std::vector<void*> addresses;
    addresses.reserve(fields.size());
    for (const ScoreRequest::TensorField field : fields) {
        const aclTensor* tensor = request.*field;
        addresses.push_back(tensor == nullptr ? nullptr : tensor->data);
    }
    return addresses;
}

// A plan without work, for the operator of the request.
inline opbase::Plan make_empty_plan(const ScoreRequest& request) {
    opbase::Plan plan;
    plan.inputs = storage_addresses(request, request.inputs);
    plan.outputs = storage_addresses(request, request.outputs);
    return plan;
}

// Plans in the engine. The environment can ask for kernels that are not there.
template <class MakePlan>
auto plan_with_kernels(MakePlan make_plan) {
    try {
        return make_plan();
    } catch (const UnavailableKernels& error) {
        ascendcl::warn_once("ASCEND_CPU_ISA", error.what());
        throw opbase::OperatorError(opbase::kInner, error.what());
    }
}

}  // namespace flash_attention
