#include "reported.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/axes.h"

namespace flash_attention::testing {

std::ostream& operator<<(std::ostream& stream, const Reported& reported) {
    return stream << reported.id;
}

std::string test_name(const ::testing::TestParamInfo<Reported>& info) {
    std::string name = info.param.id;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

Call call_of(const std::string& text) {
    const Case c = parse_case(text);
    EXPECT_EQ(why_illegal(c), "") << text;
    return make_call(c);
}

Outputs outputs_of(const Call& call, const RunOptions& options) {
    const RunResult result = run(call, options);
    EXPECT_EQ(result.phase_one, 0) << result.error_text << "; " << rerun_hint(call.description);
    EXPECT_EQ(result.phase_two, 0) << result.error_text << "; " << rerun_hint(call.description);
    EXPECT_EQ(lines(result.broken_promises), "") << rerun_hint(call.description);
    return result.outputs;
}

Outputs expect_agrees(const Call& call, const RunOptions& options) {
    const Outputs outputs = outputs_of(call, options);
    EXPECT_EQ(lines(judge(call, reference::score(call.arguments), outputs)), "")
        << "changed from " << to_string(call.description);
    return outputs;
}

Gradients gradients_of(const BackwardCall& call) {
    const BackwardResult result = run(call);
    EXPECT_EQ(result.phase_one, 0) << result.error_text << "; " << rerun_hint(call.description);
    EXPECT_EQ(result.phase_two, 0) << result.error_text << "; " << rerun_hint(call.description);
    EXPECT_EQ(lines(result.broken_promises), "") << rerun_hint(call.description);
    return result.gradients;
}

Gradients expect_agrees(const BackwardCall& call) {
    const Gradients gradients = gradients_of(call);
    EXPECT_EQ(lines(judge(call, reference::score_grad(call.arguments), gradients)), "")
        << "changed from " << to_string(call.description);
    return gradients;
}

namespace {

// Calls `visit` for each element of a matrix or of four dimensions, in row-major order.
void for_each_pair(const std::vector<int64_t>& shape,
                   const std::function<void(int64_t, int64_t, int64_t, int64_t)>& visit) {
    const bool matrices = shape.size() == 4;
    const int64_t batch = matrices ? shape[0] : 1, heads = matrices ? shape[1] : 1;
    const int64_t rows = shape[shape.size() - 2], columns = shape.back();
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t n = 0; n < heads; n++) {
            for (int64_t i = 0; i < rows; i++) {
                for (int64_t j = 0; j < columns; j++) visit(b, n, i, j);
            }
        }
    }
}

}  // namespace

void set_mask(Call& call, std::vector<int64_t> shape, const Hides& hides) {
    reference::Mask mask{std::move(shape), {}};
    for_each_pair(mask.shape, [&](int64_t b, int64_t n, int64_t i, int64_t j) {
        mask.values.push_back(hides(b, n, i, j) ? 1 : 0);
    });
    call.arguments.atten_mask = std::move(mask);
}

void set_bias(Call& call, int64_t pse_type, std::vector<int64_t> shape, const BiasValue& value) {
    reference::Tensor bias{std::move(shape), {}};
    for_each_pair(bias.shape, [&](int64_t b, int64_t n, int64_t i, int64_t j) {
        bias.values.push_back(rounded(call.description.dtype, value(b, n, i, j)));
    });
    call.arguments.pse_type = pse_type;
    call.arguments.real_shift = std::move(bias);
}

void set_values(const Call& call, reference::Tensor& tensor, const std::function<double(int64_t)>& value) {
    for (size_t i = 0; i < tensor.values.size(); i++) {
        tensor.values[i] = rounded(call.description.dtype, value(static_cast<int64_t>(i)));
    }
}

std::vector<int64_t> visible_counts(Call call) {
    std::fill(call.arguments.query.values.begin(), call.arguments.query.values.end(), 0.0);
    const Outputs outputs = expect_agrees(call);
    std::vector<int64_t> counts;
    for (size_t at = 0; at < outputs.sum.size(); at += 8) {
        const double sum = from_bits(DType::kFp32, outputs.sum[at]);
        const bool hidden = sum == static_cast<double>(std::numeric_limits<float>::max());
        counts.push_back(hidden ? 0 : std::llround(sum));
    }
    return counts;
}

std::vector<uint32_t> row_bits(const Call& call, const Outputs& outputs, const reference::ScoreResult& expected,
                               size_t row) {
    const auto out = outputs.out.begin() + expected.rows[row].out_begin;
    std::vector<uint32_t> bits(out, out + call.description.dv);
    bits.push_back(outputs.max[row * 8]);
    bits.push_back(outputs.sum[row * 8]);
    return bits;
}

std::vector<double> numbers(const Call& call, const Outputs& outputs) {
    std::vector<double> values;
    for (const uint32_t bits : outputs.out) values.push_back(from_bits(call.description.dtype, bits));
    return values;
}

std::vector<double> numbers(const BackwardCall& call, const Gradients& gradients, Argument gradient) {
    const auto at = std::find(std::begin(kGradientArguments), std::end(kGradientArguments), gradient);
    std::vector<double> values;
    for (const uint32_t bits : gradients[static_cast<size_t>(at - std::begin(kGradientArguments))])
        values.push_back(from_bits(gradient_type(call.description, gradient), bits));
    return values;
}

namespace {

// All heads of one key or value position.
void poison_position(const Call& call, reference::Tensor& tensor, int64_t batch, int64_t position) {
    const Case& c = call.description;
    const reference::Axes axes = reference::axes_of(c.layout, tensor.shape, c.kv_heads);
    for (int64_t n = 0; n < axes.heads; n++) {
        const auto first = tensor.values.begin() + axes.at(batch, position, n);
        std::fill(first, first + axes.features, std::numeric_limits<double>::quiet_NaN());
    }
}

}  // namespace

void expect_only_visible_keys_count(const Call& call, int64_t probes) {
    const reference::ScoreArguments& a = call.arguments;
    const reference::ScoreResult expected = reference::score(a);
    const std::vector<reference::Sequence> sequences = reference::sequences_of(a);
    const Outputs before = expect_agrees(call);
    int64_t positions = 0;
    for (const reference::Sequence& s : sequences) positions += s.kv_len;
    const int64_t step = std::max<int64_t>(1, positions / probes);
    int64_t number = 0;
    for (const reference::Sequence& s : sequences) {
        for (int64_t j = 0; j < s.kv_len; j++) {
            if (number++ % step != 0) continue;
            Call changed = call;
            poison_position(call, changed.arguments.key, s.batch, s.kv_begin + j);
            poison_position(call, changed.arguments.value, s.batch, s.kv_begin + j);
            const Outputs after = outputs_of(changed);
            for (size_t r = 0; r < expected.rows.size(); r++) {
                const reference::Row& row = expected.rows[r];
                const bool seen = row.sequence == s.index && reference::sees(a, s, row.head, row.position, j);
                const std::vector<uint32_t> bits = row_bits(call, after, expected, r);
                if (seen) {
                    const double sum = from_bits(DType::kFp32, bits.back());
                    EXPECT_FALSE(std::isfinite(sum)) << "a NaN in key " << j << " is lost on row " << r;
                } else {
                    EXPECT_EQ(bits, row_bits(call, before, expected, r))
                        << "key " << j << " of sequence " << s.index << " has an effect on row " << r << "; "
                        << to_string(call.description);
                }
            }
        }
    }
}

Call sampled(const Call& call, const std::vector<int64_t>& rows) {
    const reference::Sequence s = reference::sequences_of(call.arguments).at(0);
    Call part = call;
    Case& c = part.description;
    c.q = {static_cast<int64_t>(rows.size())};
    c.mode = part.arguments.sparse_mode = 1;
    c.mask = MaskShape::k11;
    part.arguments.query.shape = query_shape(c);
    part.arguments.query.values.clear();
    for (int64_t n = 0; n < c.heads; n++) {
        for (const int64_t i : rows) {
            const auto row = call.arguments.query.values.begin() + (n * s.q_len + i) * c.d;
            part.arguments.query.values.insert(part.arguments.query.values.end(), row, row + c.d);
        }
    }
    set_mask(part, {1, 1, c.q[0], s.kv_len}, [&](int64_t, int64_t, int64_t i, int64_t j) {
        return !reference::sees(call.arguments, s, 0, rows[i], j);
    });
    return part;
}

Outputs sampled(const Call& call, const Outputs& outputs, const std::vector<int64_t>& rows) {
    const Case& c = call.description;
    Outputs part;
    auto take = [&](const std::vector<uint32_t>& from, std::vector<uint32_t>& to, int64_t width) {
        for (int64_t n = 0; n < c.heads; n++) {
            for (const int64_t i : rows) {
                const auto row = from.begin() + (n * c.q[0] + i) * width;
                to.insert(to.end(), row, row + width);
            }
        }
    };
    take(outputs.out, part.out, c.dv);
    take(outputs.max, part.max, 8);
    take(outputs.sum, part.sum, 8);
    return part;
}

}  // namespace flash_attention::testing
