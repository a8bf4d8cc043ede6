#include "metamorphic.h"

#include <numeric>

namespace flash_attention::testing {
namespace {

// Rows [begin, begin + rows) along the first dimension, behind what `to` has already.
void append_rows(reference::Tensor& to, const reference::Tensor& from, int64_t begin, int64_t rows) {
    const int64_t width = element_count(from.shape) / from.shape[0];
    const auto first = from.values.begin() + begin * width;
    to.values.insert(to.values.end(), first, first + rows * width);
    to.shape = from.shape;
    to.shape[0] = static_cast<int64_t>(to.values.size()) / width;
}

void append_bits(std::vector<bool>& to, const std::vector<uint8_t>& from, int64_t begin, int64_t count) {
    for (int64_t bit = begin; bit < begin + count; bit++) to.push_back((from[bit / 8] >> (bit % 8) & 1) != 0);
}

std::vector<uint8_t> packed(const std::vector<bool>& bits) {
    std::vector<uint8_t> bytes((bits.size() + 7) / 8, 0);
    for (size_t bit = 0; bit < bits.size(); bit++) bytes[bit / 8] |= static_cast<uint8_t>(bits[bit] << (bit % 8));
    return bytes;
}

// The same call without the rows of its tensors and without lists.
Call emptied(const Call& from) {
    Call call = from;
    reference::ScoreArguments& a = call.arguments;
    call.description.q.clear();
    call.description.kv.clear();
    call.description.slack_q = call.description.slack_kv = call.description.tail = 0;
    // Bits from a seed follow from their number in the whole call.
    if (from.description.drop == DropShape::kFromSeed) {
        call.description.drop = DropShape::kExact;
        call.description.drop_seed = call.description.drop_offset = 0;
    }
    for (reference::Tensor* t : {&a.query, &a.key, &a.value}) t->values.clear();
    if (a.query_rope) a.query_rope->values.clear();
    if (a.key_rope) a.key_rope->values.clear();
    a.actual_seq_qlen.clear();
    a.actual_seq_kvlen.clear();
    return call;
}

void append_tokens(reference::ScoreArguments& to, const reference::ScoreArguments& from, int64_t row, int64_t rows,
                   int64_t key, int64_t keys) {
    append_rows(to.query, from.query, row, rows);
    append_rows(to.key, from.key, key, keys);
    append_rows(to.value, from.value, key, keys);
    if (from.query_rope) append_rows(*to.query_rope, *from.query_rope, row, rows);
    if (from.key_rope) append_rows(*to.key_rope, *from.key_rope, key, keys);
}

void set_lengths(Call& call, const std::vector<int64_t>& q, const std::vector<int64_t>& kv) {
    auto totals = [](const std::vector<int64_t>& lengths) {
        std::vector<int64_t> sums(lengths.size());
        std::partial_sum(lengths.begin(), lengths.end(), sums.begin());
        return sums;
    };
    call.description.q = q;
    call.description.kv = kv;
    call.arguments.actual_seq_qlen = totals(q);
    call.arguments.actual_seq_kvlen = totals(kv);
}

}  // namespace

Call with_sequences(const Call& from, const std::vector<size_t>& chosen) {
    Call call = emptied(from);
    const Case& c = from.description;
    const reference::ScoreArguments& a = from.arguments;
    const std::vector<reference::Sequence> sequences = reference::sequences_of(a);
    std::vector<int64_t> q, kv, prefix;
    reference::Tensor bias;
    std::vector<bool> bits;
    for (const size_t index : chosen) {
        const reference::Sequence& s = sequences[index];
        append_tokens(call.arguments, a, s.q_begin, s.q_len, s.kv_begin, s.kv_len);
        q.push_back(s.q_len);
        kv.push_back(s.kv_len);
        if (!a.prefix.empty()) prefix.push_back(a.prefix[index]);
        int64_t pairs_before = 0;
        for (size_t before = 0; before < index; before++)
            pairs_before += c.heads * sequences[before].q_len * sequences[before].kv_len;
        const int64_t pairs = c.heads * s.q_len * s.kv_len;
        if (a.drop_mask) append_bits(bits, *a.drop_mask, pairs_before, pairs);
        if (c.pse == PseShape::kFull) append_rows(bias, *a.real_shift, pairs_before, pairs);
        if (c.pse == PseShape::kRow) append_rows(bias, *a.real_shift, c.heads * s.kv_begin, c.heads * s.kv_len);
        if (c.pse == PseShape::kSlopes) append_rows(bias, *a.real_shift, static_cast<int64_t>(index), 1);
    }
    set_lengths(call, q, kv);
    call.arguments.prefix = prefix;
    if (a.drop_mask) call.arguments.drop_mask = packed(bits);
    if (!bias.shape.empty()) call.arguments.real_shift = bias;
    return call;
}

BackwardCall with_sequences(const BackwardCall& from, const std::vector<size_t>& chosen) {
    const Call forward = with_sequences(from.forward(), chosen);
    BackwardCall call;
    call.description = forward.description;
    call.arguments.forward = forward.arguments;
    const reference::ScoreGradArguments& g = from.arguments;
    const std::vector<reference::Sequence> sequences = reference::sequences_of(g.forward);
    const int64_t heads = from.description.heads;
    for (const size_t index : chosen) {
        const reference::Sequence& s = sequences[index];
        append_rows(call.arguments.dy, g.dy, s.q_begin, s.q_len);
        append_rows(call.arguments.attention_in, g.attention_in, s.q_begin, s.q_len);
        auto append = [&](std::vector<double>& to, const std::vector<double>& all) {
            to.insert(to.end(), all.begin() + s.q_begin * heads, all.begin() + (s.q_begin + s.q_len) * heads);
        };
        append(call.arguments.softmax_max, g.softmax_max);
        append(call.arguments.softmax_sum, g.softmax_sum);
    }
    return call;
}

Call cut_out(const Call& from, const Cut& cut) {
    Call call = emptied(from);
    append_tokens(call.arguments, from.arguments, cut.first_row,
                  std::accumulate(cut.q.begin(), cut.q.end(), int64_t{0}), cut.first_key,
                  std::accumulate(cut.kv.begin(), cut.kv.end(), int64_t{0}));
    set_lengths(call, cut.q, cut.kv);
    return call;
}

int64_t row_in_layout(const std::string& layout, int64_t row, int64_t batch, int64_t seq, int64_t heads) {
    const int64_t b = row / (seq * heads), s = row / heads % seq, n = row % heads;
    if (layout == "SBH") return (s * batch + b) * heads + n;
    if (layout == "BNSD") return (b * heads + n) * seq + s;
    return row;
}

namespace {

reference::Tensor moved(const std::string& layout, const reference::Tensor& bsnd, std::vector<int64_t> shape) {
    const int64_t batch = bsnd.shape[0], seq = bsnd.shape[1], heads = bsnd.shape[2], dim = bsnd.shape[3];
    reference::Tensor to{std::move(shape), std::vector<double>(bsnd.values.size())};
    for (int64_t row = 0; row < batch * seq * heads; row++) {
        const int64_t at = row_in_layout(layout, row, batch, seq, heads);
        for (int64_t d = 0; d < dim; d++) to.values[at * dim + d] = bsnd.values[row * dim + d];
    }
    return to;
}

}  // namespace

Call in_layout(const Call& from, const std::string& layout) {
    Call call = from;
    Case& c = call.description;
    c.layout = layout;
    call.arguments.input_layout = layout;
    if (layout == "TND") {
        set_lengths(call, std::vector<int64_t>(c.batch, c.q[0]), std::vector<int64_t>(c.batch, c.kv[0]));
        c.batch = 1;
        // The flat forms have the order of [B, N, Sq, Skv] and [B, N, 1, Skv]; slopes are the same.
        std::optional<reference::Tensor>& bias = call.arguments.real_shift;
        if (bias && !c.slopes()) bias->shape = {static_cast<int64_t>(bias->values.size())};
    }
    call.arguments.query = moved(layout, from.arguments.query, query_shape(c));
    call.arguments.key = moved(layout, from.arguments.key, key_shape(c, c.d));
    call.arguments.value = moved(layout, from.arguments.value, key_shape(c, c.dv));
    return call;
}

// Statistics are [B, N, Sq] in all of them.
BackwardCall in_layout(const BackwardCall& from, const std::string& layout) {
    const Call forward = in_layout(from.forward(), layout);
    BackwardCall call = from;
    call.description = forward.description;
    call.arguments.forward = forward.arguments;
    call.arguments.dy = moved(layout, from.arguments.dy, out_shape(forward.description));
    call.arguments.attention_in = moved(layout, from.arguments.attention_in, out_shape(forward.description));
    return call;
}

}  // namespace flash_attention::testing
