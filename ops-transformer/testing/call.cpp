#include "testing/call.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "testing/call_data.h"

namespace flash_attention::testing {
namespace {

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
    auto poison_row = [&random](double* row, int64_t features) {
        for (int64_t d = 0; d < features; d++) row[d] = poison(random);
    };
    int64_t rows = 0, keys = 0;
    for (const reference::Sequence& s : reference::sequences_of(a)) {
        for (int64_t m = 0; m < c.kv_heads; m++) {
            for (int64_t j = 0; j < s.kv_len; j++) {
                if (seen_by_anyone(c, a, s, m, j)) continue;
                poison_row(in.key.row(s.batch, s.kv_begin + j, m), c.d);
                poison_row(in.value.row(s.batch, s.kv_begin + j, m), c.dv);
            }
        }
        rows = s.q_begin + s.q_len;
        keys = s.kv_begin + s.kv_len;
    }
    for (int64_t t = rows; t < in.query.positions(); t++) poison_row(in.query.row(0, t, 0), c.heads * c.d);
    for (int64_t t = keys; t < in.key.positions(); t++) {
        poison_row(in.key.row(0, t, 0), c.kv_heads * c.d);
        poison_row(in.value.row(0, t, 0), c.kv_heads * c.dv);
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

// Whether an element of a mask is set, measured from the top left corner of its matrix.
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
    const int64_t compressed_rows = c.mode == 6 ? 3072 : 2048;
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
            return {compressed_rows, 2048};
        case MaskShape::kCompressed4:
            return {1, 1, compressed_rows, 2048};
        default:
            return {};
    }
}

// The canonical content: a triangle; below it, for mode 6, 1024 rows that show the left half. Otherwise content that
// must not be looked at, by a formula, since drawing millions of bytes takes longer than most cases.
std::vector<uint8_t> compressed_content(const Case& c, int64_t rows) {
    constexpr int64_t kColumns = 2048, kPrefixColumns = 1024;
    std::vector<uint8_t> values(rows * kColumns, 0);
    const uint8_t hidden = c.byte_mask ? 255 : 1;
    for (int64_t row = 0; row < rows; row++) {
        uint8_t* const line = values.data() + row * kColumns;
        if (c.hides == MaskContent::kCausal) {
            std::fill(line + (row < kColumns ? row + 1 : kPrefixColumns), line + kColumns, hidden);
            continue;
        }
        const auto start = static_cast<uint32_t>(row) * 0x85EBCA6BU;
        for (uint32_t column = 0; column < kColumns; column++)
            line[column] = ((start + column) * 0x9E3779B1U) >> 31 != 0 ? hidden : 0;
    }
    return values;
}

reference::Mask make_mask(const Case& c, Random& random) {
    reference::Mask mask;
    mask.shape = mask_shape(c);
    const int64_t count = element_count(mask.shape);
    if (c.compressed()) {
        mask.values = compressed_content(c, mask.shape[mask.shape.size() - 2]);
        return mask;
    }
    mask.values.resize(count);
    const int64_t columns = mask.shape.back(), rows = mask.shape[mask.shape.size() - 2];
    for (int64_t at = 0; at < count; at += rows * columns) {
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

}  // namespace

void fill(std::vector<double>& values, Random& random, Values kind, double factor) {
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    for (double& value : values) value = factor * (kind == Values::kPositive ? uniform(random) : normal(random));
}

void make_visible_nan(std::vector<double>& values, Random& random) {
    if (values.empty()) return;
    for (int64_t count = below(random, 3); count > 0; count--) {
        values[below(random, static_cast<int64_t>(values.size()))] = poison(random);
    }
}

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

Case used_arguments(Case used, const reference::ScoreArguments& a) {
    used.pse_type = a.pse_type;
    used.q_start = a.q_start_idx;
    used.kv_start = a.kv_start_idx;
    used.rope = a.query_rope ? 1 : 0;
    used.sink = a.sink.empty() ? Sink::kNone : Sink::kNormal;
    used.stats = a.softmax_out_layout;
    return used;
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
    a.prefix = c.prefix;
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

    a.query.values.resize(element_count(a.query.shape));
    a.key.values.resize(element_count(a.key.shape));
    a.value.values.resize(element_count(a.value.shape));
    fill(a.query.values, random, c.values, query_factor(c));
    fill(a.key.values, random, c.values, key_factor(c));
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
    add_modifiers(c, a);
    return call;
}

}  // namespace flash_attention::testing
