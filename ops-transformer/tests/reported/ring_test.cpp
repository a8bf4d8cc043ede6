// Situations of rings: keys in parts, merged by the ring update, forward and backward, against one call.
#include <algorithm>
#include <cmath>
#include <limits>

#include "reported.h"
#include "ring_call.h"

namespace flash_attention::testing {
namespace {

namespace ring = ring_attention_update;
using ring::reference::PartialResult;

// Rows [begin, end) of a tensor whose first dimension are the tokens of one sequence.
reference::Tensor tokens(const reference::Tensor& from, int64_t begin, int64_t end) {
    const int64_t width = element_count(from.shape) / from.shape[0];
    reference::Tensor part{from.shape, {from.values.begin() + begin * width, from.values.begin() + end * width}};
    part.shape[0] = end - begin;
    return part;
}

// The call with queries and keys [begin, end) of its sequence; a mask stays behind.
struct Range {
    int64_t begin, end;
    int64_t size() const { return end - begin; }
};
Call part_of(const Call& whole, Range rows, Range keys) {
    Call part = whole;
    Case& c = part.description;
    c.q = {rows.size()};
    c.kv = {keys.size()};
    reference::ScoreArguments& a = part.arguments;
    if (c.varlen()) {
        a.actual_seq_qlen = c.q;
        a.actual_seq_kvlen = c.kv;
    }
    a.query = tokens(whole.arguments.query, rows.begin, rows.end);
    a.key = tokens(whole.arguments.key, keys.begin, keys.end);
    a.value = tokens(whole.arguments.value, keys.begin, keys.end);
    return part;
}

// What a call gives, as the ring update takes it.
PartialResult attend(const Call& call) {
    const Outputs outputs = outputs_of(call);
    PartialResult result{numbers(call, outputs), {}, {}};
    for (size_t at = 0; at < outputs.max.size(); at += 8) {
        result.max.push_back(from_bits(DType::kFp32, outputs.max[at]));
        result.sum.push_back(from_bits(DType::kFp32, outputs.sum[at]));
    }
    return result;
}

PartialResult merge(const Case& c, const PartialResult& previous, const PartialResult& current) {
    ring::testing::RingCall call = c.varlen() ? ring::testing::tnd_call(c.dtype, {0, c.q[0]}, c.heads, c.dv)
                                              : ring::testing::sbh_call(c.dtype, c.q[0], c.batch, c.heads, c.dv);
    call.previous = previous;
    call.current = current;
    const ring::testing::RingResult result = run(call);
    EXPECT_EQ(result.phase_one, 0) << result.text;
    EXPECT_EQ(result.phase_two, 0) << result.text;
    return result.merged;
}

// Backward of one part gets the statistics and the output of all of them.
BackwardCall backward_of(const Call& part, const reference::Tensor& dy, const PartialResult& merged) {
    BackwardCall call;
    call.description = part.description;
    call.description.backward = true;
    call.arguments.forward = part.arguments;
    call.arguments.dy = dy;
    call.arguments.attention_in = {dy.shape, merged.out};
    call.arguments.softmax_max = merged.max;
    call.arguments.softmax_sum = merged.sum;
    return call;
}

// One more token of keys and values that no sequence has.
void add_padding(Call& call) {
    for (reference::Tensor* tensor : {&call.arguments.key, &call.arguments.value}) {
        const int64_t width = element_count(tensor->shape) / tensor->shape[0];
        tensor->values.insert(tensor->values.end(), width, std::numeric_limits<double>::quiet_NaN());
        tensor->shape[0]++;
    }
    call.description.slack_kv++;
}

// Keys in `count` parts of `length` tokens, where the last one may be padded to that.
void expect_ring_is_one_call(const std::string& text, int64_t count, int64_t length) {
    const Call whole = call_of(text);
    const Case& c = whole.description;
    const BackwardCall single = make_backward_call(whole);
    std::vector<Call> parts;
    PartialResult merged;
    for (int64_t part = 0; part < count; part++) {
        const int64_t begin = part * length, end = std::min(begin + length, c.kv[0]);
        parts.push_back(part_of(whole, {0, c.q[0]}, {begin, end}));
        if (end - begin < length) add_padding(parts.back());
        merged = part == 0 ? attend(parts[0]) : merge(c, merged, attend(parts.back()));
    }
    const reference::ScoreResult expected = reference::score(whole.arguments);
    for (size_t at = 0; at < merged.out.size(); at++)  // the parts, and each update, as far off as one call may be
        EXPECT_NEAR(merged.out[at], expected.attention_out.values[at],
                    static_cast<double>(count) * 0x1p-24 * 100 * expected.rows[0].largest_value);

    std::vector<double> dq(element_count(query_shape(c)), 0.0), dk, dv;
    for (const Call& part : parts) {
        const BackwardCall call = backward_of(part, single.arguments.dy, merged);
        const Gradients gradients = expect_agrees(call);
        const std::vector<double> of_part = numbers(call, gradients, kDq);
        for (size_t at = 0; at < dq.size(); at++) dq[at] += of_part[at];
        for (const auto& [all, gradient] : {std::pair{&dk, kDk}, std::pair{&dv, kDv}}) {
            const std::vector<double> rows = numbers(call, gradients, gradient);
            all->insert(all->end(), rows.begin(), rows.end());
        }
    }
    // Sums of exponents of both passes, as in a round trip through one call: a hundred roundings at most.
    const reference::ScoreGradResult exact = reference::score_grad(single.arguments);
    for (const auto& [got, gradient] : {std::pair{&dq, kDq}, std::pair{&dk, kDk}, std::pair{&dv, kDv}}) {
        const reference::Gradient& right = gradient_of(exact, gradient);
        double difference = 0, size = 0;
        for (size_t at = 0; at < right.values.size(); at++) {
            difference += std::fabs((*got)[at] - right.values[at]);
            size += right.absolute[at] + right.uncertain[at];
        }
        EXPECT_LE(difference, 100 * 0x1p-24 * size) << name_of(gradient);
        // Padding gets none.
        for (size_t at = right.values.size(); at < got->size(); at++) EXPECT_EQ((*got)[at], 0) << name_of(gradient);
    }
}

// RING-04: each part has keys of its own, also in the backward pass.
TEST(Ring, RING_04_BackwardOfEachPart) {
    expect_ring_is_one_call("layout=SBH dtype=fp32 n=2 d=16 q=64 kv=64", 4, 16);
    expect_ring_is_one_call("layout=TND dtype=fp32 n=2 d=16 q=64 kv=64", 4, 16);
    expect_ring_is_one_call("layout=SBH dtype=fp32 n=4 d=40 dv=16 q=130 kv=600", 3, 200);
}

// RING-06: seven tokens in two parts of four.
TEST(Ring, RING_06_OddLengths) {
    expect_ring_is_one_call("layout=TND dtype=fp32 n=1 d=8 q=7 kv=7", 2, 4);
    expect_ring_is_one_call("layout=TND dtype=fp32 n=2 d=24 q=101 kv=101", 2, 51);
}

// ASC-46: a mask cut along rows and keys; one of the blocks hides all of its keys.
TEST(Ring, ASC_46_BlocksOfAMask) {
    const auto hides = [](int64_t i, int64_t j) { return j > i || (i + j) % 5 == 1; };
    for (const char* dtype : {"bf16", "fp16", "fp32"}) {
        Call whole = call_of(std::string("layout=SBH n=4 d=32 q=32 kv=32 mode=1 mask=b1 dtype=") + dtype);
        set_mask(whole, {1, 1, 32, 32}, [&](int64_t, int64_t, int64_t i, int64_t j) { return hides(i, j); });
        const reference::ScoreResult expected = reference::score(whole.arguments);
        for (const Range rows : {Range{0, 16}, Range{16, 32}}) {
            std::vector<PartialResult> parts;
            for (const Range keys : {Range{0, 16}, Range{16, 32}}) {
                Call block = part_of(whole, rows, keys);
                set_mask(block, {1, 1, 16, 16},
                         [&](int64_t, int64_t, int64_t i, int64_t j) { return hides(rows.begin + i, keys.begin + j); });
                parts.push_back(attend(block));
            }
            const PartialResult merged = merge(part_of(whole, rows, {0, 32}).description, parts[0], parts[1]);
            for (int64_t n = 0; n < 4; n++) {
                for (int64_t i = 0; i < 16; i++) {
                    const reference::Row& row = expected.rows[n * 32 + rows.begin + i];
                    for (int64_t d = 0; d < 32; d++) {
                        const double right = expected.attention_out.values[row.out_begin + d];
                        // Each part rounds, and the update does.
                        EXPECT_NEAR(merged.out[(i * 4 + n) * 32 + d], right,
                                    3 * bound_of(Quantity::kOut, whole.description.dtype, row, right));
                    }
                }
            }
        }
    }
}

}  // namespace
}  // namespace flash_attention::testing
