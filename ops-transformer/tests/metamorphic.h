// What the tests share that compare two calls with each other: calls that are made from calls, and how close their
// results have to be.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "opbase/parallel.h"
#include "testing/backward_runner.h"
#include "testing/judge.h"

namespace flash_attention::testing {

// One test for each element type.
class Types : public ::testing::TestWithParam<DType> {
  protected:
    Case parse(const std::string& text) const {
        return parse_case(text + " dtype=" + std::string(name_of(GetParam())));
    }
    Call call_of(const std::string& text) const { return make_call(parse(text)); }
};

inline const auto kAllTypes = ::testing::Values(DType::kFp32, DType::kFp16, DType::kBf16);
inline std::string type_name(const ::testing::TestParamInfo<DType>& info) {
    return std::string(name_of(info.param));
}

inline Gradients gradients_of(const BackwardCall& call) {
    const BackwardResult result = run(call);
    EXPECT_EQ(result.phase_one, 0) << result.error_text << rerun_hint(call.description);
    EXPECT_EQ(result.phase_two, 0) << result.error_text << rerun_hint(call.description);
    EXPECT_EQ(lines(result.broken_promises), "") << rerun_hint(call.description);
    return result.gradients;
}

// Puts the number of threads back when a test ends, however it ends.
class ThreadCount {
  public:
    ~ThreadCount() { opbase::set_thread_count(0); }
    void set(int threads) { opbase::set_thread_count(threads); }
};

inline Outputs outputs_of(const Call& call) {
    const RunResult result = run(call);
    EXPECT_EQ(result.phase_one, 0) << result.error_text << rerun_hint(call.description);
    EXPECT_EQ(result.phase_two, 0) << result.error_text << rerun_hint(call.description);
    EXPECT_EQ(lines(result.broken_promises), "") << rerun_hint(call.description);
    return result.outputs;
}

// Results of two orders of arithmetic: each is within the bound, so they are within twice the bound of each other. The
// bound is that of `call`, which has to be the one with the larger sum of absolute terms. Where the inputs of the other
// call are not the same real numbers but rounded ones, `rounding` says by how many roundings of A an exponent differs.
inline void expect_within_bounds(const Call& call, const Outputs& a, const Outputs& b, double rounding = 0) {
    const reference::ScoreResult r = reference::score(call.arguments);
    const Case& c = call.description;
    ASSERT_EQ(a.out.size(), b.out.size()) << rerun_hint(c);
    ASSERT_EQ(a.max.size(), b.max.size()) << rerun_hint(c);
    for (size_t row = 0; row < r.rows.size(); row++) {
        const double moved = rounding * 0x1p-24 * r.rows[row].conditioning;
        auto compare = [&](Quantity quantity, DType dtype, uint32_t first, uint32_t second, double exact, double more) {
            const double difference = std::fabs(from_bits(dtype, first) - from_bits(dtype, second));
            const bool ordinary = r.rows[row].kind == reference::RowKind::kOrdinary;
            EXPECT_LE(difference, ordinary ? 2 * bound_of(quantity, c.dtype, r.rows[row], exact) + more : 0.0)
                << "row " << row << "; " << rerun_hint(c);
        };
        for (int64_t d = 0; d < c.dv; d++) {
            const size_t at = r.rows[row].out_begin + d;
            compare(Quantity::kOut, c.dtype, a.out[at], b.out[at], r.attention_out.values[at],
                    2 * moved * r.rows[row].largest_value);
        }
        compare(Quantity::kMax, DType::kFp32, a.max[row * 8], b.max[row * 8], r.softmax_max[row], moved);
        compare(Quantity::kSum, DType::kFp32, a.sum[row * 8], b.sum[row * 8], r.softmax_sum[row],
                2 * moved * r.softmax_sum[row]);
    }
}

// Some sequences of a TND call as a call of their own, in the given order, with everything that belongs to them.
Call with_sequences(const Call& from, const std::vector<size_t>& chosen);

// The same of a backward call, with output and statistics that belong to the sequences.
BackwardCall with_sequences(const BackwardCall& from, const std::vector<size_t>& chosen);

// Rows and keys of a TND call as one of their own, in sequences of the given lengths. Bias and drop mask stay behind.
struct Cut {
    int64_t first_row = 0, first_key = 0;
    std::vector<int64_t> q, kv;
};
Call cut_out(const Call& from, const Cut& cut);

// The values of a call whose layout is BSND, in another layout.
Call in_layout(const Call& from, const std::string& layout);
BackwardCall in_layout(const BackwardCall& from, const std::string& layout);

// Where row `row` of a [B, S, N, D] tensor, a number of (b * S + s) * N + n, lies in another layout.
int64_t row_in_layout(const std::string& layout, int64_t row, int64_t batch, int64_t seq, int64_t heads);

}  // namespace flash_attention::testing
