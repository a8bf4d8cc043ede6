#include "reference/score.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace flash_attention::reference {
namespace {

// A tensor as batch entries x positions x heads x features; features lie side by side in every layout.
struct Axes {
    int64_t batches = 0, positions = 0, heads = 0, features = 0;
    int64_t batch_stride = 0, position_stride = 0, head_stride = 0;

    int64_t at(int64_t batch, int64_t position, int64_t head) const {
        return batch * batch_stride + position * position_stride + head * head_stride;
    }
};

// `heads` is needed where the layout has only H = heads x features.
Axes axes_of(const std::string& layout, const std::vector<int64_t>& shape, int64_t heads) {
    Axes a;
    if (layout == "BSH" || layout == "SBH") {
        a.heads = heads;
        a.features = heads == 0 ? 0 : shape[2] / heads;
        a.head_stride = a.features;
        const bool batch_first = layout == "BSH";
        a.batches = shape[batch_first ? 0 : 1];
        a.positions = shape[batch_first ? 1 : 0];
        a.batch_stride = batch_first ? a.positions * shape[2] : shape[2];
        a.position_stride = batch_first ? shape[2] : a.batches * shape[2];
    } else if (layout == "BSND") {
        a = {shape[0], shape[1], shape[2], shape[3], shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3]};
    } else if (layout == "BNSD") {
        a = {shape[0], shape[2], shape[1], shape[3], shape[1] * shape[2] * shape[3], shape[3], shape[2] * shape[3]};
    } else if (layout == "TND") {
        a = {1, shape[0], shape[1], shape[2], 0, shape[1] * shape[2], shape[2]};
    } else {
        throw std::invalid_argument("reference: unknown layout " + layout);
    }
    return a;
}

// The operands of a call, found once.
struct Operands {
    Axes query, key, value;

    explicit Operands(const ScoreArguments& a)
        : query(axes_of(a.input_layout, a.query.shape, a.head_num)),
          key(axes_of(a.input_layout, a.key.shape, kv_heads(a, query.features))),
          value(axes_of(a.input_layout, a.value.shape, key.heads)) {}

    // With H only, the key's head count follows from the query's head dimension.
    static int64_t kv_heads(const ScoreArguments& a, int64_t head_dim) {
        return head_dim == 0 ? 0 : a.key.shape.back() / head_dim;
    }

    // Consecutive query heads share a key/value head.
    int64_t kv_head(int64_t head) const { return head / (query.heads / key.heads); }

    bool nothing_to_attend() const {
        return query.features == 0 || key.heads == 0 || value.features == 0 || key.positions == 0;
    }
};

// Lengths from running totals. A step down counts as 0, so that trailing zeros mean sequences without rows.
std::vector<int64_t> lengths_of(const std::vector<int64_t>& totals) {
    std::vector<int64_t> lengths;
    int64_t before = 0;
    for (const int64_t total : totals) {
        lengths.push_back(std::max<int64_t>(total - before, 0));
        before = total;
    }
    return lengths;
}

// What a sparse mode shows, before an explicit mask. Distances are measured from the corner that the mode is tied to
// and are compared with pre and next as they are, so that no value of these can overflow.
bool mode_shows(const ScoreArguments& a, const Sequence& s, int64_t i, int64_t j) {
    const int64_t behind_top_left = i - j;  // how far key j lies to the left of the diagonal
    const int64_t behind_bottom_right =
        (i - s.q_len) - (j - s.kv_len);  // the same, last row and last key on the diagonal
    switch (a.sparse_mode) {
        case 0:
            return behind_top_left <= a.pre_tokens && -behind_top_left <= a.next_tokens;
        case 1:
            return true;
        case 2:
            return behind_top_left >= 0;
        case 3:
            return behind_bottom_right >= 0;
        case 4:
            return behind_bottom_right <= a.pre_tokens && -behind_bottom_right <= a.next_tokens;
        default:
            throw std::invalid_argument("reference: unknown sparse mode " + std::to_string(a.sparse_mode));
    }
}

// Whether an explicit mask hides the pair. A TND mask is either shared by all sequences ([maxSq, maxSkv], sequences
// read its top left corner) or covers the whole call ([total rows, total keys], sequences read their diagonal block).
// Where the shapes agree, so do the two readings: then at most one sequence has rows and at most one has keys.
bool mask_hides(const ScoreArguments& a, const Sequence& s, int64_t head, int64_t i, int64_t j) {
    const std::vector<int64_t>& shape = a.atten_mask->shape;
    const std::vector<uint8_t>& values = a.atten_mask->values;
    if (shape.size() == 4) {
        const int64_t batch = shape[0] == 1 ? 0 : s.index;
        const int64_t n = shape[1] == 1 ? 0 : head;
        return values[((batch * shape[1] + n) * shape[2] + i) * shape[3] + j] != 0;
    }
    if (a.input_layout == "TND" && shape[0] == s.all_rows && shape[1] == s.all_keys) {
        return values[(s.q_begin + i) * shape[1] + s.kv_begin + j] != 0;
    }
    return values[i * shape[1] + j] != 0;
}

// The softmax of one row over the keys that it sees.
struct RowSoftmax {
    std::vector<int64_t> keys;
    std::vector<double> p;  // one a key
    double max = 0, sum = 0;
};

// r(j), and the sum of the absolute products that says how far rounding can move it.
double dot(const double* q, const double* k, int64_t features, double& absolute) {
    double sum = 0;
    absolute = 0;
    for (int64_t d = 0; d < features; d++) {
        sum += q[d] * k[d];
        absolute += std::fabs(q[d] * k[d]);
    }
    return sum;
}

// Fills in what `row` should say about the keys; p is left empty for a hidden row.
RowSoftmax row_softmax(const ScoreArguments& a, const Operands& o, const Sequence& s, Row& row) {
    const double scale = static_cast<float>(a.scale_value);
    const double* q = &a.query.values[o.query.at(s.batch, s.q_begin + row.position, row.head)];
    RowSoftmax r;
    std::vector<double> logits;
    bool nan = false;
    r.max = -std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < s.kv_len; j++) {
        if (!sees(a, s, row.head, row.position, j)) continue;
        double absolute = 0;
        const double* k = &a.key.values[o.key.at(s.batch, s.kv_begin + j, o.kv_head(row.head))];
        const double x = dot(q, k, o.query.features, absolute) * scale;
        r.keys.push_back(j);
        logits.push_back(x);
        r.max = std::max(r.max, x);
        nan |= std::isnan(x);  // std::max passes over it
        if (std::isfinite(absolute)) row.conditioning = std::max(row.conditioning, std::fabs(scale) * absolute);
    }
    row.visible = static_cast<int64_t>(r.keys.size());
    if (r.max == -std::numeric_limits<double>::infinity() && !nan) {
        row.kind = RowKind::kHidden;
        return r;
    }
    row.kind = RowKind::kOrdinary;
    for (const double x : logits) {
        r.p.push_back(std::exp(x - r.max));
        r.sum += r.p.back();
    }
    for (double& p : r.p) p /= r.sum;
    return r;
}

// O of one row; the finite values that it mixes are noted in `row`.
void mix_values(const ScoreArguments& a, const Operands& o, const Sequence& s, const RowSoftmax& softmax, Row& row,
                double* out) {
    for (size_t t = 0; t < softmax.p.size(); t++) {
        const double* v = &a.value.values[o.value.at(s.batch, s.kv_begin + softmax.keys[t], o.kv_head(row.head))];
        for (int64_t d = 0; d < o.value.features; d++) {
            out[d] += softmax.p[t] * v[d];
            if (std::isfinite(v[d])) row.largest_value = std::max(row.largest_value, std::fabs(v[d]));
        }
    }
}

std::vector<int64_t> out_shape(const ScoreArguments& a, const Operands& o) {
    std::vector<int64_t> shape = a.query.shape;
    const bool joined = a.input_layout == "BSH" || a.input_layout == "SBH";
    shape.back() = joined ? o.query.heads * o.value.features : o.value.features;
    return shape;
}

}  // namespace

std::vector<Sequence> sequences_of(const ScoreArguments& a) {
    const Operands o(a);
    std::vector<Sequence> sequences;
    if (a.input_layout != "TND") {
        for (int64_t b = 0; b < o.query.batches; b++) {
            sequences.push_back({b, b, 0, o.query.positions, 0, o.key.positions, 0, 0});
        }
        return sequences;
    }
    const std::vector<int64_t> q = lengths_of(a.actual_seq_qlen), kv = lengths_of(a.actual_seq_kvlen);
    Sequence next;
    for (const int64_t length : q) next.all_rows += length;
    for (const int64_t length : kv) next.all_keys += length;
    for (size_t b = 0; b < q.size(); b++) {
        next.q_len = q[b];
        next.kv_len = kv[b];
        sequences.push_back(next);
        next.index++;
        next.q_begin += next.q_len;
        next.kv_begin += next.kv_len;
    }
    return sequences;
}

bool sees(const ScoreArguments& a, const Sequence& s, int64_t head, int64_t i, int64_t j) {
    if (!a.atten_mask) return true;
    if (!mode_shows(a, s, i, j)) return false;
    const bool explicit_mask = a.sparse_mode == 0 || a.sparse_mode == 1;
    return !explicit_mask || !mask_hides(a, s, head, i, j);
}

ScoreResult score(const ScoreArguments& a) {
    const Operands o(a);
    ScoreResult result;
    result.attention_out.shape = out_shape(a, o);
    const Axes out = axes_of(a.input_layout, result.attention_out.shape, o.query.heads);
    result.attention_out.values.assign(o.query.batches * o.query.positions * o.query.heads * out.features, 0.0);

    auto add_row = [&](Row row, double max, double sum) {
        result.rows.push_back(row);
        result.softmax_max.push_back(max);
        result.softmax_sum.push_back(sum);
    };
    int64_t rows_of_sequences = 0;
    for (const Sequence& s : sequences_of(a)) {
        for (int64_t n = 0; n < o.query.heads; n++) {
            for (int64_t i = 0; i < s.q_len; i++) {
                Row row;
                row.sequence = s.index;
                row.head = n;
                row.position = i;
                row.out_begin = out.at(s.batch, s.q_begin + i, n);
                if (s.kv_len == 0 || o.nothing_to_attend()) {
                    add_row(row, 0, 0);
                    continue;
                }
                const RowSoftmax softmax = row_softmax(a, o, s, row);
                mix_values(a, o, s, softmax, row, result.attention_out.values.data() + row.out_begin);
                const bool hidden = row.kind == RowKind::kHidden;
                add_row(row, hidden ? -FLT_MAX : softmax.max, hidden ? FLT_MAX : softmax.sum);
            }
        }
        rows_of_sequences = s.q_begin + s.q_len;
    }
    if (a.input_layout == "TND") {
        for (int64_t n = 0; n < o.query.heads; n++) {
            for (int64_t t = rows_of_sequences; t < o.query.positions; t++) {
                Row row;
                row.head = n;
                row.position = t;
                row.out_begin = out.at(0, t, n);
                add_row(row, 0, 0);
            }
        }
    }
    return result;
}

}  // namespace flash_attention::reference
