// The checks of a call. With several mistakes in a call the first one in the order of the operator is told; the order
// is that of the calls in plan_score.cpp, check_score.cpp, plan_grad.cpp and check_gradients.cpp. Each check throws
// opbase::OperatorError and changes nothing.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "arguments/checks.h"
#include "engine/problem.h"
#include "op_api/score_request.h"
#include "opbase/layout.h"
#include "opbase/tensor.h"

namespace flash_attention {

using arguments::kAddressSpace;

// What the tensors say, the same for all layouts. TND has batch 1 and q_len, kv_len = T.
struct ScoreSizes {
    opbase::Layout layout{};
    int64_t batch = 0, q_len = 0, kv_len = 0;
    int64_t query_heads = 0, kv_heads = 0;
    int64_t head_dim = 0, key_dim = 0, value_dim = 0, rope_dim = 0;  // key_dim equals head_dim once it is checked

    // Without keys or features every output is zero and the inputs are not read.
    bool nothing_to_attend() const { return kv_len == 0 || kv_heads == 0 || head_dim == 0 || value_dim == 0; }
};

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

// How the bias lies in its tensor.
enum class BiasForm {
    kNone,
    kMatrix,      // [B or 1, Nq, Sq, Skv] or [B or 1, Nq, 1, Skv]
    kCompressed,  // [B or 1, Nq, 1024, Skv]: the last rows of a matrix that depends on the distance only
    kFlatMatrix,  // varlen: blocks [Nq, Sq_b, Skv_b], one after another
    kFlatRows,    // varlen: blocks [Nq, Skv_b]
    kSlopes,      // [B, Nq] or [Nq]
};

// Everything that the checks find out about a call.
struct ScoreForm {
    ScoreSizes sizes;
    SequenceLengths lengths;
    MaskForm mask = MaskForm::kNone;
    BiasForm bias = BiasForm::kNone;
    bool wants_dbias = false;
};

struct NamedTensor {
    const char* name;
    const aclTensor* tensor;
};

// ---- Parts of the checks of both directions: check_tensors.cpp and others

void require_plain_format(const NamedTensor& argument);
bool has_elements(const aclTensor* tensor);  // neither absent nor empty
bool shape_is(const aclTensor& tensor, std::initializer_list<int64_t> expected);

// Saturates instead of overflowing. No size is negative.
int64_t saturating_product(std::initializer_list<int64_t> sizes);

// Elements of all score matrices together, saturating.
int64_t pair_count(const ScoreSizes& sizes, const SequenceLengths& lengths);

void check_same_dtypes(const ScoreRequest& request);  // of query, key, value and dy
void check_query_dtype(const NamedTensor& argument, const ScoreRequest& request);
void check_quantised(const ScoreRequest& request);  // what only quantised attention has
void check_head_num(const ScoreRequest& request);
opbase::Layout check_layout(const ScoreRequest& request);
void check_rank(const NamedTensor& argument, opbase::Layout layout);
void check_equal_except_last(const NamedTensor& a, const NamedTensor& b);
void check_same_batch(const ScoreRequest& request, opbase::Layout layout);

// Pre: ranks are right. Checks only that H axes can be divided.
ScoreSizes read_sizes(const ScoreRequest& request, opbase::Layout layout);
void check_head_dims(const ScoreSizes& sizes);
void check_heads(const ScoreRequest& request, const ScoreSizes& sizes);
void check_addressable(const ScoreRequest& request, const ScoreSizes& sizes);

// A tensor of the shape of attentionOut.
void check_output_shape(const NamedTensor& argument, const ScoreRequest& request, const ScoreSizes& sizes);
void check_statistics(const ScoreRequest& request, const NamedTensor& argument, const ScoreSizes& sizes);
void check_head_vector(const NamedTensor& argument, int64_t heads);  // the sink, its gradient

// dtype and format of the bias.
void check_bias_dtype(const ScoreRequest& request);

// The rope parts of query and key; returns their dimension, 0 without them.
int64_t check_rope(const ScoreRequest& request, const ScoreSizes& sizes);

// ---- Forward: check_score.cpp

// Required pointers (161001); for varlen the layout comes first.
void check_required(const ScoreRequest& request);

// True when softmaxMax, softmaxSum and attentionOut are all empty: then nothing else is looked at.
bool all_outputs_empty(const ScoreRequest& request);

// Formats, dtypes (of bias and sink too), headNum, layout, ranks, head dimensions, rope parts, head counts, and how
// query, key and value fit together.
ScoreSizes check_inputs(const ScoreRequest& request);

// Shapes, dtypes and formats of the outputs.
void check_outputs(const ScoreRequest& request, const ScoreSizes& sizes);

// ---- Backward: check_gradients.cpp

// As check_required; softmaxInLayout comes first too. The statistics are looked at later.
void check_required_of_grad(const ScoreRequest& request);

// True when every gradient is empty or absent: then nothing else is looked at.
bool all_gradients_empty(const ScoreRequest& request);

// All tensors except statistics, bias and masks: how inputs fit together and the gradients fit to them.
ScoreSizes check_inputs_of_grad(const ScoreRequest& request);

// What sink and statistics layout demand of others.
void check_company_of_grad(const ScoreRequest& request, const ScoreSizes& sizes);

// The statistics, which are required (161001), and the dtype of the output.
void check_results_of_forward(const ScoreRequest& request, const ScoreSizes& sizes);

// Whether the gradient of the bias is to be computed; when it is not, it gets zeros if it is there.
bool check_dbias(const ScoreRequest& request, BiasForm bias);

// ---- Both directions: lengths, numbers, masks, bias

// The lists of a varlen call, or `batch` equal sequences.
SequenceLengths check_sequences(const ScoreRequest& request, const ScoreSizes& sizes);

// Scale, keep probability, dropout mask.
void check_attributes(const ScoreRequest& request, const ScoreSizes& sizes, const SequenceLengths& lengths);

// dtype and shape of attenMask, and the number in sparseMode.
MaskForm check_mask(const ScoreRequest& request, const ScoreSizes& sizes, const SequenceLengths& lengths);

// Whether window and prefixes fit the lengths.
void check_window(const ScoreRequest& request, const ScoreSizes& sizes, const SequenceLengths& lengths);

// Whether sparseMode 5 has the prefixes that it needs to be more than an explicit mask.
bool has_valid_prefixes(const ScoreRequest& request, const SequenceLengths& lengths);

// The sequence that is a band in modes 7 (the last one with rows) and 8 (the first one); -1 when none has rows.
int64_t band_sequence(const ScoreRequest& request, const SequenceLengths& lengths);

// The number in pseType, shape of the bias, and what it demands of lengths and mask.
BiasForm check_bias(const ScoreRequest& request, const ScoreSizes& sizes, const SequenceLengths& lengths,
                    MaskForm mask);

// Positions of the first row and the first key for the distances of slopes.
struct BiasStart {
    int64_t q = 0, kv = 0;
};
BiasStart bias_start(const ScoreRequest& request);

// The operators for all layouts make the bits of dropout from seed and offset when they get no mask.
inline bool makes_drop_mask(const ScoreRequest& request) {
    return request.any_layout && opbase::is_absent(request.drop_mask) && static_cast<float>(request.keep_prob) < 1.0F;
}

// The text that says how statistics lie, cut where an unterminated one would run on; "same_as_input" is the only one
// with a meaning.
inline constexpr std::string_view kSameAsInput = "same_as_input";
inline std::string_view statistics_layout(const ScoreRequest& request) {
    const char* text = request.softmax_layout;
    return text == nullptr ? std::string_view() : std::string_view(text, strnlen(text, 32));
}

}  // namespace flash_attention
