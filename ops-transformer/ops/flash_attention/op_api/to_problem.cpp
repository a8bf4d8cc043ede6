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

// As the adapters of frameworks ask for a mask: the share to drop, rounded as a float, in the precision of query's
// type.
dropout_gen_mask::MaskStream drop_stream(const ScoreRequest& request, ElementType type) {
    using dropout_gen_mask::Precision;
    const double drop_prob = 1.0F - static_cast<float>(request.keep_prob);
    const Precision precision = type == ElementType::kF32   ? Precision::kF32
                                : type == ElementType::kF16 ? Precision::kF16
                                                            : Precision::kBf16;
    return dropout_gen_mask::make_stream(static_cast<uint64_t>(request.seed), static_cast<uint64_t>(request.offset),
                                         drop_prob, precision);
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

// The rows of T that belong to no sequence become one more sequence, without keys, whose outputs are zero like theirs;
// for backward, so do the keys, without rows.
void add_remaining(const ScoreRequest& request, const ScoreSizes& sizes, SequenceLengths& lengths) {
    const int64_t rows = sizes.q_len - lengths.sum_q, keys = sizes.kv_len - lengths.sum_kv;
    if (rows > 0) lengths.sequences.push_back({.q_len = rows});
    if (request.backward && keys > 0) lengths.sequences.push_back({.kv_len = keys});
}

// Where the operands of a call lie.
struct Cursors {
    Cursor query, key, value, query_rope, key_rope, out;
    Cursor dy, dq, dk, dv, dq_rope, dk_rope;
    MaskCursor mask;
    BiasCursor bias, dbias;
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
        if (request.varlen) add_remaining(request, form.sizes, form.lengths);
        const std::vector<Sequence>& sequences = form.lengths.sequences;
        reads_ = !form.sizes.nothing_to_attend() &&
                 ((request.max_workspace && form.sizes.q_len > 0) ||
                  std::any_of(sequences.begin(), sequences.end(), std::mem_fn(&Sequence::has_pairs)));
    }

    Problem build() {
        if (reads_) add_inputs();
        if (!request_.backward) {
            add_outputs();
        } else if (reads_) {
            add_gradients();
        } else {
            add_zeros();
            form_.lengths.sequences.clear();
        }
        place_sequences();
        return problem();
    }

  private:
    Cursor input(Operand operand, const char* name, ScoreRequest::TensorField field, int64_t heads) {
        return make_cursor(
            opbase::as_bsnd(operands_.add_input(request_, operand, name, field), form_.sizes.layout, heads));
    }

    Cursor output(Operand operand, const char* name, ScoreRequest::TensorField field, int64_t heads) {
        return make_cursor(
            opbase::as_bsnd(operands_.add_output(request_, operand, name, field), form_.sizes.layout, heads));
    }

    void add_inputs() {
        const ScoreSizes& sizes = form_.sizes;
        at_.query = input(kQuery, "query", &ScoreRequest::query, sizes.query_heads);
        at_.key = input(kKey, request_.names.key, &ScoreRequest::key, sizes.kv_heads);
        at_.value = input(kValue, "value", &ScoreRequest::value, sizes.kv_heads);
        if (form_.sizes.rope_dim > 0) {
            at_.query_rope = input(kQueryRope, request_.names.query_rope, &ScoreRequest::query_rope, sizes.query_heads);
            at_.key_rope = input(kKeyRope, request_.names.key_rope, &ScoreRequest::key_rope, sizes.kv_heads);
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
            operands_.add_flat_input(request_, kSink, request_.names.sink, &ScoreRequest::sink);
        }
        if (request_.backward) add_results_of_forward();
    }

    void add_results_of_forward() {
        const ArgumentNames& names = request_.names;
        const int64_t heads = form_.sizes.query_heads;
        at_.dy = input(kDy, "dy", &ScoreRequest::dy, heads);
        at_.out = input(kAttentionOut, names.attention_out, &ScoreRequest::attention_out, heads);
        operands_.add_flat_input(request_, kSoftmaxMax, names.softmax_max, &ScoreRequest::softmax_max);
        operands_.add_flat_input(request_, kSoftmaxSum, names.softmax_sum, &ScoreRequest::softmax_sum);
    }

    void add_bias() {
        const char* const name = request_.names.bias;
        if (form_.bias == BiasForm::kNone) return;
        if (form_.bias == BiasForm::kFlatMatrix || form_.bias == BiasForm::kFlatRows) {
            operands_.add_flat_input(request_, kBias, name, &ScoreRequest::bias);
            at_.bias.form = form_.bias;
            return;
        }
        at_.bias = make_bias_cursor(operands_.add_input(request_, kBias, name, &ScoreRequest::bias), form_.bias);
    }

    void add_outputs() {
        const ArgumentNames& names = request_.names;
        operands_.add_flat_output(request_, kSoftmaxMax, names.softmax_max, &ScoreRequest::softmax_max);
        operands_.add_flat_output(request_, kSoftmaxSum, names.softmax_sum, &ScoreRequest::softmax_sum);
        if (request_.attention_out->count() == 0) return;
        at_.out = output(kAttentionOut, names.attention_out, &ScoreRequest::attention_out, form_.sizes.query_heads);
    }

    void add_gradients() {
        const int64_t heads = form_.sizes.query_heads, kv_heads = form_.sizes.kv_heads;
        at_.dq = output(kDq, "dqOut", &ScoreRequest::dq, heads);
        at_.dk = output(kDk, "dkOut", &ScoreRequest::dk, kv_heads);
        at_.dv = output(kDv, "dvOut", &ScoreRequest::dv, kv_heads);
        if (form_.sizes.rope_dim > 0) {
            at_.dq_rope = output(kDqRope, "dqRopeOut", &ScoreRequest::dq_rope, heads);
            at_.dk_rope = output(kDkRope, "dkRopeOut", &ScoreRequest::dk_rope, kv_heads);
        } else {
            add_zeros("dqRopeOut", &ScoreRequest::dq_rope);
            add_zeros("dkRopeOut", &ScoreRequest::dk_rope);
        }
        add_dbias();
        if (!opbase::is_absent(request_.sink)) {
            operands_.add_flat_output(request_, kDsink, "dsinkOut", &ScoreRequest::dsink);
        } else {
            add_zeros("dsinkOut", &ScoreRequest::dsink);
        }
    }

    // Like the bias, whose shape it has.
    void add_dbias() {
        constexpr const char* kName = "dpseOut";
        if (!form_.wants_dbias) return add_zeros(kName, &ScoreRequest::dbias);
        if (form_.bias == BiasForm::kMatrix) {
            at_.dbias =
                make_bias_cursor(operands_.add_output(request_, kDbias, kName, &ScoreRequest::dbias), form_.bias);
            return;
        }
        operands_.add_flat_output(request_, kDbias, kName, &ScoreRequest::dbias);
        const int64_t heads = form_.sizes.query_heads;
        const int64_t used = form_.bias == BiasForm::kFlatRows ? saturating_product({heads, form_.lengths.sum_kv})
                                                               : pair_count(form_.sizes, form_.lengths);
        zero_dbias(used, request_.dbias->count() - used);
        at_.dbias.form = form_.bias;
    }

    void zero_dbias(int64_t first, int64_t count) {
        operands_.zero_elements(kDbias, first, count, element_bytes(element_type(request_.query->dtype)));
    }

    void add_zeros(const char* name, ScoreRequest::TensorField field) {
        if (has_elements(request_.*field)) operands_.add_zeros(request_, name, field);
    }

    // Nothing can be attended to.
    void add_zeros() {
        add_zeros("dqOut", &ScoreRequest::dq);
        add_zeros("dkOut", &ScoreRequest::dk);
        add_zeros("dvOut", &ScoreRequest::dv);
        add_zeros("dqRopeOut", &ScoreRequest::dq_rope);
        add_zeros("dkRopeOut", &ScoreRequest::dk_rope);
        add_zeros("dpseOut", &ScoreRequest::dbias);
        add_zeros("dsinkOut", &ScoreRequest::dsink);
    }

    // Gives every sequence its offsets and its band. Dense batches lie a batch stride apart; variable lengths follow
    // each other.
    void place_sequences() {
        int64_t rows_before = 0;
        int64_t pairs_before = 0;  // of one head
        int64_t keys_before = 0;   // of varlen; a dense batch of expanded keys may have more than can be counted
        const int64_t heads = form_.sizes.query_heads;
        const bool drops = !opbase::is_absent(request_.drop_mask) || makes_drop_mask(request_);
        for (size_t i = 0; i < form_.lengths.sequences.size(); i++) {
            Sequence& s = form_.lengths.sequences[i];
            const auto index = static_cast<int64_t>(i);
            const int64_t batch = request_.varlen ? 0 : index;
            const int64_t first_row = request_.varlen ? rows_before : 0;
            s.out = at_.out.offset(batch, first_row);
            if (request_.backward) place_gradients(s, batch, first_row, keys_before);
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
                if (form_.wants_dbias) {
                    s.dbias = bias_of(at_.dbias, form_.lengths, heads, index, pairs_before, keys_before);
                }
            }
            // Keys without rows have an element each in the form of one row.
            if (at_.dbias.form == BiasForm::kFlatRows && s.q_len == 0 && keys_before < form_.lengths.sum_kv) {
                zero_dbias(heads * keys_before, heads * s.kv_len);
            }
            rows_before += s.q_len;
            // Without an operand that has an element for every pair, pairs of expanded tensors may be beyond counting.
            if (drops || at_.bias.form == BiasForm::kFlatMatrix) pairs_before += s.q_len * s.kv_len;
            if (request_.varlen) keys_before += s.kv_len;
            if (!reads_) s.kv_len = 0;
        }
    }

    void place_gradients(Sequence& s, int64_t batch, int64_t first_row, int64_t first_key) const {
        s.dy = at_.dy.offset(batch, first_row);
        s.dq = at_.dq.offset(batch, first_row);
        s.dk = at_.dk.offset(batch, first_key);
        s.dv = at_.dv.offset(batch, first_key);
        s.dq_rope = at_.dq_rope.offset(batch, first_row);
        s.dk_rope = at_.dk_rope.offset(batch, first_key);
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
        problem.dy = at_.dy.strides;
        problem.dq = at_.dq.strides;
        problem.dk = at_.dk.strides;
        problem.dv = at_.dv.strides;
        problem.dq_rope = at_.dq_rope.strides;
        problem.dk_rope = at_.dk_rope.strides;
        problem.bias = reads_ ? bias_kind(request_, form_.bias) : BiasKind::kNone;
        problem.wants_dbias = reads_ && form_.wants_dbias;
        if (form_.bias == BiasForm::kCompressed) {
            problem.bias_full_rows = std::max(kCompressedBiasRows, form_.lengths.max_q);
        }
        problem.has_drop_mask = reads_ && !opbase::is_absent(request_.drop_mask);
        problem.drop_from_seed = reads_ && makes_drop_mask(request_);
        if (problem.drop_from_seed) problem.drop_stream = drop_stream(request_, problem.type);
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
