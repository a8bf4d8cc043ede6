#include <immintrin.h>

#include "peak.h"
#include "peak_loop.h"

namespace fusion_bench {

double multiply_add_avx2(int64_t rounds) {
    const __m256 factor = _mm256_set1_ps(kFactor), term = _mm256_set1_ps(kTerm);
    // Of 16 registers two hold the constants; two operations a cycle with a latency of 4 or 5 need 8 or 10 chains.
    return run_chains<__m256, 14>(rounds, 2.0, [=](__m256 x) { return _mm256_fmadd_ps(x, factor, term); });
}

}  // namespace fusion_bench
