// Attention over some keys at a time, merged by the ring update, against attention over all of them: in any order, in
// pairs or one after another, with rows that see nothing of a part and with a part without keys.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <numeric>

#include "aclnnop/aclnn_flash_attention_score.h"
#include "draw_results.h"

namespace ring_attention_update::testing {
namespace {

using flash_attention::testing::to_bits;
using flash_attention::testing::unit_roundoff;

constexpr DType kTypes[] = {DType::kFp32, DType::kFp16, DType::kBf16};

// Queries that see keys up to their own position (counted from the last one), or all keys.
struct Problem {
    DType dtype = DType::kFp32;
    bool packed = false;               // "TND" with these sequences; else "SBH" with batch 2
    const char* softmax_layout = "";   // of packed ones
    std::vector<int64_t> rows = {37};  // of each sequence
    int64_t keys = 256;                // of each sequence
    bool causal = true;
    int64_t heads = 2, dim = 40;

    int64_t batch() const { return packed ? static_cast<int64_t>(rows.size()) : 2; }
    int64_t width() const { return heads * dim; }
};

// Values of all tokens: token t of batch entry b at (b * length + t) * width.
struct Data {
    std::vector<double> query, key, value;
    double conditioning = 0;  // the largest |scale| * sum of |q k| of a pair
    double largest = 0;       // value
};

constexpr double kScale = 0.2;

Data draw_data(const Problem& p, uint64_t seed) {
    Random random(seed);
    std::normal_distribution<double> normal;
    const auto fill = [&](int64_t tokens) {
        std::vector<double> values(tokens * p.width());
        for (double& x : values) x = flash_attention::testing::rounded(p.dtype, normal(random));
        return values;
    };
    const int64_t query_tokens = p.packed ? std::accumulate(p.rows.begin(), p.rows.end(), int64_t{0}) : 2 * p.rows[0];
    Data data{fill(query_tokens), fill(p.batch() * p.keys), fill(p.batch() * p.keys)};
    for (int64_t t = 0; t < query_tokens; t++) {
        for (int64_t k = 0; k < p.batch() * p.keys; k++) {  // of other sequences too: a larger bound is one as well
            double sum = 0;
            for (int64_t c = 0; c < p.dim; c++)
                sum += std::fabs(data.query[t * p.width() + c] * data.key[k * p.width() + c]);
            data.conditioning = std::max(data.conditioning, kScale * sum);
        }
    }
    for (const double x : data.value) data.largest = std::max(data.largest, std::fabs(x));
    return data;
}

std::unique_ptr<Operand> operand_of(DType dtype, const std::vector<int64_t>& shape, const std::vector<double>& values) {
    const aclDataType type = dtype == DType::kFp32 ? ACL_FLOAT : dtype == DType::kFp16 ? ACL_FLOAT16 : ACL_BF16;
    auto operand = std::make_unique<Operand>(TensorSpec{.shape = shape, .dtype = type});
    std::vector<uint32_t> wide;
    for (const double x : values) wide.push_back(to_bits(dtype, x));
    if (dtype == DType::kFp32) {
        operand->write(wide);
    } else {
        operand->write(std::vector<uint16_t>(wide.begin(), wide.end()));
    }
    return operand;
}

// Keys [begin, end) of every sequence, in the order of the layout.
std::vector<double> some_keys(const Problem& p, const std::vector<double>& all, int64_t begin, int64_t end) {
    std::vector<double> part;
    const auto add = [&](int64_t b, int64_t t) {
        const auto from = all.begin() + (b * p.keys + t) * p.width();
        part.insert(part.end(), from, from + p.width());
    };
    if (p.packed) {
        for (int64_t b = 0; b < p.batch(); b++)
            for (int64_t t = begin; t < end; t++) add(b, t);
    } else {
        for (int64_t t = begin; t < end; t++)
            for (int64_t b = 0; b < 2; b++) add(b, t);
    }
    return part;
}

// Results without numbers, as a call of the ring update describes them.
RingCall empty_call(const Problem& p) {
    if (!p.packed) return sbh_call(p.dtype, p.rows[0], 2, p.heads, p.dim);
    std::vector<int64_t> ends = {0};
    for (const int64_t rows : p.rows) ends.push_back(ends.back() + rows);
    RingCall call = tnd_call(p.dtype, ends, p.heads, p.dim);
    call.softmax_layout = p.softmax_layout;
    return call;
}

std::vector<uint8_t> mask_of(const Problem& p, int64_t begin, int64_t end) {
    const int64_t rows = *std::max_element(p.rows.begin(), p.rows.end());
    std::vector<uint8_t> mask;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = begin; j < end; j++) mask.push_back(p.causal && j > i * p.keys / rows ? 1 : 0);
    return mask;
}

aclnnStatus attend_in_layout(const Problem& p, int64_t part_keys, Operand* const (&in)[4], Operand* const (&out)[3],
                             uint64_t* size, aclOpExecutor** executor) {
    if (!p.packed) {
        char layout[] = "SBH";
        return aclnnFlashAttentionScoreGetWorkspaceSize(in[0]->tensor(), in[1]->tensor(), in[2]->tensor(), nullptr,
                                                        nullptr, nullptr, in[3]->tensor(), nullptr, kScale, 1.0,
                                                        1 << 20, 1 << 20, p.heads, layout, 0, 1, out[1]->tensor(),
                                                        out[2]->tensor(), nullptr, out[0]->tensor(), size, executor);
    }
    std::vector<int64_t> q_ends, kv_ends;
    for (const int64_t rows : p.rows) {
        q_ends.push_back((q_ends.empty() ? 0 : q_ends.back()) + rows);
        kv_ends.push_back((kv_ends.empty() ? 0 : kv_ends.back()) + part_keys);
    }
    aclIntArray* q_list = aclCreateIntArray(q_ends.data(), q_ends.size());
    aclIntArray* kv_list = aclCreateIntArray(kv_ends.data(), kv_ends.size());
    char layout[] = "TND", in_token_order[] = "same_as_input", in_blocks[] = "";
    const aclnnStatus status = aclnnFlashAttentionVarLenScoreV4GetWorkspaceSize(
        in[0]->tensor(), in[1]->tensor(), in[2]->tensor(), nullptr, nullptr, nullptr, in[3]->tensor(), nullptr, q_list,
        kv_list, kScale, 1.0, 1 << 20, 1 << 20, p.heads, layout, 0, 1,
        std::string(p.softmax_layout) == "TND" ? in_token_order : in_blocks, out[1]->tensor(), out[2]->tensor(),
        nullptr, out[0]->tensor(), size, executor);
    aclDestroyIntArray(q_list);
    aclDestroyIntArray(kv_list);
    return status;
}

PartialResult attend(const Problem& p, const Data& data, int64_t begin, int64_t end) {
    const RingCall shapes = empty_call(p);
    std::vector<int64_t> key_shape = shapes.tensors[kPrevOut]->shape;
    key_shape[0] = (end - begin) * (p.packed ? p.batch() : 1);
    std::vector<double> query = data.query;
    if (!p.packed) {  // [batch][row] to [row][batch]
        for (int64_t s = 0; s < p.rows[0]; s++)
            for (int64_t b = 0; b < 2; b++)
                std::copy_n(data.query.begin() + (b * p.rows[0] + s) * p.width(), p.width(),
                            query.begin() + (s * 2 + b) * p.width());
    }
    const auto query_operand = operand_of(p.dtype, shapes.tensors[kPrevOut]->shape, query);
    const auto key = operand_of(p.dtype, key_shape, some_keys(p, data.key, begin, end));
    const auto value = operand_of(p.dtype, key_shape, some_keys(p, data.value, begin, end));
    const std::vector<uint8_t> bytes = mask_of(p, begin, end);
    const int64_t rows = *std::max_element(p.rows.begin(), p.rows.end());
    Operand mask(begin == end ? Tensor() : TensorSpec{.shape = {rows, end - begin}, .dtype = ACL_UINT8});
    mask.write(bytes);
    Operand out(shapes.tensors[kPrevOut]), max(shapes.tensors[kPrevMax]), sum(shapes.tensors[kPrevMax]);
    flash_attention::testing::PhasesOfCall phases;
    phases.one = [&](uint64_t* size, aclOpExecutor** executor) {
        return attend_in_layout(p, end - begin, {query_operand.get(), key.get(), value.get(), &mask},
                                {&out, &max, &sum}, size, executor);
    };
    phases.two = p.packed ? aclnnFlashAttentionVarLenScoreV4 : aclnnFlashAttentionScore;
    const PhaseResult result = flash_attention::testing::run_phases(phases);
    EXPECT_EQ(result.phase_one, 0) << result.text;
    EXPECT_EQ(result.phase_two, 0) << result.text;

    PartialResult part;
    if (p.dtype == DType::kFp32) {
        for (const uint32_t bits : out.read<uint32_t>())
            part.out.push_back(flash_attention::testing::from_bits(p.dtype, bits));
    } else {
        for (const uint16_t bits : out.read<uint16_t>())
            part.out.push_back(flash_attention::testing::from_bits(p.dtype, bits));
    }
    const std::vector<float> maxima = max.read<float>(), sums = sum.read<float>();
    for (size_t i = 0; i < maxima.size(); i += 8) {
        part.max.push_back(static_cast<double>(maxima[i]));
        part.sum.push_back(static_cast<double>(sums[i]));
    }
    return part;
}

// The largest of all merges of a test.
double worst_conditioning = 0;

PartialResult merge(const Problem& p, const PartialResult& a, const PartialResult& b) {
    worst_conditioning = std::max(worst_conditioning, conditioning_of(a, b));
    RingCall call = empty_call(p);
    call.previous = a;
    call.current = b;
    const RingResult result = run(call);
    EXPECT_EQ(result.phase_two, 0) << result.text;
    return result.merged;
}

PartialResult merge_all(const Problem& p, const std::vector<PartialResult>& parts) {
    PartialResult merged = parts[0];
    for (size_t i = 1; i < parts.size(); i++) merged = merge(p, merged, parts[i]);
    return merged;
}

PartialResult merge_in_pairs(const Problem& p, std::vector<PartialResult> parts) {
    while (parts.size() > 1) {
        std::vector<PartialResult> pairs;
        for (size_t i = 0; i + 1 < parts.size(); i += 2) pairs.push_back(merge(p, parts[i], parts[i + 1]));
        if (parts.size() % 2 == 1) pairs.push_back(parts.back());
        parts = pairs;
    }
    return parts[0];
}

std::vector<PartialResult> attend_to_parts(const Problem& p, const Data& data, int64_t count) {
    std::vector<PartialResult> parts;
    for (int64_t i = 0; i < count; i++) parts.push_back(attend(p, data, i * p.keys / count, (i + 1) * p.keys / count));
    return parts;
}

// Attention itself: of float 2^-24 (40 + 4 A + S / 512), with A the conditioning of the exponents; 16-bit types round
// their weights, here up to 2 units of the type, and their output.
double attention_error(const Problem& p, const Data& data) {
    const double unit = unit_roundoff(p.dtype);
    const double of_float = 0x1p-24 * (40 + 4 * data.conditioning + static_cast<double>(p.keys) / 512);
    return p.dtype == DType::kFp32 ? of_float : of_float + 3 * unit;
}

// The whole and the parts have errors of their own, and so has each of `merges` updates, whose part in the result is at
// most 1.
void expect_same_attention(const Problem& p, const Data& data, const PartialResult& got, const PartialResult& whole,
                           int64_t merges) {
    const double bound =
        (2 * attention_error(p, data) + static_cast<double>(merges) * update_error(p.dtype, worst_conditioning)) *
        data.largest;
    const double max_bound = 4 * 0x1p-23 * data.conditioning;  // a score may be summed in another order
    const double sums = p.dtype == DType::kFp32 ? attention_error(p, data) : 1e-4;
    const double sum_bound = 2 * sums + static_cast<double>(merges) * sum_error(worst_conditioning) + max_bound;
    double worst = 0;
    for (size_t i = 0; i < whole.out.size(); i++) worst = std::max(worst, std::fabs(got.out[i] - whole.out[i]));
    EXPECT_LE(worst, bound);
    for (size_t i = 0; i < whole.max.size(); i++) {
        if (whole.max[i] == got.max[i] && whole.sum[i] == got.sum[i]) continue;
        EXPECT_NEAR(got.max[i], whole.max[i], max_bound) << i;
        EXPECT_NEAR(got.sum[i] / whole.sum[i], 1, sum_bound) << i;
    }
}

std::vector<Problem> problems() {
    std::vector<Problem> all;
    for (const DType dtype : kTypes) {
        all.push_back({.dtype = dtype});
        all.push_back({.dtype = dtype, .packed = true, .rows = {19, 33, 5}});
        all.push_back({.dtype = dtype, .packed = true, .softmax_layout = "TND", .rows = {19, 33, 5}});
        all.push_back({.dtype = dtype, .rows = {37}, .causal = false});
    }
    return all;
}

class Parts : public ::testing::TestWithParam<Problem> {};

TEST_P(Parts, AnyOrderOfTwoThreeAndEight) {
    const Problem& p = GetParam();
    worst_conditioning = 0;
    const Data data = draw_data(p, 5);
    const PartialResult whole = attend(p, data, 0, p.keys);
    for (const int64_t count : {2, 3, 8}) {
        const std::vector<PartialResult> parts = attend_to_parts(p, data, count);
        std::vector<size_t> order(count);
        std::iota(order.begin(), order.end(), size_t{0});
        Random random(7);
        for (int attempt = 0; attempt < 6; attempt++) {  // all orders of two and three
            SCOPED_TRACE(fmt::format("{} parts, order {}", count, fmt::join(order, ",")));
            std::vector<PartialResult> ordered;
            for (const size_t i : order) ordered.push_back(parts[i]);
            expect_same_attention(p, data, merge_all(p, ordered), whole, count - 1);
            expect_same_attention(p, data, merge_in_pairs(p, ordered), whole, count - 1);
            if (count == 8) {
                std::shuffle(order.begin(), order.end(), random);
            } else {
                std::next_permutation(order.begin(), order.end());
            }
        }
    }
}

// Parts that change nothing: without keys, and fully masked.
TEST_P(Parts, EmptyPartsLeaveEveryBit) {
    const Problem& p = GetParam();
    const Data data = draw_data(p, 6);
    const PartialResult some = attend(p, data, 0, 100), none = attend(p, data, 100, 100);
    EXPECT_EQ(none.sum, std::vector<double>(none.sum.size(), 0.0));
    for (const PartialResult& merged : {merge(p, some, none), merge(p, none, some)}) {
        EXPECT_EQ(merged.out, some.out);
        EXPECT_EQ(merged.max, some.max);
        EXPECT_EQ(merged.sum, some.sum);
    }
    const PartialResult nothing = merge(p, none, none);
    EXPECT_EQ(nothing.out, none.out);
    EXPECT_EQ(nothing.sum, none.sum);
}

INSTANTIATE_TEST_SUITE_P(, Parts, ::testing::ValuesIn(problems()), [](const auto& info) {
    const Problem& p = info.param;
    const char* type = p.dtype == DType::kFp32 ? "Fp32" : p.dtype == DType::kFp16 ? "Fp16" : "Bf16";
    return std::string(type) + (p.packed ? std::string("Tnd") + p.softmax_layout : "Sbh") + (p.causal ? "" : "Full");
});

// RING-02. A long ring: its error grows with the roundings of the steps, each of which counts as far as the sum had
// come, and not faster. With equal parts step i of n counts i / n, so the bound of 64 steps is 8 times that of 8.
// Roundings go either way, so what is seen grows more slowly.
TEST(LongRing, SixtyFourSteps) {
    for (const DType dtype : kTypes) {
        worst_conditioning = 0;
        const Problem p{.dtype = dtype, .rows = {20}, .keys = 2048, .causal = false};
        const Data data = draw_data(p, 8);
        const std::vector<PartialResult> parts = attend_to_parts(p, data, 64);
        PartialResult merged = parts[0];
        reference::RingArguments exact = arguments_of(empty_call(p));
        exact.previous = parts[0];
        std::vector<double> counted(merged.sum.size(), 0.0);  // shares of the steps so far, row by row
        double errors[65] = {};
        for (int64_t step = 1; step < 64; step++) {
            merged = merge(p, merged, parts[step]);
            exact.current = parts[step];
            const std::vector<double> max_before = exact.previous.max, sum_before = exact.previous.sum;
            exact.previous = reference::merge(exact);
            for (size_t i = 0; i < counted.size(); i++) {
                const double kept =
                    sum_before[i] * std::exp(max_before[i] - exact.previous.max[i]) / exact.previous.sum[i];
                counted[i] = counted[i] * kept + 1;
            }
            for (size_t i = 0; i < merged.out.size(); i++)
                errors[step + 1] = std::max(errors[step + 1], std::fabs(merged.out[i] - exact.previous.out[i]));
            const double steps = *std::max_element(counted.begin(), counted.end());
            EXPECT_LE(errors[step + 1], steps * update_error(dtype, worst_conditioning) * data.largest)
                << "after step " << step;
        }
        std::cout << "type " << static_cast<int>(dtype) << ": error " << errors[8] << " after 8 parts, " << errors[64]
                  << " after 64\n";
        EXPECT_LE(errors[64], 4 * errors[8]);
        expect_same_attention(p, data, merged, attend(p, data, 0, p.keys), 63);
    }
}

}  // namespace
}  // namespace ring_attention_update::testing
