#include "testing/call.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace flash_attention::testing {
namespace {

using Random = std::mt19937_64;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

int64_t total(const std::vector<int64_t>& lengths) {
    return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

std::vector<int64_t> shape_of(const Case& c, int64_t positions, int64_t heads, int64_t features) {
    if (c.layout == "BSH") return {c.batch, positions, heads * features};
    if (c.layout == "SBH") return {positions, c.batch, heads * features};
    if (c.layout == "BSND") return {c.batch, positions, heads, features};
    if (c.layout == "BNSD") return {c.batch, heads, positions, features};
    return {positions, heads, features};
}

int64_t query_positions(const Case& c) {
    return total(c.q) + c.slack_q;
}
int64_t key_positions(const Case& c) {
    return total(c.kv) + c.slack_kv;
}

// Gives access to a tensor by batch entry, position and head, whatever its layout.
class Rows {
  public:
    Rows(const Case& c, reference::Tensor& tensor, int64_t positions, int64_t heads, int64_t features)
        : c_(c), tensor_(tensor), positions_(positions), heads_(heads), features_(features) {}

    double* row(int64_t batch, int64_t position, int64_t head) {
        int64_t index = (batch * positions_ + position) * heads_ + head;  // BSH, BSND, TND
        if (c_.layout == "SBH") index = (position * c_.batch + batch) * heads_ + head;
        if (c_.layout == "BNSD") index = (batch * heads_ + head) * positions_ + position;
        return tensor_.values.data() + index * features_;
    }
    int64_t positions() const { return positions_; }
    int64_t heads() const { return heads_; }
    int64_t features() const { return features_; }

  private:
    const Case& c_;
    reference::Tensor& tensor_;
    int64_t positions_, heads_, features_;
};

struct Inputs {
    Rows query, key, value;
};

double any_of(Random& random, std::initializer_list<double> values) {
    return *(values.begin() + static_cast<int64_t>(random() % values.size()));
}

int64_t below(Random& random, int64_t end) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(end));
}

void fill(std::vector<double>& values, Random& random, Values kind, double factor) {
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    for (double& value : values) value = factor * (kind == Values::kPositive ? uniform(random) : normal(random));
}

// Equal keys but one, and all queries alike, so that every logit of a row is the same except the high one. It is higher
// by the logarithm of the number of keys: then that key and all others together weigh the same, the hardest sum.
void make_high_key(const Case& c, const reference::ScoreArguments& a, Inputs& in, Random& random) {
    for (const reference::Sequence& s : reference::sequences_of(a)) {
        if (s.q_len == 0 || s.kv_len == 0) continue;
        for (int64_t n = 0; n < c.heads; n++) {
            const double* first = in.query.row(s.batch, s.q_begin, n);
            for (int64_t i = 1; i < s.q_len; i++) std::copy_n(first, c.d, in.query.row(s.batch, s.q_begin + i, n));
        }
        const int64_t group = c.heads / c.kv_heads;
        for (int64_t m = 0; m < c.kv_heads; m++) {
            const double* q = in.query.row(s.batch, s.q_begin, m * group);
            const double* first = in.key.row(s.batch, s.kv_begin, m);
            for (int64_t j = 1; j < s.kv_len; j++) std::copy_n(first, c.d, in.key.row(s.batch, s.kv_begin + j, m));
            const double square = std::inner_product(q, q + c.d, q, 0.0);
            if (c.scale == 0 || square == 0) continue;
            const double step = std::log(static_cast<double>(s.kv_len)) / (square * c.scale);
            double* high = in.key.row(s.batch, s.kv_begin + below(random, s.kv_len), m);
            for (int64_t d = 0; d < c.d; d++) high[d] += step * q[d];
        }
    }
}

bool seen_by_anyone(const Case& c, const reference::ScoreArguments& a, const reference::Sequence& s, int64_t m,
                    int64_t j) {
    const int64_t group = c.heads / c.kv_heads;
    for (int64_t n = m * group; n < (m + 1) * group; n++) {
        for (int64_t i = 0; i < s.q_len; i++) {
            if (reference::sees(a, s, n, i, j)) return true;
        }
    }
    return false;
}

// NaN and infinities in every key and value that no row sees, and in all rows beyond the last sequence.
void make_hidden_nan(const Case& c, const reference::ScoreArguments& a, Inputs& in, Random& random) {
    auto poison = [&random](double* row, int64_t features) {
        for (int64_t d = 0; d < features; d++) row[d] = any_of(random, {kNan, kInfinity, -kInfinity});
    };
    int64_t rows = 0, keys = 0;
    for (const reference::Sequence& s : reference::sequences_of(a)) {
        for (int64_t m = 0; m < c.kv_heads; m++) {
            for (int64_t j = 0; j < s.kv_len; j++) {
                if (seen_by_anyone(c, a, s, m, j)) continue;
                poison(in.key.row(s.batch, s.kv_begin + j, m), c.d);
                poison(in.value.row(s.batch, s.kv_begin + j, m), c.dv);
            }
        }
        rows = s.q_begin + s.q_len;
        keys = s.kv_begin + s.kv_len;
    }
    for (int64_t t = rows; t < in.query.positions(); t++) poison(in.query.row(0, t, 0), c.heads * c.d);
    for (int64_t t = keys; t < in.key.positions(); t++) {
        poison(in.key.row(0, t, 0), c.kv_heads * c.d);
        poison(in.value.row(0, t, 0), c.kv_heads * c.dv);
    }
}

// A few elements anywhere: rows that see them become NaN or infinite as the formulas say, all others stay as they were.
void make_visible_nan(std::vector<double>& values, Random& random) {
    if (values.empty()) return;
    for (int64_t count = below(random, 3); count > 0; count--) {
        values[below(random, static_cast<int64_t>(values.size()))] = any_of(random, {kNan, kInfinity, -kInfinity});
    }
}

// Every row has a positive first feature; a key whose first feature is -infinity then has a logit of -infinity (for a
// positive scale), which weighs nothing. In every second sequence all keys are like that, and its rows count as empty.
void make_minus_inf(const Case& c, const reference::ScoreArguments& a, Inputs& in, Random& random) {
    if (c.d == 0) return;
    for (const reference::Sequence& s : reference::sequences_of(a)) {
        const bool all = (s.index + c.seed) % 2 == 0;
        for (int64_t i = 0; i < s.q_len; i++) {
            for (int64_t n = 0; n < c.heads; n++) {
                double* q = in.query.row(s.batch, s.q_begin + i, n);
                q[0] = std::fabs(q[0]) + 0.25;
            }
        }
        for (int64_t j = 0; j < s.kv_len; j++) {
            for (int64_t m = 0; m < c.kv_heads; m++) {
                if (all || below(random, 3) == 0) in.key.row(s.batch, s.kv_begin + j, m)[0] = -kInfinity;
            }
        }
    }
}

// One matrix of an explicit mask; `row_step` and `column_step` say where diagonals start, as TND's total mask has
// several.
bool hidden_by(const Case& c, int64_t i, int64_t j, Random& random) {
    switch (c.hides) {
        case MaskContent::kNothing:
            return false;
        case MaskContent::kAll:
            return true;
        case MaskContent::kCausal:
            return j > i;
        case MaskContent::kWindow:
            return i - j > c.pre || j - i > c.next;
        default:
            return below(random, 10) < 3;
    }
}

// The matrices of a mask are filled one by one; blocks and rows are drawn anew for each.
void fill_matrix(const Case& c, uint8_t* matrix, int64_t rows, int64_t columns, Random& random) {
    const int64_t squares = (columns + 63) / 64;
    std::vector<bool> square_hidden;
    for (int64_t i = 0; i < rows; i++) {
        const bool row_hidden = c.hides == MaskContent::kRows && below(random, 4) == 0;
        if (i % 64 == 0) {
            square_hidden.assign(squares, false);
            for (int64_t b = 0; b < squares; b++) square_hidden[b] = below(random, 2) == 0;
        }
        for (int64_t j = 0; j < columns; j++) {
            bool hide = c.hides == MaskContent::kBlocks ? square_hidden[j / 64] : hidden_by(c, i, j, random);
            hide |= row_hidden;
            matrix[i * columns + j] =
                hide ? (c.byte_mask ? static_cast<uint8_t>(any_of(random, {1, 2, 128, 255})) : 1) : 0;
        }
    }
}

std::vector<int64_t> mask_shape(const Case& c) {
    const int64_t q_len = *std::max_element(c.q.begin(), c.q.end()),
                  kv_len = *std::max_element(c.kv.begin(), c.kv.end());
    switch (c.mask) {
        case MaskShape::kPlain:
            return {q_len, kv_len};
        case MaskShape::kTotal:
            return {total(c.q), total(c.kv)};
        case MaskShape::k11:
            return {1, 1, q_len, kv_len};
        case MaskShape::kB1:
            return {c.sequences(), 1, q_len, kv_len};
        case MaskShape::kBN:
            return {c.sequences(), c.heads, q_len, kv_len};
        case MaskShape::kCompressed:
            return {2048, 2048};
        case MaskShape::kCompressed4:
            return {1, 1, 2048, 2048};
        default:
            return {};
    }
}

reference::Mask make_mask(const Case& c, Random& random) {
    reference::Mask mask;
    mask.shape = mask_shape(c);
    mask.values.resize(element_count(mask.shape));
    const int64_t columns = mask.shape.back(), rows = mask.shape[mask.shape.size() - 2];
    // Drawing four million bytes takes longer than most cases; the content of a compressed mask never matters.
    if (c.compressed() && c.hides == MaskContent::kRandom) {
        for (size_t i = 0; i < mask.values.size(); i++)
            mask.values[i] = static_cast<uint8_t>((i * 0x9E3779B97F4A7C15U) >> 63);
        return mask;
    }
    for (int64_t at = 0; at < element_count(mask.shape); at += rows * columns) {
        fill_matrix(c, mask.values.data() + at, rows, columns, random);
    }
    return mask;
}

// Running totals; trailing zeros are sequences that take no part.
std::vector<int64_t> running_totals(const Case& c, const std::vector<int64_t>& lengths) {
    std::vector<int64_t> totals(lengths.size());
    std::partial_sum(lengths.begin(), lengths.end(), totals.begin());
    totals.insert(totals.end(), c.tail, 0);
    return totals;
}

// An expanded view repeats one slice, so the values must repeat as well.
void apply_expansion(View view, const std::vector<int64_t>& shape, auto& values) {
    if (values.empty()) return;
    const auto count = static_cast<int64_t>(values.size());
    if (view == View::kExpand) {
        const int64_t slice = count / shape[0];
        for (int64_t i = slice; i < count; i++) values[i] = values[i - slice];
    } else if (view == View::kExpandLast) {
        for (int64_t i = 0; i < count; i++) values[i] = values[i - i % shape.back()];
    }
}

}  // namespace

int64_t element_count(const std::vector<int64_t>& shape) {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::vector<int64_t> query_shape(const Case& c) {
    return shape_of(c, query_positions(c), c.heads, c.d);
}
std::vector<int64_t> key_shape(const Case& c, int64_t features) {
    return shape_of(c, key_positions(c), c.kv_heads, features);
}
std::vector<int64_t> out_shape(const Case& c) {
    return shape_of(c, query_positions(c), c.heads, c.dv);
}

std::vector<int64_t> statistics_shape(const Case& c) {
    if (c.varlen()) return {query_positions(c), c.heads, 8};
    return {c.batch, c.heads, c.q[0], 8};
}

Call make_call(const Case& c) {
    Call call;
    call.description = c;
    reference::ScoreArguments& a = call.arguments;
    Random random(c.seed);
    a.input_layout = c.layout;
    a.scale_value = c.scale;
    a.pre_tokens = c.pre;
    a.next_tokens = c.next;
    a.head_num = c.heads;
    a.sparse_mode = c.mode;
    if (c.varlen()) {
        a.actual_seq_qlen = running_totals(c, c.q);
        a.actual_seq_kvlen = running_totals(c, c.kv);
    }
    a.query.shape = query_shape(c);
    a.key.shape = key_shape(c, c.d);
    a.value.shape = key_shape(c, c.dv);
    if (c.mask != MaskShape::kNone) {
        a.atten_mask = make_mask(c, random);
        apply_expansion(c.views[kMask], a.atten_mask->shape, a.atten_mask->values);
    }

    // Two factors for large logits: sqrt(d) standard deviations of q.k times the usual scale give about 400.
    const bool large = c.values == Values::kLarge;
    a.query.values.resize(element_count(a.query.shape));
    a.key.values.resize(element_count(a.key.shape));
    a.value.values.resize(element_count(a.value.shape));
    fill(a.query.values, random, c.values, large ? 40.0 : 1.0);
    fill(a.key.values, random, c.values, large ? 10.0 : 1.0);
    fill(a.value.values, random, c.values, 1.0);
    Inputs in{Rows(c, a.query, query_positions(c), c.heads, c.d), Rows(c, a.key, key_positions(c), c.kv_heads, c.d),
              Rows(c, a.value, key_positions(c), c.kv_heads, c.dv)};
    if (c.values == Values::kHighKey) make_high_key(c, a, in, random);
    if (c.values == Values::kHiddenNan) make_hidden_nan(c, a, in, random);
    if (c.values == Values::kMinusInf) make_minus_inf(c, a, in, random);
    if (c.values == Values::kVisibleNan) {
        make_visible_nan(a.query.values, random);
        make_visible_nan(a.key.values, random);
        make_visible_nan(a.value.values, random);
    }
    apply_expansion(c.views[kQuery], a.query.shape, a.query.values);
    apply_expansion(c.views[kKey], a.key.shape, a.key.values);
    apply_expansion(c.views[kValue], a.value.shape, a.value.values);
    for (reference::Tensor* tensor : {&a.query, &a.key, &a.value}) {
        for (double& value : tensor->values) value = rounded(c.dtype, value);
    }
    return call;
}

}  // namespace flash_attention::testing
