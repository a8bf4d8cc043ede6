#include "dropout_gen_mask/generator/mask_stream.h"

#include <cmath>

#include "ascendcl/float16.h"

namespace dropout_gen_mask {

MaskStream make_stream(uint64_t seed, uint64_t offset, double drop_prob, Precision precision) {
    auto prob = static_cast<float>(drop_prob);
    if (precision == Precision::kF16) prob = ascendcl::fp16_to_float(ascendcl::float_to_fp16(prob));
    if (precision == Precision::kBf16) prob = ascendcl::bf16_to_float(ascendcl::float_to_bf16(prob));
    const uint32_t words = 1U << fraction_bits(precision);
    // u = k / words >= prob is k >= prob * words; the product is exact.
    const double first_kept = std::ceil(static_cast<double>(prob) * static_cast<double>(words));
    return {seed, offset, words - 1, static_cast<uint32_t>(first_kept)};
}

}  // namespace dropout_gen_mask
