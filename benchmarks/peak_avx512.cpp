#include <immintrin.h>

#include "peak.h"
#include "peak_loop.h"

namespace fusion_bench {

double multiply_add_avx512(int64_t rounds) {
    const __m512 factor = _mm512_set1_ps(kFactor), term = _mm512_set1_ps(kTerm);
    return run_chains<__m512, 24>(rounds, 2.0, [=](__m512 x) { return _mm512_fmadd_ps(x, factor, term); });
}

}  // namespace fusion_bench
