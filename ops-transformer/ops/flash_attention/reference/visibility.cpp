// Which sequences a call has, and which keys sparse mode and mask show to their rows.
#include <algorithm>
#include <stdexcept>

#include "reference/axes.h"

namespace flash_attention::reference {
namespace {

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

std::vector<Sequence> dense_sequences(const ScoreArguments& a) {
    const Axes query = axes_of(a.input_layout, a.query.shape, a.head_num);
    // Head counts of the key do not matter for its positions.
    const Axes key = axes_of(a.input_layout, a.key.shape, 1);
    std::vector<Sequence> sequences(query.batches);
    for (int64_t b = 0; b < query.batches; b++) {
        sequences[b].batch = b;
        sequences[b].q_len = query.positions;
        sequences[b].kv_len = key.positions;
    }
    return sequences;
}

std::vector<Sequence> packed_sequences(const ScoreArguments& a) {
    const std::vector<int64_t> q = lengths_of(a.actual_seq_qlen), kv = lengths_of(a.actual_seq_kvlen);
    Sequence next;
    for (const int64_t length : q) next.all_rows += length;
    for (const int64_t length : kv) next.all_keys += length;
    std::vector<Sequence> sequences;
    for (size_t b = 0; b < q.size(); b++) {
        next.q_len = q[b];
        next.kv_len = kv.at(b);
        sequences.push_back(next);
        next.q_begin += next.q_len;
        next.kv_begin += next.kv_len;
    }
    return sequences;
}

// One entry a sequence, none of which ends before the causal part of the first row does or behind the last key.
bool valid_prefixes(const std::vector<int64_t>& prefix, const std::vector<Sequence>& sequences) {
    if (prefix.size() != sequences.size()) return false;
    for (size_t b = 0; b < prefix.size(); b++) {
        const Sequence& s = sequences[b];
        if (prefix[b] < std::max<int64_t>(0, s.kv_len - s.q_len) || prefix[b] > s.kv_len) return false;
    }
    return true;
}

// What a sparse mode shows, before an explicit mask. Distances are measured from the corner that the mode is tied to
// and are compared with pre and next as they are, so that no value of these can overflow.
bool mode_shows(const ScoreArguments& a, const Sequence& s, int64_t i, int64_t j) {
    const int64_t behind_top_left = i - j;  // how far key j lies to the left of the diagonal
    const int64_t behind_bottom_right =
        (i - s.q_len) - (j - s.kv_len);  // the same, last row and last key on the diagonal
    const bool left_up_causal = behind_top_left >= 0;
    const bool right_down_causal = behind_bottom_right >= 0;
    const bool band = behind_bottom_right <= a.pre_tokens && -behind_bottom_right <= a.next_tokens;
    switch (a.sparse_mode) {
        case 0:
            return behind_top_left <= a.pre_tokens && -behind_top_left <= a.next_tokens;
        case 1:
            return true;
        case 2:
            return left_up_causal;
        case 3:
            return right_down_causal;
        case 4:
            return band;
        case 5:
            return s.prefix == Sequence::kNoPrefix || right_down_causal || j < s.prefix;
        case 6:
            return right_down_causal || j < s.prefix;
        case 7:
            return s.last_with_rows ? band : right_down_causal;
        case 8:
            return s.first_with_rows ? band : left_up_causal;
        default:
            throw std::invalid_argument("reference: unknown sparse mode " + std::to_string(a.sparse_mode));
    }
}

bool has_explicit_mask(int64_t sparse_mode) {
    return sparse_mode == 0 || sparse_mode == 1 || sparse_mode == 5;
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

}  // namespace

std::vector<Sequence> sequences_of(const ScoreArguments& a) {
    std::vector<Sequence> sequences = a.input_layout == "TND" ? packed_sequences(a) : dense_sequences(a);
    const bool prefixes = valid_prefixes(a.prefix, sequences);
    Sequence* last_with_rows = nullptr;
    int64_t pairs = 0;
    for (size_t b = 0; b < sequences.size(); b++) {
        Sequence& s = sequences[b];
        s.index = static_cast<int64_t>(b);
        s.pairs_begin = pairs;
        pairs += s.q_len * s.kv_len;
        if (prefixes) s.prefix = a.prefix[b];
        if (s.q_len == 0) continue;
        s.first_with_rows = last_with_rows == nullptr;
        last_with_rows = &s;
    }
    if (last_with_rows != nullptr) last_with_rows->last_with_rows = true;
    return sequences;
}

bool sees(const ScoreArguments& a, const Sequence& s, int64_t head, int64_t i, int64_t j) {
    if (!a.atten_mask) return true;
    if (!mode_shows(a, s, i, j)) return false;
    return !has_explicit_mask(a.sparse_mode) || !mask_hides(a, s, head, i, j);
}

}  // namespace flash_attention::reference
