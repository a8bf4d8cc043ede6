#include "reference/prepared.h"

#include <algorithm>

namespace flash_attention::reference {
namespace {

// With H only, the key's head count follows from the query's head dimension.
int64_t kv_heads(const ScoreArguments& a, int64_t head_dim) {
    return head_dim == 0 ? 0 : a.key.shape.back() / head_dim;
}

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

}  // namespace

Operands::Operands(const ScoreArguments& a)
    : query(axes_of(a.input_layout, a.query.shape, a.head_num)),
      key(axes_of(a.input_layout, a.key.shape, kv_heads(a, query.features))),
      value(axes_of(a.input_layout, a.value.shape, key.heads)) {
    out_shape = a.query.shape;
    const bool joined = a.input_layout == "BSH" || a.input_layout == "SBH";
    out_shape.back() = joined ? query.heads * value.features : value.features;
    out = axes_of(a.input_layout, out_shape, query.heads);
    if (!a.query_rope || !a.key_rope) return;
    query_rope = axes_of(a.input_layout, a.query_rope->shape, query.heads);
    key_rope = axes_of(a.input_layout, a.key_rope->shape, key.heads);
}

Prepared::Prepared(const ScoreArguments& a)
    : arguments(a),
      operands(a),
      sequences(sequences_of(a)),
      bias(a, sequences, operands.query.heads),
      scale(static_cast<float>(a.scale_value)),
      keep_prob(static_cast<float>(a.keep_prob)) {}

// Bits lie one after another over sequences, heads, rows and keys, without gaps.
double Prepared::kept(const Sequence& s, const Row& row, int64_t j) const {
    if (!arguments.drop_mask) return 1;
    const int64_t bit = operands.query.heads * s.pairs_begin + (row.head * s.q_len + row.position) * s.kv_len + j;
    const bool keep = (arguments.drop_mask->at(static_cast<size_t>(bit / 8)) >> (bit % 8)) & 1;
    return keep ? 1 / static_cast<double>(keep_prob) : 0;
}

RowLogits row_logits(const Prepared& call, const Sequence& s, Row& row) {
    const ScoreArguments& a = call.arguments;
    RowLogits r;
    for (int64_t j = 0; j < s.kv_len; j++) {
        if (!sees(a, s, row.head, row.position, j)) continue;
        const double bias = call.bias.given() ? call.bias.at(s, row.head, row.position, j) : 0.0;
        if (call.bias.hides(bias)) continue;
        const Sum x = logit(call, s, row, j, bias);
        r.keys.push_back(j);
        r.logits.push_back(x);
        r.max = std::max(r.max, x.value);
        r.nan |= std::isnan(x.value);
        if (std::isfinite(x.absolute)) row.conditioning = std::max(row.conditioning, x.absolute);
    }
    row.visible = static_cast<int64_t>(r.keys.size());
    if (!a.sink.empty()) r.sink = a.sink.at(static_cast<size_t>(row.head));
    // A row whose logits are all minus infinity sees as little as one without visible keys: no value reaches its
    // output.
    row.kind = r.sees_nothing() && !r.has_sink() ? RowKind::kHidden : RowKind::kOrdinary;
    return r;
}

}  // namespace flash_attention::reference
