#include "generators.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>

#include "npu_storage.h"

namespace npu_fallback {
namespace {

// Operators of the wheel move the offset in multiples of four and rely on that.
constexpr uint64_t kOffsetStep = 4;

// Different (seed, offset) give unrelated seeds (the finaliser of SplitMix64), but offset 0 keeps the seed, so that the
// first numbers after torch.manual_seed are those of the CPU.
uint64_t seed_of_call(uint64_t seed, uint64_t offset) {
    if (offset == 0) return seed;
    uint64_t z = seed + 0x9e3779b97f4a7c15ULL * (offset + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

}  // namespace

at::Generator draw_host_generator(at::Generator npu_generator) {
    std::lock_guard<std::mutex> lock(npu_generator.mutex());
    c10::GeneratorImpl* state = npu_generator.unsafeGetGeneratorImpl();
    const uint64_t offset = state->get_offset();
    state->set_offset(offset + kOffsetStep);
    return at::make_generator<at::CPUGeneratorImpl>(seed_of_call(state->current_seed(), offset));
}

at::Generator default_npu_generator(c10::DeviceIndex device) {
    return at::globalContext().defaultGenerator(c10::Device(kNpu, device));
}

}  // namespace npu_fallback
