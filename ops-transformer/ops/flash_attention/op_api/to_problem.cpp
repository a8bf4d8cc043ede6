#include "op_api/to_problem.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "engine/bias.h"
#include "opbase/layout.h"
#include "opbase/tensor.h"

namespace flash_attention {
namespace {

using opbase::BsndView;
using opbase::Layout;
using opbase::Tensor;

ElementType element_type(aclDataType dtype) {
    switch (dtype) {
        case ACL_FLOAT16:
            return ElementType::kF16;
        case ACL_BF16:
            return ElementType::kBf16;
        default:
            return ElementType::kF32;
    }
}

// One operand while sequences get their offsets: dense batches lie `batch` apart, variable lengths follow each other.
struct Cursor {
    RowStrides strides;
    int64_t batch = 0;

    int64_t offset(int64_t batch_index, int64_t first_row) const {
        return batch_index * batch + first_row * strides.row;
    }
};

// An axis of one entry is never stepped along, whatever its stride says.
int64_t step(int64_t size, int64_t stride) {
    return size <= 1 ? 0 : stride;
}

Cursor make_cursor(const BsndView& view) {
    return {{step(view.seq, view.seq_stride), step(view.heads, view.head_stride)}, step(view.batch, view.batch_stride)};
}

// Offsets in the explicit mask.
struct MaskCursor {
    RowStrides strides;
    int64_t batch = 0;   // 0: shared by all batch entries
    int64_t column = 0;  // block-diagonal: distance between keys

    int64_t offset(int64_t batch_index, int64_t first_row, int64_t first_key) const {
        return column == 0 ? batch_index * batch : first_row * strides.row + first_key * column;
    }
};

MaskCursor make_mask_cursor(const Tensor& mask, MaskForm form) {
    const size_t rank = mask.shape.size();
    MaskCursor cursor;
    cursor.strides.row = step(mask.shape[rank - 2], mask.strides[rank - 2]);
    if (rank == 4) {
        cursor.batch = step(mask.shape[0], mask.strides[0]);
        cursor.strides.head = step(mask.shape[1], mask.strides[1]);
    }
    cursor.column = form == MaskForm::kBlockDiagonal ? 1 : 0;
    return cursor;
}

// Offsets in the bias.
struct BiasCursor {
    BiasForm form = BiasForm::kNone;
    int64_t batch = 0;     // of matrices and slopes; 0: shared by all batch entries
    SequenceBias first{};  // of sequence 0, as far as it is the same for all
};

BiasCursor make_bias_cursor(const Tensor& bias, BiasForm form) {
    BiasCursor cursor{.form = form};
    const size_t rank = bias.shape.size();
    if (form == BiasForm::kSlopes) {
        cursor.first.strides.head = step(bias.shape[rank - 1], 1);
        if (rank == 2) cursor.batch = step(bias.shape[0], bias.strides[0]);
    } else {
        cursor.batch = step(bias.shape[0], bias.strides[0]);
        cursor.first.strides = {step(bias.shape[2], bias.strides[2]), step(bias.shape[1], bias.strides[1])};
        cursor.first.columns = bias.shape[3];
    }
    return cursor;
}

// `pairs_before` and `keys_before`: score elements of one head, and keys, of all sequences before this one.
SequenceBias bias_of(const BiasCursor& cursor, const SequenceLengths& all, int64_t heads, int64_t index,
                     int64_t pairs_before, int64_t keys_before) {
    const Sequence& s = all.sequences[index];
    SequenceBias bias = cursor.first;
    bias.origin = index * cursor.batch;
    switch (cursor.form) {
        case BiasForm::kFlatMatrix:
            bias.origin = heads * pairs_before;
            bias.strides = {s.kv_len, s.q_len * s.kv_len};
            bias.columns = s.kv_len;
            break;
        case BiasForm::kFlatRows:
            bias.origin = heads * keys_before;
            bias.strides = {0, s.kv_len};
            bias.columns = s.kv_len;
            break;
        case BiasForm::kCompressed:
            // Sequences share the matrix of the longest and read it from the bottom right corner.
            bias.first_row = std::max(kCompressedBiasRows, all.max_q) - s.q_len;
            bias.first_column = all.max_kv - s.kv_len;
            break;
        default:
            break;
    }
    return bias;
}

BiasKind bias_kind(const ScoreRequest& request, BiasForm form) {
    constexpr BiasKind kKinds[] = {BiasKind::kOutside, BiasKind::kInside, BiasKind::kLinear, BiasKind::kSquareRoot};
    return form == BiasForm::kNone ? BiasKind::kNone : kKinds[request.pse_type];
}

// The rows of T that belong to no sequence become one more sequence, without keys, whose outputs are zero like theirs.
void add_remaining_rows(const ScoreSizes& sizes, SequenceLengths& lengths) {
    const int64_t rows = sizes.q_len - lengths.sum_q;
    if (rows > 0) lengths.sequences.push_back({.q_len = rows});
}

// Where the operands of a call lie.
struct Cursors {
    Cursor query, key, value, query_rope, key_rope, out;
    MaskCursor mask;
    BiasCursor bias;
};

bool reads_mask(const ScoreForm& form) {
    return form.mask == MaskForm::kFull || form.mask == MaskForm::kBlockDiagonal;
}

class ProblemBuilder {
  public:
    ProblemBuilder(const ScoreRequest& request, ScoreForm& form, Operands& operands)
        : request_(request), form_(form), operands_(operands), band_sequence_(band_sequence(request, form.lengths)) {
        has_prefixes_ = form.mask != MaskForm::kNone && (request.sparse_mode == 5 || request.sparse_mode == 6) &&
                        has_valid_prefixes(request, form.lengths);
        if (request.varlen) add_remaining_rows(form.sizes, form.lengths);
        const std::vector<Sequence>& sequences = form.lengths.sequences;
        reads_ = !form.sizes.nothing_to_attend() &&
                 (request.max_workspace ||
                  std::any_of(sequences.begin(), sequences.end(), std::mem_fn(&Sequence::has_pairs)));
    }

    Problem build() {
        if (reads_) add_inputs();
        add_outputs();
        place_sequences();
        return problem();
    }

  private:
    Cursor input(Operand operand, const char* name, ScoreRequest::TensorField field, int64_t heads) {
        return make_cursor(
            opbase::as_bsnd(operands_.add_input(request_, operand, name, field), form_.sizes.layout, heads));
    }

    void add_inputs() {
        const ScoreSizes& sizes = form_.sizes;
        at_.query = input(kQuery, "query", &ScoreRequest::query, sizes.query_heads);
        at_.key = input(kKey, "key", &ScoreRequest::key, sizes.kv_heads);
        at_.value = input(kValue, "value", &ScoreRequest::value, sizes.kv_heads);
        if (form_.sizes.rope_dim > 0) {
            at_.query_rope = input(kQueryRope, request_.query_rope_name, &ScoreRequest::query_rope, sizes.query_heads);
            at_.key_rope = input(kKeyRope, request_.key_rope_name, &ScoreRequest::key_rope, sizes.kv_heads);
        }
        add_bias();
        if (!opbase::is_absent(request_.drop_mask)) {
            operands_.add_flat_input(request_, kDropMask, "dropMaskOptional", &ScoreRequest::drop_mask);
        }
        if (reads_mask(form_)) {
            at_.mask = make_mask_cursor(
                operands_.add_input(request_, kAttenMask, "attenMaskOptional", &ScoreRequest::atten_mask), form_.mask);
        }
        if (!opbase::is_absent(request_.sink)) {
            operands_.add_flat_input(request_, kSink, "sinkOptional", &ScoreRequest::sink);
        }
    }

    void add_bias() {
        constexpr const char* kName = "realShiftOptional";
        if (form_.bias == BiasForm::kNone) return;
        if (form_.bias == BiasForm::kFlatMatrix || form_.bias == BiasForm::kFlatRows) {
            operands_.add_flat_input(request_, kBias, kName, &ScoreRequest::real_shift);
            at_.bias.form = form_.bias;
            return;
        }
        at_.bias = make_bias_cursor(operands_.add_input(request_, kBias, kName, &ScoreRequest::real_shift), form_.bias);
    }

    void add_outputs() {
        operands_.add_statistics(request_, kSoftmaxMax, "softmaxMaxOut", &ScoreRequest::softmax_max);
        operands_.add_statistics(request_, kSoftmaxSum, "softmaxSumOut", &ScoreRequest::softmax_sum);
        if (request_.attention_out->count() == 0) return;
        at_.out = make_cursor(
            opbase::as_bsnd(operands_.add_attention_out(request_), form_.sizes.layout, form_.sizes.query_heads));
    }

    // Gives every sequence its offsets and its band. Dense batches lie a batch stride apart; variable lengths follow
    // each other.
    void place_sequences() {
        int64_t rows_before = 0;
        int64_t pairs_before = 0;  // of one head
        int64_t keys_before = 0;   // of varlen; a dense batch of expanded keys may have more than can be counted
        const int64_t heads = form_.sizes.query_heads;
        const bool drops = !opbase::is_absent(request_.drop_mask);
        for (size_t i = 0; i < form_.lengths.sequences.size(); i++) {
            Sequence& s = form_.lengths.sequences[i];
            const auto index = static_cast<int64_t>(i);
            const int64_t batch = request_.varlen ? 0 : index;
            const int64_t first_row = request_.varlen ? rows_before : 0;
            s.out = at_.out.offset(batch, first_row);
            place_statistics(s, rows_before);
            if (reads_ && s.has_pairs()) {
                s.query = at_.query.offset(batch, first_row);
                s.key = at_.key.offset(batch, keys_before);
                s.value = at_.value.offset(batch, keys_before);
                s.query_rope = at_.query_rope.offset(batch, first_row);
                s.key_rope = at_.key_rope.offset(batch, keys_before);
                s.mask = at_.mask.offset(index, first_row, keys_before);
                s.band = band_of(s, index);
                s.bias = bias_of(at_.bias, form_.lengths, heads, index, pairs_before, keys_before);
                s.bias.diagonal = diagonal_of(index);
                s.drop_bit = drops ? heads * pairs_before : 0;
            }
            rows_before += s.q_len;
            // Without an operand that has an element for every pair, pairs of expanded tensors may be beyond counting.
            if (drops || at_.bias.form == BiasForm::kFlatMatrix) pairs_before += s.q_len * s.kv_len;
            if (request_.varlen) keys_before += s.kv_len;
            if (!reads_) s.kv_len = 0;
        }
    }

    // For each sequence one block [heads, rows, 8], the blocks one after another; or [T, heads, 8].
    void place_statistics(Sequence& s, int64_t rows_before) const {
        s.stats = rows_before * form_.sizes.query_heads * kStatsCopies;
        const bool by_token = request_.varlen && statistics_layout(request_) == kSameAsInput;
        s.stats_strides = by_token ? RowStrides{form_.sizes.query_heads * kStatsCopies, kStatsCopies}
                                   : RowStrides{kStatsCopies, s.q_len * kStatsCopies};
    }

    Band band_of(const Sequence& s, int64_t index) const {
        if (form_.mask == MaskForm::kNone) return {};
        return make_band(mode_of(index), request_.pre_tokens, request_.next_tokens,
                         has_prefixes_ ? request_.prefix->values[index] : 0, s.q_len, s.kv_len);
    }

    SparseMode mode_of(int64_t index) const {
        switch (request_.sparse_mode) {
            case 5:
                return has_prefixes_ ? SparseMode::kPrefix : SparseMode::kAll;
            case 6:
                return SparseMode::kPrefix;
            case 7:
                return index == band_sequence_ ? SparseMode::kBand : SparseMode::kRightDownCausal;
            case 8:
                return index == band_sequence_ ? SparseMode::kBand : SparseMode::kLeftUpCausal;
            default:
                return static_cast<SparseMode>(request_.sparse_mode);
        }
    }

    // How far the positions of keys are ahead of those of rows. In mode 8 only the first sequence is a part of a longer
    // one.
    int64_t diagonal_of(int64_t index) const {
        if (form_.bias != BiasForm::kSlopes) return 0;
        if (form_.mask != MaskForm::kNone && request_.sparse_mode == 8 && index > 0) return 0;
        const BiasStart start = bias_start(request_);
        return start.kv - start.q;
    }

    Problem problem() {
        const ScoreSizes& sizes = form_.sizes;
        Problem problem;
        problem.type = element_type(request_.query->dtype);
        problem.query_heads = sizes.query_heads;
        problem.kv_heads = std::max<int64_t>(sizes.kv_heads, 1);  // 0: nothing to attend to, but still a divisor
        problem.head_dim = sizes.head_dim;
        problem.value_dim = sizes.value_dim;
        problem.rope_dim = form_.sizes.rope_dim;
        problem.scale = static_cast<float>(request_.scale);
        problem.query = at_.query.strides;
        problem.key = at_.key.strides;
        problem.value = at_.value.strides;
        problem.query_rope = at_.query_rope.strides;
        problem.key_rope = at_.key_rope.strides;
        problem.out = at_.out.strides;
        problem.bias = reads_ ? bias_kind(request_, form_.bias) : BiasKind::kNone;
        if (form_.bias == BiasForm::kCompressed) {
            problem.bias_full_rows = std::max(kCompressedBiasRows, form_.lengths.max_q);
        }
        problem.has_drop_mask = reads_ && !opbase::is_absent(request_.drop_mask);
        problem.keep_prob = static_cast<float>(request_.keep_prob);
        problem.has_sink = reads_ && !opbase::is_absent(request_.sink);
        problem.has_mask = reads_ && reads_mask(form_);
        problem.mask = at_.mask.strides;
        problem.sequences = std::move(form_.lengths.sequences);
        return problem;
    }

    const ScoreRequest& request_;
    ScoreForm& form_;
    Operands& operands_;
    int64_t band_sequence_;
    bool has_prefixes_ = false;
    bool reads_ = false;  // whether inputs are read at all: some row has a key
    Cursors at_;
};

}  // namespace

Problem to_problem(const ScoreRequest& request, ScoreForm form, Operands& operands) {
    return ProblemBuilder(request, form, operands).build();
}

}  // namespace flash_attention
