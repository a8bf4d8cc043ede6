#include "reference/score.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>

#include "reference/axes.h"
#include "reference/bias.h"

namespace flash_attention::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The operands of a call, found once.
struct Operands {
    Axes query, key, value, query_rope, key_rope;

    explicit Operands(const ScoreArguments& a)
        : query(axes_of(a.input_layout, a.query.shape, a.head_num)),
          key(axes_of(a.input_layout, a.key.shape, kv_heads(a, query.features))),
          value(axes_of(a.input_layout, a.value.shape, key.heads)) {
        if (!a.query_rope || !a.key_rope) return;
        query_rope = axes_of(a.input_layout, a.query_rope->shape, query.heads);
        key_rope = axes_of(a.input_layout, a.key_rope->shape, key.heads);
    }

    // With H only, the key's head count follows from the query's head dimension.
    static int64_t kv_heads(const ScoreArguments& a, int64_t head_dim) {
        return head_dim == 0 ? 0 : a.key.shape.back() / head_dim;
    }

    // Consecutive query heads share a key/value head.
    int64_t kv_head(int64_t head) const { return head / (query.heads / key.heads); }

    bool rope() const { return query_rope.features != 0; }

    bool nothing_to_attend() const {
        return query.features == 0 || key.heads == 0 || value.features == 0 || key.positions == 0;
    }
};

// A call and what is worked out once for all of its rows.
struct Prepared {
    const ScoreArguments& arguments;
    Operands operands;
    std::vector<Sequence> sequences;
    Bias bias;
    // As the operator has them. Not doubles that were rounded: g++ 12 with -O2 forgets to round two such neighbours.
    float scale, keep_prob;

    explicit Prepared(const ScoreArguments& a)
        : arguments(a),
          operands(a),
          sequences(sequences_of(a)),
          bias(a, sequences, operands.query.heads),
          scale(static_cast<float>(a.scale_value)),
          keep_prob(static_cast<float>(a.keep_prob)) {}
};

// A sum and the sum of the absolute values of what was added, which says how far rounding can move it.
struct Sum {
    double value = 0, absolute = 0;

    void add(double term) {
        value += term;
        absolute += std::fabs(term);
    }
    void scale(double factor) {
        value *= factor;
        absolute *= std::fabs(factor);
    }
};

void add_products(Sum& sum, const Tensor& query, int64_t q_at, const Tensor& key, int64_t k_at, int64_t features) {
    for (int64_t d = 0; d < features; d++) sum.add(query.values[q_at + d] * key.values[k_at + d]);
}

// x(j) of a key whose bias is known.
Sum logit(const Prepared& call, const Sequence& s, const Row& row, int64_t j, double bias) {
    const ScoreArguments& a = call.arguments;
    const Operands& o = call.operands;
    const int64_t i = s.q_begin + row.position, key = s.kv_begin + j, kv_head = o.kv_head(row.head);
    Sum x;
    add_products(x, a.query, o.query.at(s.batch, i, row.head), a.key, o.key.at(s.batch, key, kv_head),
                 o.query.features);
    if (o.rope()) {
        add_products(x, *a.query_rope, o.query_rope.at(s.batch, i, row.head), *a.key_rope,
                     o.key_rope.at(s.batch, key, kv_head), o.query_rope.features);
    }
    if (!call.bias.given()) {
        x.scale(call.scale);
    } else if (call.bias.inside_scale()) {
        x.add(bias);
        x.scale(call.scale);
    } else {
        x.scale(call.scale);
        x.add(bias);
    }
    return x;
}

// The softmax of one row over the keys that it sees.
struct RowSoftmax {
    std::vector<int64_t> keys;
    std::vector<double> p;  // one a key; none for a hidden row
    double max = 0, sum = 0;
};

// Notes in `row` what it finds out about the keys.
RowSoftmax row_softmax(const Prepared& call, const Sequence& s, Row& row) {
    const ScoreArguments& a = call.arguments;
    RowSoftmax r;
    std::vector<double> logits;
    bool nan = false;
    r.max = -kInfinity;
    for (int64_t j = 0; j < s.kv_len; j++) {
        if (!sees(a, s, row.head, row.position, j)) continue;
        const double bias = call.bias.given() ? call.bias.at(s, row.head, row.position, j) : 0.0;
        if (call.bias.hides(bias)) continue;
        const Sum x = logit(call, s, row, j, bias);
        r.keys.push_back(j);
        logits.push_back(x.value);
        r.max = std::max(r.max, x.value);
        nan |= std::isnan(x.value);  // std::max passes over it
        if (std::isfinite(x.absolute)) row.conditioning = std::max(row.conditioning, x.absolute);
    }
    row.visible = static_cast<int64_t>(r.keys.size());
    // A sink of minus infinity weighs nothing, like any logit of minus infinity.
    const double sink = a.sink.empty() ? -kInfinity : a.sink.at(static_cast<size_t>(row.head));
    const bool has_sink = sink != -kInfinity;
    // A row whose logits are all minus infinity sees as little as one without visible keys: no value reaches its
    // output.
    const bool sees_nothing = r.max == -kInfinity && !nan;
    if (sees_nothing && !has_sink) {
        row.kind = RowKind::kHidden;
        r.max = -FLT_MAX;
        r.sum = FLT_MAX;
        return r;
    }
    row.kind = RowKind::kOrdinary;
    if (sees_nothing) logits.clear();
    r.max = std::isnan(sink) ? sink : std::max(r.max, sink);
    for (const double x : logits) {
        r.p.push_back(std::exp(x - r.max));
        r.sum += r.p.back();
    }
    if (has_sink) r.sum += std::exp(sink - r.max);
    for (double& p : r.p) p /= r.sum;
    return r;
}

// Bits lie one after another over sequences, heads, rows and keys, without gaps.
bool kept(const Prepared& call, const Sequence& s, const Row& row, int64_t j) {
    const int64_t bit = call.operands.query.heads * s.pairs_begin + (row.head * s.q_len + row.position) * s.kv_len + j;
    return (call.arguments.drop_mask->at(static_cast<size_t>(bit / 8)) >> (bit % 8)) & 1;
}

// O of one row; the finite values that it mixes are noted in `row`.
void mix_values(const Prepared& call, const Sequence& s, const RowSoftmax& softmax, Row& row, double* out) {
    const Operands& o = call.operands;
    for (size_t t = 0; t < softmax.p.size(); t++) {
        const int64_t j = softmax.keys[t];
        double factor = 1;
        if (call.arguments.drop_mask) factor = kept(call, s, row, j) ? 1 / static_cast<double>(call.keep_prob) : 0;
        const double* v = &call.arguments.value.values[o.value.at(s.batch, s.kv_begin + j, o.kv_head(row.head))];
        for (int64_t d = 0; d < o.value.features; d++) {
            out[d] += softmax.p[t] * factor * v[d];
            if (std::isfinite(v[d])) row.largest_value = std::max(row.largest_value, std::fabs(v[d]) * factor);
        }
    }
}

std::vector<int64_t> out_shape(const ScoreArguments& a, const Operands& o) {
    std::vector<int64_t> shape = a.query.shape;
    const bool joined = a.input_layout == "BSH" || a.input_layout == "SBH";
    shape.back() = joined ? o.query.heads * o.value.features : o.value.features;
    return shape;
}

// All rows of a sequence, in the order in which the operator stores their statistics.
void add_rows(const Prepared& call, const Sequence& s, ScoreResult& result) {
    const ScoreArguments& a = call.arguments;
    const Operands& o = call.operands;
    const Axes out = axes_of(a.input_layout, result.attention_out.shape, o.query.heads);
    const bool by_token = a.input_layout == "TND" && a.softmax_out_layout == "same_as_input";
    for (int64_t t = 0; t < s.q_len * o.query.heads; t++) {
        Row row;
        row.sequence = s.index;
        row.head = by_token ? t % o.query.heads : t / s.q_len;
        row.position = by_token ? t / o.query.heads : t % s.q_len;
        row.out_begin = out.at(s.batch, s.q_begin + row.position, row.head);
        RowSoftmax softmax;
        if (s.kv_len != 0 && !o.nothing_to_attend()) {
            softmax = row_softmax(call, s, row);
            mix_values(call, s, softmax, row, result.attention_out.values.data() + row.out_begin);
        }
        result.rows.push_back(row);
        result.softmax_max.push_back(softmax.max);
        result.softmax_sum.push_back(softmax.sum);
    }
}

}  // namespace

ScoreResult score(const ScoreArguments& a) {
    const Prepared call(a);
    const Operands& o = call.operands;
    ScoreResult result;
    result.attention_out.shape = out_shape(a, o);
    result.attention_out.values.assign(o.query.batches * o.query.positions * o.query.heads * o.value.features, 0.0);
    for (const Sequence& s : call.sequences) add_rows(call, s, result);
    if (a.input_layout == "TND") {
        // The rows that are left, as a sequence that has no keys.
        Sequence rest;
        rest.index = -1;
        for (const Sequence& s : call.sequences) rest.q_begin += s.q_len;
        rest.q_len = o.query.positions - rest.q_begin;
        add_rows(call, rest, result);
    }
    return result;
}

}  // namespace flash_attention::reference
