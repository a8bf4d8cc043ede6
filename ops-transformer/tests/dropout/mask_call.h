// A call of a dropout mask generator as data, legal or not.
#pragma once

#include <string>
#include <vector>

#include "aclnnop/aclnn_dropout_gen_mask.h"
#include "operands/operand.h"

namespace dropout_gen_mask::testing {

using flash_attention::testing::expect_refusal;
using flash_attention::testing::List;
using flash_attention::testing::Operand;
using flash_attention::testing::PhaseResult;
using flash_attention::testing::Tensor;
using flash_attention::testing::TensorSpec;

enum class Version { kV1, kV2, kV2Tensor };
inline constexpr Version kVersions[] = {Version::kV1, Version::kV2, Version::kV2Tensor};

inline int64_t padded_bytes(int64_t bits) {
    return (bits + 127) / 128 * 16;
}

struct MaskCall {
    Version version = Version::kV2;
    List shape = std::vector<int64_t>{128};
    double prob = 0.1;
    int64_t seed = 2, offset = 0;
    aclDataType dtype = ACL_FLOAT;
    Tensor out = TensorSpec{.shape = {16}, .dtype = ACL_UINT8};
    Tensor seed_tensor = TensorSpec{.shape = {1}, .dtype = ACL_INT64};
    Tensor offset_tensor = TensorSpec{.shape = {1}, .dtype = ACL_INT64};
    int64_t seed_in_tensor = 0, offset_in_tensor = 0;  // of V2Tensor
    bool null_workspace_size = false, null_executor = false;

    const char* name() const {
        return version == Version::kV1   ? "aclnnDropoutGenMask"
               : version == Version::kV2 ? "aclnnDropoutGenMaskV2"
                                         : "aclnnDropoutGenMaskV2Tensor";
    }
};

struct MaskResult : PhaseResult {
    std::vector<uint8_t> bytes;
    bool untouched = true;
};

// `between` happens between the phases, with the tensors of seed and offset in hand.
using Between = std::function<void(Operand& seed, Operand& offset)>;
MaskResult run(const MaskCall& call, const Between& between = {});

// n bits in a mask of one dimension.
MaskCall call_of(int64_t bits, double prob, int64_t seed, int64_t offset, aclDataType dtype);

}  // namespace dropout_gen_mask::testing
