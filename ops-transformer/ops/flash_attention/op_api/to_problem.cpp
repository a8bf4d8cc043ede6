#include "op_api/to_problem.h"

#include <algorithm>
#include <utility>

#include "opbase/layout.h"

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

Band band_of(const ScoreRequest& request, MaskForm mask, const Sequence& lengths) {
    if (mask == MaskForm::kNone) return {};
    return make_band(static_cast<SparseMode>(request.sparse_mode), request.pre_tokens, request.next_tokens,
                     lengths.q_len, lengths.kv_len);
}

// The rows of T that belong to no sequence become one more sequence, without keys, whose outputs are zero like theirs.
void add_remaining_rows(const ScoreSizes& sizes, SequenceLengths& lengths) {
    const int64_t rows = sizes.q_len - lengths.sum_q;
    if (rows > 0) lengths.sequences.push_back(make_sequence(rows, 0));
}

bool has_pairs(const Sequence& s) {
    return s.q_len > 0 && s.kv_len > 0;
}

// Where the operands of a call lie.
struct Cursors {
    Cursor query, key, value, out;
    MaskCursor mask;
};

Cursors add_operands(const ScoreRequest& request, const ScoreSizes& sizes, MaskForm mask, bool reads,
                     Operands& operands) {
    Cursors at;
    const auto input = [&](Operand operand, const char* name, ScoreRequest::TensorField field, int64_t heads) {
        return make_cursor(opbase::as_bsnd(operands.add_input(request, operand, name, field), sizes.layout, heads));
    };
    if (reads) {
        at.query = input(kQuery, "query", &ScoreRequest::query, sizes.query_heads);
        at.key = input(kKey, "key", &ScoreRequest::key, sizes.kv_heads);
        at.value = input(kValue, "value", &ScoreRequest::value, sizes.kv_heads);
        if (mask == MaskForm::kFull || mask == MaskForm::kBlockDiagonal) {
            at.mask = make_mask_cursor(
                operands.add_input(request, kAttenMask, "attenMaskOptional", &ScoreRequest::atten_mask), mask);
        }
    }
    operands.add_statistics(request, kSoftmaxMax, "softmaxMaxOut", &ScoreRequest::softmax_max);
    operands.add_statistics(request, kSoftmaxSum, "softmaxSumOut", &ScoreRequest::softmax_sum);
    if (request.attention_out->count() > 0) {
        at.out = make_cursor(opbase::as_bsnd(operands.add_attention_out(request), sizes.layout, sizes.query_heads));
    }
    return at;
}

// Gives every sequence its offsets and its band. Dense batches lie a batch stride apart; variable lengths follow each
// other.
void place_sequences(const ScoreRequest& request, const ScoreSizes& sizes, MaskForm mask, bool reads, const Cursors& at,
                     std::vector<Sequence>& sequences) {
    int64_t rows_before = 0;
    int64_t keys_before = 0;  // of variable lengths; a dense batch of expanded keys may have more than can be counted
    for (size_t i = 0; i < sequences.size(); i++) {
        Sequence& s = sequences[i];
        const int64_t index = static_cast<int64_t>(i);
        const int64_t batch = request.varlen ? 0 : index;
        const int64_t first_row = request.varlen ? rows_before : 0;
        s.out = at.out.offset(batch, first_row);
        // Statistics: for each sequence one block [heads, rows, 8], the blocks one after another.
        s.stats = rows_before * sizes.query_heads * kStatsCopies;
        s.stats_strides = {kStatsCopies, s.q_len * kStatsCopies};
        if (reads && has_pairs(s)) {
            s.query = at.query.offset(batch, first_row);
            s.key = at.key.offset(batch, keys_before);
            s.value = at.value.offset(batch, keys_before);
            s.mask = at.mask.offset(index, first_row, keys_before);
            s.band = band_of(request, mask, s);
        }
        rows_before += s.q_len;
        if (request.varlen) keys_before += s.kv_len;
        if (!reads) s.kv_len = 0;
    }
}

}  // namespace

Problem to_problem(const ScoreRequest& request, const ScoreSizes& sizes, MaskForm mask, SequenceLengths lengths,
                   Operands& operands) {
    if (request.varlen) add_remaining_rows(sizes, lengths);
    std::vector<Sequence>& sequences = lengths.sequences;
    const bool reads = !sizes.nothing_to_attend() && std::any_of(sequences.begin(), sequences.end(), has_pairs);
    const Cursors at = add_operands(request, sizes, mask, reads, operands);
    place_sequences(request, sizes, mask, reads, at, sequences);

    Problem problem;
    problem.type = element_type(request.query->dtype);
    problem.query_heads = sizes.query_heads;
    problem.kv_heads = std::max<int64_t>(sizes.kv_heads, 1);  // 0: nothing to attend to, but still a divisor
    problem.head_dim = sizes.head_dim;
    problem.value_dim = sizes.value_dim;
    problem.scale = static_cast<float>(request.scale);
    problem.query = at.query.strides;
    problem.key = at.key.strides;
    problem.value = at.value.strides;
    problem.out = at.out.strides;
    problem.has_mask = reads && (mask == MaskForm::kFull || mask == MaskForm::kBlockDiagonal);
    problem.mask = at.mask.strides;
    problem.sequences = std::move(sequences);
    return problem;
}

}  // namespace flash_attention
