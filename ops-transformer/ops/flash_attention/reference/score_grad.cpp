#include "reference/score_grad.h"

#include <algorithm>
#include <cmath>

#include "reference/prepared.h"

namespace flash_attention::reference {
namespace {

// A factor of a term, and what it is uncertain by (Gradient::uncertain).
struct Weight {
    double value = 0, uncertain = 0;

    Weight times(double factor) const { return {value * factor, uncertain * std::fabs(factor)}; }
};

// Adds weight * coefficients to elements [at, at + features). `scale` is the part of the weight that belongs to the
// coefficients.
void add_terms(Gradient& g, int64_t at, int64_t features, const Weight& weight, const double* coefficients,
               double scale = 1) {
    const double absolute = std::fabs(weight.value), magnitude = std::fabs(scale);
    for (int64_t d = 0; d < features; d++) {
        const double c = coefficients[d], size = std::fabs(c);
        g.values[at + d] += weight.value * c;
        g.absolute[at + d] += absolute * size;
        g.uncertain[at + d] += weight.uncertain * size;
        g.coefficients[at + d] += magnitude * size;
    }
}

Gradient zeros(const std::vector<int64_t>& shape, int64_t terms) {
    Gradient g;
    g.shape = shape;
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    for (std::vector<double>* sums : {&g.values, &g.absolute, &g.uncertain, &g.coefficients}) sums->assign(count, 0.0);
    g.terms = terms;
    return g;
}

ScoreGradResult zeros(const Prepared& call) {
    const ScoreArguments& a = call.arguments;
    int64_t longest_q = 0, longest_kv = 0, all_rows = 0;
    for (const Sequence& s : call.sequences) {
        longest_q = std::max(longest_q, s.q_len);
        longest_kv = std::max(longest_kv, s.kv_len);
        all_rows += s.q_len;
    }
    const int64_t group = call.operands.key.heads == 0 ? 0 : call.operands.query.heads / call.operands.key.heads;
    ScoreGradResult r;
    r.dq = zeros(a.query.shape, longest_kv);
    r.dk = zeros(a.key.shape, group * longest_q);
    r.dv = zeros(a.value.shape, group * longest_q);
    if (a.query_rope && a.key_rope) {
        r.dq_rope = zeros(a.query_rope->shape, longest_kv);
        r.dk_rope = zeros(a.key_rope->shape, group * longest_q);
    }
    if (a.real_shift) r.dpse = zeros(a.real_shift->shape, all_rows);
    if (!a.sink.empty()) r.dsink = zeros({static_cast<int64_t>(a.sink.size())}, all_rows);
    return r;
}

// One row and what its pairs share.
struct GradRow {
    const Row& row;
    const double* dy;
    double max, sum;  // as given
    Sum delta;

    // exp(x - M) / L, whose exponent is a sum of x, M and the logarithm of L.
    Weight softmax(const Sum& x) const {
        const double p = std::exp(x.value - max) / sum;
        // A weight of an infinite logit is 0 (or NaN) whatever is rounded.
        const double exponent = x.absolute + std::fabs(max) + std::fabs(std::log(sum));
        return {p, std::isfinite(exponent) ? p * exponent : 0};
    }
};

// dV, dQ, dK and dBias of one pair.
void add_pair(const Prepared& call, const Sequence& s, const GradRow& r, int64_t j, const Sum& x,
              ScoreGradResult& result) {
    const ScoreArguments& a = call.arguments;
    const Operands& o = call.operands;
    const int64_t row = s.q_begin + r.row.position, key = s.kv_begin + j, kv_head = o.kv_head(r.row.head);
    const int64_t v_at = o.value.at(s.batch, key, kv_head);
    const double kept = call.kept(s, r.row, j);
    const Weight p = r.softmax(x);
    add_terms(result.dv, v_at, o.value.features, p.times(kept), r.dy);

    Sum dp;
    for (int64_t d = 0; d < o.value.features; d++) dp.add(r.dy[d] * a.value.values[v_at + d]);
    dp.scale(kept);
    const double factor = dp.value - r.delta.value, added = dp.absolute + r.delta.absolute;
    const Weight ds{p.value * factor, p.uncertain * std::fabs(factor) + p.value * added};
    if (std::isfinite(added)) result.largest_factor = std::max(result.largest_factor, added);

    const Weight scaled = ds.times(call.scale);
    auto add_dq_and_dk = [&](Gradient& dq, Gradient& dk, const Axes& q_axes, const Axes& k_axes, const Tensor& q,
                             const Tensor& k) {
        const int64_t q_at = q_axes.at(s.batch, row, r.row.head), k_at = k_axes.at(s.batch, key, kv_head);
        add_terms(dq, q_at, q_axes.features, scaled, &k.values[k_at], call.scale);
        add_terms(dk, k_at, q_axes.features, scaled, &q.values[q_at], call.scale);
    };
    add_dq_and_dk(result.dq, result.dk, o.query, o.key, a.query, a.key);
    if (o.rope()) add_dq_and_dk(result.dq_rope, result.dk_rope, o.query_rope, o.key_rope, *a.query_rope, *a.key_rope);
    if (call.bias.has_gradient()) {
        const double scale = call.bias.inside_scale() ? call.scale : 1.0, one = 1;
        const int64_t entry = call.bias.entry(s, r.row.head, r.row.position, j);
        add_terms(result.dpse, entry, 1, ds.times(scale), &one, scale);
    }
}

void add_sink(const GradRow& r, double sink, ScoreGradResult& result) {
    Sum x;
    x.add(sink);
    const Weight p = r.softmax(x);
    const double delta = -r.delta.value, one = 1;
    add_terms(result.dsink, r.row.head, 1,
              {p.value * delta, p.uncertain * std::fabs(delta) + p.value * r.delta.absolute}, &one);
    if (std::isfinite(r.delta.absolute)) result.largest_factor = std::max(result.largest_factor, r.delta.absolute);
}

}  // namespace

ScoreGradResult score_grad(const ScoreGradArguments& arguments) {
    const ScoreArguments& a = arguments.forward;
    const Prepared call(a);
    ScoreGradResult result = zeros(call);
    size_t index = 0;
    for_each_row(call, [&](const Sequence& s, Row& row) {
        const size_t at = index++;
        if (!call.has_keys(s)) return;
        const RowLogits seen = row_logits(call, s, row);
        if (row.kind == RowKind::kHidden) return;
        GradRow r{
            row, &arguments.dy.values[row.out_begin], arguments.softmax_max.at(at), arguments.softmax_sum.at(at), {}};
        for (int64_t d = 0; d < call.operands.value.features; d++)
            r.delta.add(r.dy[d] * arguments.attention_in.values[row.out_begin + d]);
        // Rows that count as empty are known from their statistics; with a sink those look like a row's of small weights.
        if (!seen.sees_nothing() || seen.has_sink()) {
            for (size_t t = 0; t < seen.keys.size(); t++) add_pair(call, s, r, seen.keys[t], seen.logits[t], result);
        }
        if (seen.has_sink()) add_sink(r, seen.sink, result);
    });
    return result;
}

}  // namespace flash_attention::reference
