// The table that runs everywhere: vector extensions for the compiler's baseline instruction set.
#include "kernels/forward.h"
#include "kernels/tables.h"

namespace flash_attention::portable {

namespace {

int64_t forward_scratch_bytes(int64_t features, int64_t value_dim) {
    return Scratch::floats(features, value_dim) * static_cast<int64_t>(sizeof(float));
}

}  // namespace

const Kernels kTable = {
    "portable",
    kQueryBlock,
    {forward<F32>, forward<F16>, forward<Bf16>},
    forward_scratch_bytes,
};

}  // namespace flash_attention::portable
