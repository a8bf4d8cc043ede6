#include <immintrin.h>

#include "peak.h"
#include "peak_loop.h"

namespace fusion_bench {

// Each lane of a dot product multiplies two pairs and adds both products to its sum: four operations.
double dot_product_avx512_bf16(int64_t rounds) {
    const __m512bh small = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0x1p-40F), _mm512_set1_ps(0x1p-40F));
    const __m512bh ones = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1.0F), _mm512_set1_ps(1.0F));
    // Two a cycle with a latency of 6 need 12 chains.
    return run_chains<__m512, 24>(rounds, 4.0, [=](__m512 x) { return _mm512_dpbf16_ps(x, small, ones); });
}

}  // namespace fusion_bench
