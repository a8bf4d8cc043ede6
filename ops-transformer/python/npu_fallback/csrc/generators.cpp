#include "generators.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "npu_storage.h"

namespace npu_fallback {
namespace {

// Operators of the wheel move the offset in multiples of four and rely on that.
constexpr uint64_t kOffsetStep = 4;

// The generator SplitMix64: unrelated numbers for neighbouring states.
class SplitMix {
  public:
    explicit SplitMix(uint64_t state) : state_(state) {}

    uint64_t operator()() {
        uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return z ^ (z >> 31);
    }

  private:
    uint64_t state_;
};

// The engine for a call at `offset` behind the seed. Its usual seeding, one number from the last, takes longer than
// most calls; numbers that are random already can be its state at once. The call at offset 0 draws what the CPU draws.
at::mt19937 engine_of_call(uint64_t seed, uint64_t offset) {
    if (offset == 0) return at::mt19937(seed);
    static const at::mt19937 blank;
    at::mt19937_data_pod state;
    state.seed_ = seed;
    state.seeded_ = true;
    state.left_ = at::MERSENNE_STATE_N;
    state.next_ = 1;
    static_assert(sizeof(state.state_) % sizeof(uint64_t) == 0);
    SplitMix random(SplitMix(seed)() + offset);
    auto* words = reinterpret_cast<char*>(state.state_.data());
    for (size_t at = 0; at < sizeof(state.state_); at += sizeof(uint64_t)) {
        const uint64_t bits = random();
        std::memcpy(words + at, &bits, sizeof(bits));
    }
    at::mt19937 engine = blank;
    engine.set_data(state);
    return engine;
}

// Seed and offset for a call, which moves the offset on.
std::pair<uint64_t, uint64_t> advance(at::Generator npu_generator) {
    std::lock_guard<std::mutex> lock(npu_generator.mutex());
    c10::GeneratorImpl* state = npu_generator.unsafeGetGeneratorImpl();
    const uint64_t offset = state->get_offset();
    state->set_offset(offset + kOffsetStep);
    return {state->current_seed(), offset};
}

}  // namespace

at::Generator draw_host_generator(const at::Generator& npu_generator) {
    // One for each thread, because making one seeds it. A call is over before the thread draws for the next.
    thread_local const at::Generator host = at::make_generator<at::CPUGeneratorImpl>();
    const auto [seed, offset] = advance(npu_generator);
    auto* generator = static_cast<at::CPUGeneratorImpl*>(host.unsafeGetGeneratorImpl());
    generator->set_engine(engine_of_call(seed, offset));
    generator->set_next_float_normal_sample(std::nullopt);
    generator->set_next_double_normal_sample(std::nullopt);
    return host;
}

const at::Generator& default_npu_generator(c10::DeviceIndex device) {
    return at::globalContext().defaultGenerator(c10::Device(kNpu, device));
}

}  // namespace npu_fallback
