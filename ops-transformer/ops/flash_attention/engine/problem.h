// One attention call as the engine sees it: sequences, strides and offsets. Layouts, batch dimensions and variable
// lengths have all become the same thing here; the engine never hears "BSH" or "TND", nor of any Ascend type.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "dropout_gen_mask/generator/mask_stream.h"
#include "engine/bias.h"
#include "engine/visibility.h"

namespace flash_attention {

enum class ElementType { kF32, kF16, kBf16 };

constexpr int64_t element_bytes(ElementType type) {
    return type == ElementType::kF32 ? 4 : 2;
}

// Where the engine finds or puts an operand; indexes Addresses.
enum Operand {
    kQuery,
    kKey,
    kValue,
    kQueryRope,
    kKeyRope,
    kBias,      // tensor of the query's type, or fp32 slopes
    kDropMask,  // packed bits, 1 = keep
    kAttenMask,
    kSink,          // fp32, one a query head, side by side
    kAttentionOut,  // these three: results of forward, arguments of backward
    kSoftmaxMax,
    kSoftmaxSum,
    kDy,  // gradient of the output: an argument of backward
    kDq,  // results of backward
    kDk,
    kDv,
    kDqRope,
    kDkRope,
    kDbias,  // of the query's type
    kDsink,  // fp32, one a query head, side by side
    kOperandCount
};

// Base addresses of one run, one per operand; nullptr for operands that the problem does not use.
using Addresses = std::array<void*, kOperandCount>;

// Element strides of a [row][head][feature] operand; features lie side by side.
struct RowStrides {
    int64_t row = 0;
    int64_t head = 0;
};

// Where a sequence finds its bias.
struct SequenceBias {
    int64_t origin = 0;                       // element of head 0: the slope, or the entry of (row 0, key 0)
    RowStrides strides{};                     // row 0: one bias row serves all query rows
    int64_t columns = 0;                      // of a stored row
    int64_t first_row = 0, first_column = 0;  // of this sequence in the matrix that a compressed bias stands for
    int64_t diagonal = 0;                     // slopes: distance = |j - i + diagonal|
};

// One sequence of one batch: a q_len x kv_len attention for each query head. Offsets are elements from the operand's
// base address to the entry of row 0 (key 0), head 0.
struct Sequence {
    int64_t q_len = 0;
    int64_t kv_len = 0;  // 0: nothing to attend to; output, maximum, sum and gradient of its rows become 0; backward
                         // also has keys without rows, whose gradients become 0
    int64_t query = 0, key = 0, value = 0, out = 0;
    int64_t query_rope = 0, key_rope = 0;
    int64_t dy = 0, dq = 0, dk = 0, dv = 0, dq_rope = 0, dk_rope = 0;  // of backward
    int64_t stats = 0;                                                 // softmax maximum and sum share their layout
    RowStrides stats_strides{};  // a row's entry is eight equal floats side by side
    int64_t mask = 0;            // explicit mask, bytes, non-zero = hidden
    SequenceBias bias{};
    SequenceBias dbias{};  // of backward, when the gradient of the bias is wanted
    int64_t drop_bit = 0;  // of (head 0, row 0, key 0); the bits of row, head and sequence follow without padding
    Band band{};           // which keys a row may see, besides the explicit mask

    bool has_pairs() const { return q_len > 0 && kv_len > 0; }
};

struct Problem {
    ElementType type = ElementType::kF32;
    int64_t query_heads = 0;
    int64_t kv_heads = 0;  // divides query_heads; consecutive query heads share a key/value head
    int64_t head_dim = 0;  // of query and key
    int64_t value_dim = 0;
    float scale = 1.0F;  // any finite number
    RowStrides query, key, value, out;
    RowStrides query_rope, key_rope;
    RowStrides dy, dq, dk, dv, dq_rope, dk_rope;  // of backward
    int64_t rope_dim = 0;                         // 0: no rope part
    BiasKind bias = BiasKind::kNone;
    bool wants_dbias = false;    // bias is a tensor, stored for every row or one for all rows; the gradient is that of
                                 // sequences with pairs
    int64_t bias_full_rows = 0;  // rows of the matrix that a compressed bias stands for; 0: every row is stored
    bool has_drop_mask = false;
    bool drop_from_seed = false;  // the bits that a mask would have are made, for the query's type
    dropout_gen_mask::MaskStream drop_stream{};
    float keep_prob = 1.0F;  // divides the weights that a drop mask keeps; with a seed, the share of ones too
    bool has_sink = false;
    bool has_mask = false;
    RowStrides mask;  // row: between query rows; head: between query heads, 0 when heads share the mask
    std::vector<Sequence> sequences;

    int64_t kv_head(int64_t query_head) const { return query_head / (query_heads / kv_heads); }
};

// Copies of a row's softmax maximum and sum that the interface asks for (a 32-byte block).
inline constexpr int64_t kStatsCopies = 8;

}  // namespace flash_attention
