// The kernels of one instruction set as a table, and the only place that decides which table runs.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "dropout_gen_mask/generator/mask_stream.h"
#include "engine/bias.h"
#include "engine/visibility.h"
#include "ring_attention_update/kernels/partial_rows.h"

namespace flash_attention {

// Rows of one head; features lie side by side.
struct Rows {
    const void* data = nullptr;
    int64_t stride = 0;  // between rows, in elements
};

// One part of the features that make up a score: those of the head, or those of the rope part.
struct FeaturePart {
    Rows query;  // from the first row of the block
    Rows key;    // from key 0 of the sequence
    int64_t dim = 0;
};

// The bias as a block sees it.
struct BlockBias {
    BiasKind kind = BiasKind::kNone;
    Rows rows;              // tensors: from entry (row 0, key 0) of the head; stride 0: one row for all
    int64_t columns = 0;    // of a stored row; there is nothing behind them
    int64_t full_rows = 0;  // of the matrix that a compressed bias stands for, else 0
    int64_t first_row = 0, first_column = 0;  // of the sequence in that matrix
    float slope = 0.0F;
    int64_t diagonal = 0;
};

// A block of consecutive query rows of one head and all keys of its sequence: everything that its weights and products
// with values depend on.
struct ScoreBlock {
    FeaturePart parts[2];  // of the head, and of the rope part (dim 0: there is none)
    Rows value;            // from key 0 of the sequence
    const uint8_t* mask;   // element (first row of the block, key 0); nullptr without an explicit mask
    int64_t mask_stride;
    const uint8_t* drop_mask;                         // packed bits of dropout, 1 = keep
    const dropout_gen_mask::MaskStream* drop_stream;  // or what they are made from; both nullptr: no dropout
    int64_t drop_first_bit;  // of (first row of the block, key 0); row after row without padding
    float keep_prob;         // divides what dropout keeps
    BlockBias bias;
    int64_t row_begin, row_end;  // position of the block in its sequence; at most `query_block` rows of the kernels
    int64_t kv_len, value_dim;
    float scale;
    Band band;

    bool drops() const { return drop_mask != nullptr || drop_stream != nullptr; }
};

// Everything a forward kernel needs.
struct ForwardBlock : ScoreBlock {
    void* out;   // first row of the block
    float* max;  // first row of the block; each row gets eight equal floats
    float* sum;
    int64_t out_stride, stats_stride;
    float sink;  // a score without a value row; -infinity without one
};

using ForwardKernel = void (*)(const ForwardBlock& block, void* scratch);

// Query rows that share a head of keys and values, when they are few: the blocks of consecutive query heads, each with
// all rows of the sequence.
struct DecodeRows {
    const ForwardBlock* heads;
    int64_t head_count;

    int64_t rows_of_head() const { return heads->row_end - heads->row_begin; }
    int64_t count() const { return head_count * rows_of_head(); }
    const ForwardBlock& head(int64_t row) const { return heads[row / rows_of_head()]; }
    int64_t row_in_head(int64_t row) const { return row % rows_of_head(); }
};

inline constexpr int64_t kDecodeRows = 16;     // at most
inline constexpr int64_t kDecodeChunk = 1024;  // keys are cut at multiples of it

// The partial result of a row over some keys in floats: a head with maximum and sum, then the output, not yet divided;
// both are whole cache lines.
inline constexpr int64_t kDecodeRowHead = 16;
constexpr int64_t decode_row_floats(int64_t value_dim) {
    return kDecodeRowHead + (value_dim + 15) / 16 * 16;
}

// Attends to `keys` for all rows, whatever they see of them. Writes partial[row], decode_row_floats each; with nullptr,
// when these are all keys that any row sees, the outputs.
using DecodeKernel = void (*)(const DecodeRows& rows, KeyRange keys, float* partial, void* scratch);
// Merges the partial results of `chunks` chunks in order, `chunk_floats` apart, which changes them, and writes the
// outputs.
using FinishDecodeKernel = void (*)(const DecodeRows& rows, float* partials, int64_t chunks, int64_t chunk_floats);

// What the scratch memory of a kernel depends on.
struct FeatureShape {
    int64_t dim[2];  // of the parts
    int64_t value_dim;
};

// The kernels of one element type.
struct ForwardKernels {
    int64_t query_block;  // rows of a block
    ForwardKernel run;
    int64_t (*scratch_bytes)(const FeatureShape& shape);  // of `run` and of `decode`
    DecodeKernel decode;
    FinishDecodeKernel finish_decode;
};

// Query rows of one head in the backward: their gradients, and what they add to those of keys and values.
struct BackwardBlock : ScoreBlock {
    Rows dy, out;            // from the first row of the block
    const float *max, *sum;  // of the first row
    int64_t stats_stride;
    float* dq_sum;    // where partial results of dq are added up, dq_floats; nullptr: there are no others
    bool dq_started;  // dq_sum holds some already
    void* dq[2];      // first row, for each part of the features
    int64_t dq_stride[2];
};

// Some keys of one head of keys and values, whose gradients are summed over all query rows and heads that see them.
struct BackwardKeys {
    KeyRange keys;
    FeatureShape shape;
    void* dk[2];  // of key 0 of the sequence, for each part of the features
    void* dv;
    int64_t dk_stride[2], dv_stride;
    float scale;
};

// Keys that are in hand at once; their sums are added in order to those of other keys.
inline constexpr int64_t kBackwardKeys = 2048;

// Keys of one part of the gradient of a bias.
inline constexpr int64_t kBiasKeys = 480;

// A part of the gradient of a bias: a block of query rows, or the one row that serves all, and some keys.
struct BiasResult {
    void* first;     // entry
    int64_t stride;  // between rows
    int64_t rows, keys;
    bool one_row;
    float factor;
};

// Scratch memory belongs to one part from `begin` to `end`.
struct BiasGradientKernels {
    int64_t (*scratch_bytes)(const FeatureShape& shape);
    void (*begin)(const FeatureShape& shape, void* scratch);
    void (*add)(const BackwardBlock& block, KeyRange keys, void* scratch);
    void (*end)(const BiasResult& result, const FeatureShape& shape, void* scratch);
};

// The kernels of the backward for one element type. Scratch memory belongs to one BackwardKeys from `begin` to `end`.
struct BackwardKernels {
    int64_t query_block;
    int64_t (*scratch_bytes)(const FeatureShape& shape, int64_t keys);
    int64_t (*dq_floats)(const FeatureShape& shape);
    void (*begin)(const BackwardKeys& keys, void* scratch);
    void (*add)(const BackwardBlock& block, const BackwardKeys& keys, void* scratch);
    void (*end)(const BackwardKeys& keys, void* scratch);             // writes dk and dv
    void (*write_dq)(const BackwardBlock& block, const float* sums);  // laid out as dq_sum
    void (*row_deltas)(const BackwardBlock& block, float* deltas);    // dy . out of each row
    BiasGradientKernels bias;
};

// Bits [first, first + count) of a stream, packed, lowest first; the rest of the last byte are the bits that follow.
using FillMaskKernel = void (*)(const dropout_gen_mask::MaskStream& stream, int64_t first, int64_t count, uint8_t* to);

// What a table needs of the processor, beyond what the whole library is compiled for.
enum class InstructionSet { kNone, kAvx2, kAvx512, kAvx512Bf16 };

struct Kernels {
    const char* name;  // as in ASCEND_CPU_ISA
    InstructionSet needs;
    ForwardKernels forward[3];  // by ElementType
    BackwardKernels backward[3];
    ring_attention_update::MergeRowsKernel merge_results[3];
    FillMaskKernel fill_mask;
};

// ASCEND_CPU_ISA asks for a table that this machine or build does not have.
struct UnavailableKernels : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The table that runs: the best one for this processor, or the one that ASCEND_CPU_ISA names. Throws
// UnavailableKernels.
const Kernels& kernels();

}  // namespace flash_attention
