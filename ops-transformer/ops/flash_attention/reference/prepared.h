// What forward and backward of the reference share: a call with what is worked out once for all of its rows, the order
// of rows, and the logits of a row.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "reference/axes.h"
#include "reference/bias.h"
#include "reference/score.h"

namespace flash_attention::reference {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The operands of a call, found once.
struct Operands {
    Axes query, key, value, out, query_rope, key_rope;
    std::vector<int64_t> out_shape;  // of attention_out and its gradient

    explicit Operands(const ScoreArguments& a);

    // Consecutive query heads share a key/value head.
    int64_t kv_head(int64_t head) const { return head / (query.heads / key.heads); }

    bool rope() const { return query_rope.features != 0; }

    bool nothing_to_attend() const {
        return query.features == 0 || key.heads == 0 || value.features == 0 || key.positions == 0;
    }
};

struct Prepared {
    const ScoreArguments& arguments;
    Operands operands;
    std::vector<Sequence> sequences;
    Bias bias;
    // As the operator has them. Not doubles that were rounded: g++ 12 with -O2 forgets to round two such neighbours.
    float scale, keep_prob;

    // Keeps a reference to the arguments.
    explicit Prepared(const ScoreArguments& a);

    bool has_keys(const Sequence& s) const { return s.kv_len != 0 && !operands.nothing_to_attend(); }
    // What dropout multiplies a weight with.
    double kept(const Sequence& s, const Row& row, int64_t j) const;
};

// Calls visit(sequence, row) for all rows in the order in which the operator stores their statistics, last those that
// belong to no sequence, as a sequence that has no keys.
template <class Visit>
void for_each_row(const Prepared& call, Visit visit);

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

// The keys that a row sees and their logits.
struct RowLogits {
    std::vector<int64_t> keys;
    std::vector<Sum> logits;     // one a key
    double max = -kInfinity;     // of the logits
    bool nan = false;            // whether one of them is NaN, which `max` passes over
    double sink = -kInfinity;    // one of minus infinity weighs nothing, like any logit of minus infinity
    bool sees_nothing() const {  // but perhaps a sink
        return max == -kInfinity && !nan;
    }
    bool has_sink() const { return sink != -kInfinity; }
};

// Of a row of a sequence with keys; notes kind, conditioning and number of keys in `row`.
RowLogits row_logits(const Prepared& call, const Sequence& s, Row& row);

template <class Visit>
void for_each_row(const Prepared& call, Visit visit) {
    const ScoreArguments& a = call.arguments;
    const Operands& o = call.operands;
    const bool by_token = a.input_layout == "TND" && a.softmax_out_layout == "same_as_input";
    auto rows_of = [&](const Sequence& s) {
        for (int64_t t = 0; t < s.q_len * o.query.heads; t++) {
            Row row;
            row.sequence = s.index;
            row.head = by_token ? t % o.query.heads : t / s.q_len;
            row.position = by_token ? t / o.query.heads : t % s.q_len;
            row.out_begin = o.out.at(s.batch, s.q_begin + row.position, row.head);
            visit(s, row);
        }
    };
    for (const Sequence& s : call.sequences) rows_of(s);
    if (a.input_layout != "TND") return;
    Sequence rest;
    rest.index = -1;
    for (const Sequence& s : call.sequences) rest.q_begin += s.q_len;
    rest.q_len = o.query.positions - rest.q_begin;
    rows_of(rest);
}

}  // namespace flash_attention::reference
