// What the instruction set that every processor has can do at most: vectors of four floats, of which g++ and clang make
// SSE2 (multiply, then add) or Neon (both in one).
#include "peak.h"
#include "peak_loop.h"

namespace fusion_bench {
namespace {

typedef float Floats __attribute__((vector_size(16)));

// Of 16 registers two hold the constants; Neon has 32.
#if defined(__x86_64__)
constexpr size_t kChains = 14;
#else
constexpr size_t kChains = 24;
#endif

}  // namespace

double multiply_add_portable(int64_t rounds) {
    const Floats factor = Floats{} + kFactor, term = Floats{} + kTerm;
    return run_chains<Floats, kChains>(rounds, 2.0, [=](Floats x) { return x * factor + term; });
}

}  // namespace fusion_bench
