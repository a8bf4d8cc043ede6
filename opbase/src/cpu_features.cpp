#include "opbase/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>

#include <cstdint>
#include <cstring>
#endif

namespace opbase {
namespace {

#if defined(__x86_64__)

struct Registers {
    uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// All zero for leaves that the processor does not have.
Registers cpuid(uint32_t leaf, uint32_t subleaf = 0) {
    Registers r;
    if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
    return r;
}

bool has_bits(uint64_t value, uint64_t bits) {
    return (value & bits) == bits;
}
constexpr uint64_t bit(int index) {
    return uint64_t{1} << index;
}

// Which register states the operating system saves on a context switch.
uint64_t saved_states() {
    constexpr uint64_t kOsXsave = bit(27);
    if (!has_bits(cpuid(1).ecx, kOsXsave)) return 0;
    uint32_t low = 0;
    uint32_t high = 0;
    // The intrinsic would need -mxsave for the whole file.
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return uint64_t{high} << 32 | low;
}

std::string model_name() {
    constexpr uint32_t kFirstLeaf = 0x80000002U;  // three leaves of 16 characters
    char text[49] = {};
    for (uint32_t i = 0; i < 3; i++) {
        const Registers r = cpuid(kFirstLeaf + i);
        std::memcpy(text + i * sizeof(r), &r, sizeof(r));
    }
    const std::string name(text);
    const size_t first = name.find_first_not_of(' ');
    return first == std::string::npos ? std::string() : name.substr(first, name.find_last_not_of(' ') - first + 1);
}

CpuFeatures detect() {
    constexpr uint64_t kAvxStates = bit(1) | bit(2);                               // XMM, upper halves of YMM
    constexpr uint64_t kAvx512States = kAvxStates | bit(5) | bit(6) | bit(7);      // masks, ZMM0-15, ZMM16-31
    constexpr uint64_t kFmaAvxF16c = bit(12) | bit(28) | bit(29);                  // leaf 1, ecx
    constexpr uint64_t kAvx2 = bit(5);                                             // leaf 7, ebx
    constexpr uint64_t kAvx512 = bit(16) | bit(17) | bit(28) | bit(30) | bit(31);  // F, DQ, CD, BW, VL; leaf 7, ebx
    constexpr uint64_t kAvx512Bf16 = bit(5);                                       // leaf 7.1, eax

    const uint64_t states = saved_states();
    const Registers leaf1 = cpuid(1);
    const Registers leaf7 = cpuid(7);
    CpuFeatures features;
    features.avx2 = has_bits(states, kAvxStates) && has_bits(leaf1.ecx, kFmaAvxF16c) && has_bits(leaf7.ebx, kAvx2);
    features.avx512 = features.avx2 && has_bits(states, kAvx512States) && has_bits(leaf7.ebx, kAvx512);
    // eax of leaf 7 is its highest subleaf.
    features.avx512_bf16 = features.avx512 && leaf7.eax >= 1 && has_bits(cpuid(7, 1).eax, kAvx512Bf16);
    features.model = model_name();
    return features;
}

#else

CpuFeatures detect() {
    return {};
}

#endif

// Found while the library is loaded: the guard of a local static would hang a child that is forked during the first
// call. Never destroyed: usable during exit.
const CpuFeatures& kFeatures = *new CpuFeatures(detect());

}  // namespace

const CpuFeatures& cpu_features() {
    return kFeatures;
}

}  // namespace opbase
