// The checks of a forward call, one after the other in the order in which the operator reports: with several mistakes
// in a call the first of this order is the one that is told. Each throws opbase::OperatorError and changes nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/problem.h"
#include "op_api/score_request.h"
#include "opbase/layout.h"

namespace flash_attention {

// No process addresses more than 2^47 bytes. Sizes up to here can be added and compared without thinking of overflow.
inline constexpr int64_t kAddressSpace = int64_t{1} << 47;

// What the tensors say, the same for all layouts. TND has batch 1 and q_len, kv_len = T.
struct ScoreSizes {
    opbase::Layout layout{};
    int64_t batch = 0, q_len = 0, kv_len = 0;
    int64_t query_heads = 0, kv_heads = 0;
    int64_t head_dim = 0, value_dim = 0;

    // Without keys or features every output is zero and the inputs are not read.
    bool nothing_to_attend() const { return kv_len == 0 || kv_heads == 0 || head_dim == 0 || value_dim == 0; }
};

inline Sequence make_sequence(int64_t q_len, int64_t kv_len) {
    Sequence sequence;
    sequence.q_len = q_len;
    sequence.kv_len = kv_len;
    return sequence;
}

// Lengths of the sequences: q_len and kv_len of each are set, offsets not yet.
struct SequenceLengths {
    std::vector<Sequence> sequences;
    int64_t max_q = 0, max_kv = 0;
    int64_t sum_q = 0, sum_kv = 0;  // of varlen calls
};

// How attenMask takes part.
enum class MaskForm {
    kNone,           // absent: everything is visible, sparseMode and window do not count
    kCompressed,     // stands for a pattern that sparseMode names; its content is never read
    kFull,           // [.., Sq, Skv], with or without axes for batch and heads
    kBlockDiagonal,  // [sum Sq, sum Skv]: each sequence has its own block
};

// Required pointers (161001); for varlen the layout comes first.
void check_required(const ScoreRequest& request);

// True when softmaxMax, softmaxSum and attentionOut are all empty: then nothing else is looked at.
bool all_outputs_empty(const ScoreRequest& request);

// Formats, dtypes, headNum, layout, ranks, head dimensions, head counts, and how query, key and value fit together.
ScoreSizes check_inputs(const ScoreRequest& request);

// The lists of a varlen call, or `batch` equal sequences.
SequenceLengths check_sequences(const ScoreRequest& request, const ScoreSizes& sizes);

// Scale, keep probability, dropout mask.
void check_attributes(const ScoreRequest& request);

// dtype and shape of attenMask, and the number in sparseMode.
MaskForm check_mask(const ScoreRequest& request, const ScoreSizes& sizes, const SequenceLengths& lengths);

// Whether the window of preTokens and nextTokens fits the lengths.
void check_window(const ScoreRequest& request, const ScoreSizes& sizes, const SequenceLengths& lengths);

// Shapes, dtypes and formats of the outputs.
void check_outputs(const ScoreRequest& request, const ScoreSizes& sizes);

}  // namespace flash_attention
