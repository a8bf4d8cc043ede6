#include "generators.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <c10/core/GeneratorImpl.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include "npu_storage.h"

namespace npu_fallback {
namespace {

// Operators of the wheel move the offset in multiples of four and rely on that.
constexpr uint64_t kOffsetStep = 4;

// The beginning of torch_npu's NPUGeneratorState and NPUGeneratorImpl; never made here. The functions that give and
// take the offset ask each time whether a graph is being captured. That takes 0.9 us a call, and there are no graphs
// here.
struct NpuGeneratorState : c10::intrusive_ptr_target {
    uint64_t seed;
    uint64_t offset;
};
struct NpuGenerator : c10::GeneratorImpl {
    NpuGeneratorState* state;
};

NpuGeneratorState& state_of(c10::GeneratorImpl* generator) {
    return *static_cast<NpuGenerator*>(generator)->state;
}

// The state is what the functions say, and follows them.
bool check_generator_layout(c10::GeneratorImpl* generator) {
    const NpuGeneratorState& state = state_of(generator);
    const uint64_t offset = generator->get_offset();
    bool agrees = state.seed == generator->current_seed() && state.offset == offset;
    generator->set_offset(offset + kOffsetStep);
    agrees &= state.offset == offset + kOffsetStep;
    generator->set_offset(offset);
    TORCH_CHECK(agrees,
                "npu_fallback: this torch_npu keeps the state of its generators in another form than 2.13.0 does");
    return agrees;
}

// Seed and offset for a call, which moves the offset on.
std::pair<uint64_t, uint64_t> advance(at::Generator npu_generator) {
    std::lock_guard<std::mutex> lock(npu_generator.mutex());
    c10::GeneratorImpl* generator = npu_generator.unsafeGetGeneratorImpl();
    [[maybe_unused]] static const bool checked = check_generator_layout(generator);
    NpuGeneratorState& state = state_of(generator);
    return {state.seed, std::exchange(state.offset, state.offset + kOffsetStep)};
}

// Where a CPU generator keeps its engine, 2.5 KB. Its own function takes a copy of another engine and copies that once
// more, which takes as long as making the numbers.
at::mt19937& engine_of(at::CPUGeneratorImpl& generator);
template <auto kMember>
struct EngineAccess {
    friend at::mt19937& engine_of(at::CPUGeneratorImpl& generator) { return generator.*kMember; }
};
template struct EngineAccess<&at::CPUGeneratorImpl::engine_>;  // the one place where a private name may be given

// All that an engine holds, as it lies there.
at::mt19937_data_pod& data_of(at::mt19937& engine) {
    static_assert(std::is_standard_layout_v<at::mt19937> && sizeof(at::mt19937) == sizeof(at::mt19937_data_pod));
    return reinterpret_cast<at::mt19937_data_pod&>(engine);
}

// Unrelated numbers for numbers that are not: both halves of a product of 128 bits.
uint64_t scramble(uint64_t x) {
    const auto product = static_cast<unsigned __int128>(x) * (x ^ 0x9e3779b97f4a7c15ULL);
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Puts the engine into the state of the call at `offset` behind the seed. The call at offset 0 draws what the CPU
// draws. For the others the usual seeding, one number from the last, takes longer than most calls; numbers that are
// random already can be the state at once.
void seed_engine(at::mt19937& engine, uint64_t seed, uint64_t offset) {
    if (offset == 0) {
        engine = at::mt19937(seed);
        return;
    }
    at::mt19937_data_pod& data = data_of(engine);
    data.seed_ = seed;
    data.seeded_ = true;
    data.left_ = at::MERSENNE_STATE_N;
    data.next_ = 1;
    constexpr uint64_t kStep = 0xd1342543de82ef95ULL;  // odd: the counter comes by every number
    uint64_t counter = scramble(scramble(seed + kStep) + offset * kStep);
    static_assert(sizeof(data.state_) % sizeof(uint64_t) == 0);
    auto* words = reinterpret_cast<char*>(data.state_.data());
    for (size_t at = 0; at < sizeof(data.state_); at += sizeof(uint64_t)) {
        const uint64_t bits = scramble(counter += kStep);
        std::memcpy(words + at, &bits, sizeof(bits));
    }
}

}  // namespace

at::Generator draw_host_generator(const at::Generator& npu_generator) {
    // One for each thread, because making one seeds it. A call is over before the thread draws for the next.
    thread_local const at::Generator host = at::make_generator<at::CPUGeneratorImpl>();
    const auto [seed, offset] = advance(npu_generator);
    auto* generator = static_cast<at::CPUGeneratorImpl*>(host.unsafeGetGeneratorImpl());
    seed_engine(engine_of(*generator), seed, offset);
    generator->set_next_float_normal_sample(std::nullopt);
    generator->set_next_double_normal_sample(std::nullopt);
    return host;
}

const at::Generator& default_npu_generator(c10::DeviceIndex device) {
    return at::globalContext().defaultGenerator(c10::Device(kNpu, device));
}

}  // namespace npu_fallback
