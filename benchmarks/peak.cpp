#include "peak.h"

#include <array>
#include <cstring>

#include "clock.h"
#include "opbase/cpu_features.h"

namespace fusion_bench {

PeakLoop peak_loop(std::string_view table, flash_attention::testing::DType dtype) {
#if defined(__x86_64__)
    const opbase::CpuFeatures& has = opbase::cpu_features();
    const bool bf16 = dtype == flash_attention::testing::DType::kBf16;
    if (table == "avx512_bf16" && bf16 && has.avx512_bf16) return dot_product_avx512_bf16;
    if (table.substr(0, 6) == "avx512" && has.avx512) return multiply_add_avx512;
    if (table.substr(0, 3) == "avx" && has.avx2) return multiply_add_avx2;
#endif
    return multiply_add_portable;
}

double measure_peak(PeakLoop loop, double flops) {
    const auto rounds = static_cast<int64_t>(flops / loop(1)) + 1;
    const double begin = processor_time();
    const double done = loop(rounds);
    return done / (processor_time() - begin);
}

void add_arrays(const float* a, const float* b, float* out, size_t count) {
    for (size_t i = 0; i < count; i++) out[i] = a[i] + b[i];
}

double measure_reading(const void* data, size_t bytes) {
    // As many sums as hide the latency of an addition.
    typedef uint64_t Words __attribute__((vector_size(16)));
    std::array<Words, 8> sums{};
    const double begin = processor_time();
    const auto* at = static_cast<const char*>(data);
    for (size_t done = 0; done + sizeof(sums) <= bytes; done += sizeof(sums)) {
        for (size_t i = 0; i < sums.size(); i++) {
            Words words;
            std::memcpy(&words, at + done + i * sizeof(words), sizeof(words));
            sums[i] += words;
        }
    }
    for (size_t i = 1; i < sums.size(); i++) sums[0] += sums[i];
    const volatile Words kept = sums[0];
    static_cast<void>(kept);
    return processor_time() - begin;
}

}  // namespace fusion_bench
