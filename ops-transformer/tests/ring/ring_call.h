// A call of the ring update as data, legal or not.
#pragma once

#include <string>
#include <vector>

#include "aclnnop/aclnn_ring_attention_update.h"
#include "operands/operand.h"
#include "ring_attention_update/reference/ring.h"
#include "testing/element.h"

namespace ring_attention_update::testing {

using flash_attention::testing::DType;
using flash_attention::testing::expect_refusal;
using flash_attention::testing::Operand;
using flash_attention::testing::PhaseResult;
using flash_attention::testing::Tensor;
using flash_attention::testing::TensorSpec;
using reference::PartialResult;

// In the order of the C signature.
enum Argument { kPrevOut, kPrevMax, kPrevSum, kCurOut, kCurMax, kCurSum, kEnds, kOut, kMax, kSum, kArgumentCount };

struct RingCall {
    bool v2 = true;
    DType dtype = DType::kFp32;  // of `previous` and `current`; descriptions may lie
    Tensor tensors[kArgumentCount];
    const char* layout = nullptr;
    const char* softmax_layout = nullptr;
    std::vector<int64_t> ends;
    PartialResult previous, current;  // numbers of the types; nothing is written where they are empty
    int in_place = -1;                // kPrevOut or kCurOut: outputs are these three arguments
    bool null_workspace_size = false, null_executor = false;

    const char* name() const { return v2 ? "aclnnRingAttentionUpdateV2" : "aclnnRingAttentionUpdate"; }
};

// Calls without numbers.
RingCall sbh_call(DType dtype = DType::kFp32, int64_t s = 3, int64_t b = 2, int64_t n = 4, int64_t d = 8);
RingCall tnd_call(DType dtype = DType::kFp32, std::vector<int64_t> ends = {0, 3, 8}, int64_t n = 4, int64_t d = 8);
void set_shapes(RingCall& call, const std::vector<int64_t>& out, const std::vector<int64_t>& statistics);

struct RingResult : PhaseResult {
    PartialResult merged;        // statistics: the first of the eight copies, which are equal
    std::vector<uint32_t> bits;  // of all outputs
    bool untouched = true;
};
RingResult run(const RingCall& call);

// What the reference gets of a legal call.
reference::RingArguments arguments_of(const RingCall& call);

}  // namespace ring_attention_update::testing
