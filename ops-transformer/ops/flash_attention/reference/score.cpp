#include "reference/score.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "reference/prepared.h"

namespace flash_attention::reference {
namespace {

// The softmax of one row over the keys that it sees.
struct RowSoftmax {
    std::vector<int64_t> keys;
    std::vector<double> p;  // one a key; none for a row that sees nothing
    double max = 0, sum = 0;
};

// Notes in `row` what it finds out about the keys.
RowSoftmax row_softmax(const Prepared& call, const Sequence& s, Row& row) {
    RowLogits seen = row_logits(call, s, row);
    RowSoftmax r;
    r.keys = std::move(seen.keys);
    if (row.kind == RowKind::kHidden) {
        r.max = -FLT_MAX;
        r.sum = FLT_MAX;
        return r;
    }
    r.max = std::isnan(seen.sink) ? seen.sink : std::max(seen.max, seen.sink);
    if (!seen.sees_nothing()) {
        for (const Sum& x : seen.logits) {
            r.p.push_back(std::exp(x.value - r.max));
            r.sum += r.p.back();
        }
    }
    if (seen.has_sink()) r.sum += std::exp(seen.sink - r.max);
    for (double& p : r.p) p /= r.sum;
    return r;
}

// O of one row; the finite values that it mixes are noted in `row`.
void mix_values(const Prepared& call, const Sequence& s, const RowSoftmax& softmax, Row& row, double* out) {
    const Operands& o = call.operands;
    for (size_t t = 0; t < softmax.p.size(); t++) {
        const int64_t j = softmax.keys[t];
        const double factor = call.kept(s, row, j);
        const double* v = &call.arguments.value.values[o.value.at(s.batch, s.kv_begin + j, o.kv_head(row.head))];
        for (int64_t d = 0; d < o.value.features; d++) {
            out[d] += softmax.p[t] * factor * v[d];
            if (std::isfinite(v[d])) row.largest_value = std::max(row.largest_value, std::fabs(v[d]) * factor);
        }
    }
}

}  // namespace

ScoreResult score(const ScoreArguments& a) {
    const Prepared call(a);
    const Operands& o = call.operands;
    ScoreResult result;
    result.attention_out.shape = o.out_shape;
    result.attention_out.values.assign(o.query.batches * o.query.positions * o.query.heads * o.value.features, 0.0);
    for_each_row(call, [&](const Sequence& s, Row& row) {
        RowSoftmax softmax;
        if (call.has_keys(s)) {
            softmax = row_softmax(call, s, row);
            mix_values(call, s, softmax, row, result.attention_out.values.data() + row.out_begin);
        }
        result.rows.push_back(row);
        result.softmax_max.push_back(softmax.max);
        result.softmax_sum.push_back(softmax.sum);
    });
    return result;
}

}  // namespace flash_attention::reference
