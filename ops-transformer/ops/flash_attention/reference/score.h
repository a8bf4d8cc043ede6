// The judge: what aclnnFlashAttentionScore and aclnnFlashAttentionVarLenScore have to compute, in double precision and
// plain loops. It takes the operator's public arguments and includes nothing of the code that it judges.
//
//   r(j) = sum over d of Q[i,d] * K[j,d], and over the features of the rope parts
//   x(j) = (r(j) + bias(j)) * scale                        the logit of key j, bias type 1
//   x(j) = r(j) * scale + bias(j)                          bias types 0, 2 and 3
//   M    = max of x(j) and the sink                        over the keys j that row i sees
//   L    = sum of exp(x(j) - M) and exp(sink - M)
//   O    = sum of exp(x(j) - M) / L * kept(j) / keep_prob * V[j]
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace flash_attention::reference {

// Row-major values, already widened from the operator's element type.
struct Tensor {
    std::vector<int64_t> shape;
    std::vector<double> values;
};

// Non-zero = hidden. Only modes 0, 1 and 5 look at `values`; the others may leave them out.
struct Mask {
    std::vector<int64_t> shape;
    std::vector<uint8_t> values;
};

// The arguments of the operator, under the operator's names.
struct ScoreArguments {
    std::string input_layout;  // "BSH", "SBH", "BSND", "BNSD" or "TND"
    Tensor query, key, value;
    std::optional<Mask> atten_mask;                          // absent: every row sees every key, whatever the mode
    std::vector<int64_t> actual_seq_qlen, actual_seq_kvlen;  // running totals, TND only
    double scale_value = 1.0;                                // used as the nearest float, as the operator does
    int64_t pre_tokens = 2147483647;
    int64_t next_tokens = 2147483647;
    int64_t head_num = 1;
    int64_t sparse_mode = 0;
    std::vector<int64_t> prefix;                 // one a sequence, for modes 5 and 6; empty: absent
    std::optional<Tensor> query_rope, key_rope;  // TND; more features, which the value does not have
    std::optional<Tensor> real_shift;            // the bias: a tensor for types 0 and 1, slopes for types 2 and 3
    int64_t pse_type = 1;
    std::vector<int64_t> q_start_idx, kv_start_idx;  // the first entry counts, and only when both are given
    std::optional<std::vector<uint8_t>> drop_mask;   // packed bits, lowest first, 1 = keep
    double keep_prob = 1.0;                          // used as the nearest float
    std::vector<double> sink;                        // one a query head; empty: absent
    std::string softmax_out_layout;                  // "" or "same_as_input"
};

// One sequence of the call: rows [q_begin, q_begin + q_len) of batch entry `batch` against keys [kv_begin, kv_begin +
// kv_len). In TND all sequences lie in one batch entry; `index` counts sequences in every layout.
struct Sequence {
    int64_t index = 0, batch = 0;
    int64_t q_begin = 0, q_len = 0;
    int64_t kv_begin = 0, kv_len = 0;
    int64_t all_rows = 0, all_keys = 0;  // of all sequences of the list together, TND only
    int64_t pairs_begin = 0;             // pairs of a row and a key in the sequences before this one
    int64_t prefix = kNoPrefix;          // what the list of prefixes says, if the list is a valid one
    bool first_with_rows = false, last_with_rows = false;

    static constexpr int64_t kNoPrefix = -1;
};

// What the sequence lists or the shapes say, in order. Empty sequences are listed too.
std::vector<Sequence> sequences_of(const ScoreArguments& arguments);

// Whether mode and mask let row i of head n see key j; i and j count from the start of the sequence. (A bias may hide
// the key all the same.)
bool sees(const ScoreArguments& arguments, const Sequence& sequence, int64_t head, int64_t i, int64_t j);

enum class RowKind {
    kOrdinary,
    kHidden,  // keys exist, but the row sees none with a logit above -infinity, and there is no sink: output 0, maximum
              // -FLT_MAX, sum FLT_MAX
    kNothing,  // no keys at all, or a row beyond the last sequence: output, maximum and sum 0
};

// One query row of one head, with what error bounds need to know about it. Both magnitudes look at finite numbers only.
struct Row {
    RowKind kind = RowKind::kNothing;
    // `position` counts from the start of the sequence, or, for sequence -1, of the rows that belong to none.
    int64_t sequence = -1, head = 0, position = 0;
    int64_t out_begin = 0;  // index of its first element in attention_out
    int64_t visible = 0;    // keys that the row sees and that no bias hides
    // Largest sum of the absolute values of all that is added up into a visible key's logit, since every term that
    // enters can bring its rounding: |scale| * sum of |q_d * k_d|, rope features included, + |bias|; the bias too times
    // |scale| where it enters before the scale.
    double conditioning = 0;
    // Largest |v| of a visible key. With dropout: of a visible key that is kept, over keep_prob, as it enters the
    // result.
    double largest_value = 0;
};

struct ScoreResult {
    Tensor attention_out;  // row-major in the operator's shape
    // One number a row, in the order in which the operator stores its blocks of eight: [B, N, Sq], for TND the blocks
    // [N, Sq_b] of all sequences one after another, with "same_as_input" the blocks [Sq_b, N]. Last come the rows that
    // belong to no sequence, as one more block.
    std::vector<double> softmax_max, softmax_sum;
    std::vector<Row> rows;  // in the same order
};

ScoreResult score(const ScoreArguments& arguments);

}  // namespace flash_attention::reference
