// The judge: what aclnnFlashAttentionScore and aclnnFlashAttentionVarLenScore have to compute, in double precision and
// plain loops. It takes the operator's public arguments and includes nothing of the code that it judges.
//
//   r(j) = sum over d of Q[i,d] * K[j,d]
//   x(j) = r(j) * scale                                    the logit of key j
//   M    = max of x(j), L = sum of exp(x(j) - M)           over the keys j that row i sees
//   O    = sum of exp(x(j) - M) / L * V[j]
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

// Non-zero = hidden. Modes 2, 3 and 4 never look at `values`, so they may be left out there.
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
};

// One sequence of the call: rows [q_begin, q_begin + q_len) of batch entry `batch` against keys [kv_begin, kv_begin +
// kv_len). In TND all sequences lie in one batch entry; `index` counts sequences in every layout.
struct Sequence {
    int64_t index = 0, batch = 0;
    int64_t q_begin = 0, q_len = 0;
    int64_t kv_begin = 0, kv_len = 0;
    int64_t all_rows = 0, all_keys = 0;  // of all sequences of the list together, TND only
};

// What the sequence lists or the shapes say, in order. Empty sequences are listed too.
std::vector<Sequence> sequences_of(const ScoreArguments& arguments);

// Whether row i of head n sees key j; i and j count from the start of the sequence.
bool sees(const ScoreArguments& arguments, const Sequence& sequence, int64_t head, int64_t i, int64_t j);

enum class RowKind {
    kOrdinary,
    kHidden,  // keys exist, but the row sees none with a logit above -infinity: output 0, maximum -FLT_MAX, sum FLT_MAX
    kNothing,  // no keys at all, or a row beyond the last sequence: output, maximum and sum 0
};

// One query row of one head, with what error bounds need to know about it.
struct Row {
    RowKind kind = RowKind::kNothing;
    int64_t sequence = -1, head = 0, position = 0;  // position counts from the start of the sequence; sequence -1: none
    int64_t out_begin = 0;                          // index of its first element in attention_out
    int64_t visible = 0;                            // keys that the row sees
    double conditioning = 0;                        // largest |scale| * sum over d of |q_d * k_d| of a visible key
    double largest_value = 0;                       // largest |v| of a visible key; both look at finite numbers only
};

struct ScoreResult {
    Tensor attention_out;  // row-major in the operator's shape
    // One number a row, in the order in which the operator stores its blocks of eight: [B, N, Sq], for TND the blocks
    // [N, Sq_b] of all sequences one after another, and last the rows that belong to no sequence.
    std::vector<double> softmax_max, softmax_sum;
    std::vector<Row> rows;  // in the same order
};

ScoreResult score(const ScoreArguments& arguments);

}  // namespace flash_attention::reference
