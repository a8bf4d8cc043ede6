#include "mask_call.h"

#include <gtest/gtest.h>

namespace dropout_gen_mask::testing {
namespace {

void write_number(Operand& operand, const Tensor& spec, int64_t number) {
    if (!spec || spec->without_data) return;
    if (aclDataTypeSize(spec->dtype) == 4) {
        operand.write(std::vector<uint32_t>(2, static_cast<uint32_t>(number)));
    } else if (aclDataTypeSize(spec->dtype) == 8) {
        operand.write(std::vector<int64_t>(2, number));
    }
}

}  // namespace

MaskCall call_of(int64_t bits, double prob, int64_t seed, int64_t offset, aclDataType dtype) {
    MaskCall call;
    call.shape = std::vector<int64_t>{bits};
    call.prob = prob;
    call.seed = seed;
    call.offset = offset;
    call.dtype = dtype;
    call.out->shape = {padded_bytes(bits)};
    return call;
}

MaskResult run(const MaskCall& call, const Between& between) {
    Operand out(call.out), seed(call.seed_tensor), offset(call.offset_tensor);
    write_number(seed, call.seed_tensor, call.seed_in_tensor);
    write_number(offset, call.offset_tensor, call.offset_in_tensor);
    aclIntArray* shape = call.shape ? aclCreateIntArray(call.shape->data(), call.shape->size()) : nullptr;
    flash_attention::testing::PhasesOfCall phases;
    phases.null_executor = call.null_executor;
    phases.null_workspace_size = call.null_workspace_size;
    phases.one = [&](uint64_t* workspace_size, aclOpExecutor** executor) {
        switch (call.version) {
            case Version::kV1:
                return aclnnDropoutGenMaskGetWorkspaceSize(shape, call.prob, call.seed, call.offset, out.tensor(),
                                                           workspace_size, executor);
            case Version::kV2:
                return aclnnDropoutGenMaskV2GetWorkspaceSize(shape, call.prob, call.seed, call.offset, call.dtype,
                                                             out.tensor(), workspace_size, executor);
            default:
                return aclnnDropoutGenMaskV2TensorGetWorkspaceSize(shape, call.prob, seed.tensor(), offset.tensor(),
                                                                   call.offset, call.dtype, out.tensor(),
                                                                   workspace_size, executor);
        }
    };
    phases.two = call.version == Version::kV1   ? aclnnDropoutGenMask
                 : call.version == Version::kV2 ? aclnnDropoutGenMaskV2
                                                : aclnnDropoutGenMaskV2Tensor;
    if (between) phases.between = [&] { between(seed, offset); };
    MaskResult result{flash_attention::testing::run_phases(phases), {}, true};
    aclDestroyIntArray(shape);
    result.untouched = out.untouched();
    if (result.phase_one == 0 && result.phase_two == 0) {
        EXPECT_EQ(result.allocations, 0U) << "in phase two";
        EXPECT_TRUE(out.surroundings_untouched());
        result.bytes = out.read<uint8_t>();
    }
    return result;
}

}  // namespace dropout_gen_mask::testing
