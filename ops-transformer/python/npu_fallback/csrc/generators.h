// Random numbers of npu tensors, drawn by CPU kernels.
#pragma once

#include <ATen/core/Generator.h>

namespace npu_fallback {

/// A CPU generator for one operator call of this thread, in a state made of that of the npu generator, which then moves
/// on. After torch.manual_seed the first call draws what the CPU draws; a saved state draws the same numbers again.
at::Generator draw_host_generator(const at::Generator& npu_generator);

/// The generator that a call on this device uses when it names none.
const at::Generator& default_npu_generator(c10::DeviceIndex device);

}  // namespace npu_fallback
