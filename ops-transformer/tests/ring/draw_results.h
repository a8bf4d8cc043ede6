// Partial results with random numbers, as attention gives them: for tests of the ring update.
#pragma once

#include <cfloat>
#include <cmath>
#include <random>

#include "ring_call.h"

namespace ring_attention_update::testing {

using Random = std::mt19937_64;

// Kinds of rows by turns, at random: ordinary ones, fully masked ones, and ones of a part without keys. What does not
// count may hold anything.
enum class Rows { kOrdinary, kMixed };

struct RowStatistics {
    double max, sum;
};

inline double uniform(Random& random, double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random);
}

// Maxima are up to `spread` apart, sums those of 1 to 5000 keys.
inline PartialResult draw_part(Random& random, DType dtype, const std::vector<int64_t>& out_shape, int64_t entries,
                               double spread, Rows rows) {
    PartialResult part;
    int64_t count = 1;
    for (const int64_t size : out_shape) count *= size;
    std::normal_distribution<double> normal;
    for (int64_t i = 0; i < count; i++) part.out.push_back(flash_attention::testing::rounded(dtype, normal(random)));
    for (int64_t i = 0; i < entries; i++) {
        const uint64_t kind = rows == Rows::kMixed ? random() % 6 : 0;
        part.max.push_back(static_cast<float>(kind == 4   ? -static_cast<double>(FLT_MAX)
                                              : kind == 5 ? 0.0
                                                          : uniform(random, -spread / 2, spread / 2)));
        part.sum.push_back(kind == 4   ? static_cast<double>(FLT_MAX)
                           : kind == 5 ? 0.0
                                       : static_cast<double>(static_cast<float>(std::exp(uniform(random, 0, 8.5)))));
    }
    return part;
}

inline int64_t entries_of(const RingCall& call) {
    int64_t entries = 1;
    for (const int64_t size : call.tensors[kPrevMax]->shape) entries *= size;
    return entries / 8;
}

inline void draw(RingCall& call, Random& random, double spread, Rows rows) {
    const std::vector<int64_t>& out = call.tensors[kPrevOut]->shape;
    call.previous = draw_part(random, call.dtype, out, entries_of(call), spread, rows);
    call.current = draw_part(random, call.dtype, out, entries_of(call), spread, rows);
}

// How much the exponent counts in the merge of two statistics: d = |m1 - m2| times the share that the part with the
// smaller maximum has in the sum. An error of d, relative, becomes this much in the sum. It is below 0.3 for equal
// sums, and grows with the logarithm of their ratio.
inline double conditioning_of(const RowStatistics& a, const RowStatistics& b) {
    const RowStatistics &large = a.max > b.max ? a : b, &small = a.max > b.max ? b : a;
    const double hidden = -static_cast<double>(FLT_MAX);
    if (large.sum == 0 || small.sum == 0 || small.max == hidden) return 0;
    const double distance = large.max - small.max, weight = small.sum * std::exp(-distance);
    return distance * weight / (large.sum + weight);
}
inline double conditioning_of(const PartialResult& a, const PartialResult& b) {
    double largest = 0;
    for (size_t i = 0; i < a.max.size(); i++)
        largest = std::max(largest, conditioning_of({a.max[i], a.sum[i]}, {b.max[i], b.sum[i]}));
    return largest;
}

// What one update may be off by, relative to the sum, in half units of a float: the difference of the maxima is
// rounded, and so are log2(e) and the product with it, 2.25 units of d; the exponential is within two units, and a
// product and a sum follow.
inline double sum_error(double conditioning) {
    return (4 + 2.25 * conditioning) * 0x1p-24;
}
// Relative to the largest output of the two parts: both weights have the error of the sum, one also that of its own
// exponential, product and quotient; two products with outputs and their sum add 3. Then the output is rounded to its
// type.
inline double update_error(DType dtype, double conditioning) {
    return 2 * sum_error(conditioning) + 4 * 0x1p-24 +
           (dtype == DType::kFp32 ? 0.0 : flash_attention::testing::unit_roundoff(dtype));
}

}  // namespace ring_attention_update::testing
