#include "ring_call.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace ring_attention_update::testing {
namespace {

using flash_attention::testing::from_bits;
using flash_attention::testing::to_bits;

aclDataType acl_type(DType dtype) {
    return dtype == DType::kFp32 ? ACL_FLOAT : dtype == DType::kFp16 ? ACL_FLOAT16 : ACL_BF16;
}

void write_out(Operand& operand, DType dtype, const std::vector<double>& values) {
    if (dtype == DType::kFp32) {
        std::vector<uint32_t> bits;
        for (const double x : values) bits.push_back(to_bits(dtype, x));
        operand.write(bits);
    } else {
        std::vector<uint16_t> bits;
        for (const double x : values) bits.push_back(static_cast<uint16_t>(to_bits(dtype, x)));
        operand.write(bits);
    }
}

// Only the first of the copies may be read: the others say so when they are.
void write_statistics(Operand& operand, const std::vector<double>& values) {
    std::vector<float> copies;
    for (const double x : values) {
        copies.push_back(static_cast<float>(x));
        copies.insert(copies.end(), 7, std::numeric_limits<float>::quiet_NaN());
    }
    operand.write(copies);
}

std::vector<uint32_t> read_bits(Operand& operand, DType dtype) {
    if (dtype == DType::kFp32) return operand.read<uint32_t>();
    const std::vector<uint16_t> narrow = operand.read<uint16_t>();
    return {narrow.begin(), narrow.end()};
}

std::vector<double> values_of(const std::vector<uint32_t>& bits, DType dtype, int64_t every) {
    std::vector<double> values;
    for (size_t i = 0; i < bits.size(); i += every) values.push_back(from_bits(dtype, bits[i]));
    return values;
}

}  // namespace

void set_shapes(RingCall& call, const std::vector<int64_t>& out, const std::vector<int64_t>& statistics) {
    for (int i = 0; i < kArgumentCount; i++) {
        const bool is_out = i == kPrevOut || i == kCurOut || i == kOut;
        if (i == kEnds) continue;
        call.tensors[i] =
            TensorSpec{.shape = is_out ? out : statistics, .dtype = is_out ? acl_type(call.dtype) : ACL_FLOAT};
    }
}

RingCall sbh_call(DType dtype, int64_t s, int64_t b, int64_t n, int64_t d) {
    RingCall call;
    call.dtype = dtype;
    call.layout = "SBH";
    set_shapes(call, {s, b, n * d}, {b, n, s, 8});
    return call;
}

RingCall tnd_call(DType dtype, std::vector<int64_t> ends, int64_t n, int64_t d) {
    RingCall call;
    call.dtype = dtype;
    call.layout = "TND";
    set_shapes(call, {ends.back(), n, d}, {ends.back(), n, 8});
    call.tensors[kEnds] = TensorSpec{.shape = {static_cast<int64_t>(ends.size())}, .dtype = ACL_INT64};
    call.ends = std::move(ends);
    return call;
}

RingResult run(const RingCall& call) {
    std::unique_ptr<Operand> operands[kArgumentCount];
    for (int i = 0; i < kArgumentCount; i++) operands[i] = std::make_unique<Operand>(call.tensors[i]);
    if (!call.previous.out.empty()) {
        write_out(*operands[kPrevOut], call.dtype, call.previous.out);
        write_out(*operands[kCurOut], call.dtype, call.current.out);
        write_statistics(*operands[kPrevMax], call.previous.max);
        write_statistics(*operands[kPrevSum], call.previous.sum);
        write_statistics(*operands[kCurMax], call.current.max);
        write_statistics(*operands[kCurSum], call.current.sum);
    }
    if (!call.ends.empty() && call.tensors[kEnds]) operands[kEnds]->write(call.ends);
    Operand* outputs[3];
    for (int i = 0; i < 3; i++) outputs[i] = operands[(call.in_place >= 0 ? call.in_place : kOut) + i].get();

    char layout[40] = "", softmax_layout[40] = "";
    if (call.layout != nullptr) std::strncpy(layout, call.layout, sizeof layout - 1);
    if (call.softmax_layout != nullptr) std::strncpy(softmax_layout, call.softmax_layout, sizeof softmax_layout - 1);
    char* const layout_or_null = call.layout == nullptr ? nullptr : layout;
    char* const softmax_or_null = call.softmax_layout == nullptr ? nullptr : softmax_layout;
    const auto tensor = [&](int i) { return operands[i]->tensor(); };
    flash_attention::testing::PhasesOfCall phases;
    phases.null_executor = call.null_executor;
    phases.null_workspace_size = call.null_workspace_size;
    phases.one = [&](uint64_t* workspace_size, aclOpExecutor** executor) {
        if (!call.v2) {
            return aclnnRingAttentionUpdateGetWorkspaceSize(
                tensor(kPrevOut), tensor(kPrevMax), tensor(kPrevSum), tensor(kCurOut), tensor(kCurMax), tensor(kCurSum),
                tensor(kEnds), layout_or_null, outputs[0]->tensor(), outputs[1]->tensor(), outputs[2]->tensor(),
                workspace_size, executor);
        }
        return aclnnRingAttentionUpdateV2GetWorkspaceSize(
            tensor(kPrevOut), tensor(kPrevMax), tensor(kPrevSum), tensor(kCurOut), tensor(kCurMax), tensor(kCurSum),
            tensor(kEnds), layout_or_null, softmax_or_null, outputs[0]->tensor(), outputs[1]->tensor(),
            outputs[2]->tensor(), workspace_size, executor);
    };
    phases.two = call.v2 ? aclnnRingAttentionUpdateV2 : aclnnRingAttentionUpdate;
    RingResult result{flash_attention::testing::run_phases(phases), {}, {}, true};
    for (Operand* output : outputs) result.untouched = result.untouched && output->untouched();
    if (result.phase_one != 0 || result.phase_two != 0) return result;
    EXPECT_EQ(result.allocations, 0U) << "in phase two";
    const std::vector<uint32_t> out = read_bits(*outputs[0], call.dtype);
    const std::vector<uint32_t> max = outputs[1]->read<uint32_t>(), sum = outputs[2]->read<uint32_t>();
    for (size_t i = 0; i < max.size(); i++) {
        EXPECT_EQ(max[i], max[i / 8 * 8]) << "copies of maximum " << i / 8;
        EXPECT_EQ(sum[i], sum[i / 8 * 8]) << "copies of sum " << i / 8;
    }
    for (Operand* output : outputs) EXPECT_TRUE(output->surroundings_untouched());
    result.merged = {values_of(out, call.dtype, 1), values_of(max, DType::kFp32, 8), values_of(sum, DType::kFp32, 8)};
    for (const auto* bits : {&out, &max, &sum}) result.bits.insert(result.bits.end(), bits->begin(), bits->end());
    return result;
}

reference::RingArguments arguments_of(const RingCall& call) {
    reference::RingArguments arguments;
    arguments.input_layout = call.layout == nullptr ? "SBH" : call.layout;
    arguments.input_softmax_layout = call.softmax_layout == nullptr ? "" : call.softmax_layout;
    arguments.out_shape = call.tensors[kPrevOut]->shape;
    arguments.heads = call.tensors[kPrevMax]->shape[1];
    arguments.actual_seq_qlen = call.ends;
    arguments.previous = call.previous;
    arguments.current = call.current;
    return arguments;
}

}  // namespace ring_attention_update::testing
