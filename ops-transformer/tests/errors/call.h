// A call of an attention operator as data, so that a test case is a legal call with one or two things changed.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_flash_attention_score.h"

namespace flash_attention::testing {

struct TensorSpec {
    std::vector<int64_t> shape;
    aclDataType dtype = ACL_FLOAT;
    std::vector<int64_t> strides = {};  // empty: contiguous
    int64_t offset = 0;
    aclFormat format = ACL_FORMAT_ND;
    std::vector<int64_t> storage = {};  // empty: unknown to the operator
    bool without_data = false;          // null data address
};
using Tensor = std::optional<TensorSpec>;  // nothing: a null pointer
using List = std::optional<std::vector<int64_t>>;

// What the inputs hold. kCounting: query 0 and value 1, so that every row with visible keys has maximum 0, sum = number
// of visible keys, and output 1. kNoise: numbers that depend on the argument and the element's index alone, not on its
// place.
enum class Fill { kCounting, kNoise };

struct Call {
    bool varlen = false;
    Tensor query, key, value, real_shift, drop_mask, padding_mask, mask;
    List prefix, q_ends, kv_ends;
    double scale = 0.5, keep_prob = 1.0;
    int64_t pre = std::numeric_limits<int32_t>::max(), next = std::numeric_limits<int32_t>::max();
    int64_t head_num = 0;
    const char* layout = nullptr;
    int64_t inner_precise = 0, sparse_mode = 0;
    Tensor max, sum, softmax_out, out;
    bool null_workspace_size = false, null_executor = false;
    Fill fill = Fill::kCounting;
    // Which bytes of the mask are 1, by their index in row-major order of the mask's shape.
    std::function<bool(int64_t)> hidden = [](int64_t) { return false; };

    const char* name() const { return varlen ? "aclnnFlashAttentionVarLenScore" : "aclnnFlashAttentionScore"; }
};

struct Sizes {
    int64_t b = 2, n = 4, nkv = 2, sq = 3, skv = 5, d = 8, dv = 8;
};

// Legal float calls without optional arguments.
Call dense_call(const char* layout = "BNSD", const Sizes& sizes = {});
Call varlen_call(const std::vector<int64_t>& q_lengths = {3, 0, 4}, const std::vector<int64_t>& kv_lengths = {5, 2, 4},
                 int64_t n = 4, int64_t nkv = 2, int64_t d = 8);

// Sets the element type of query, key, value and attentionOut.
void set_dtype(Call& call, aclDataType dtype);

struct Outcome {
    aclnnStatus code = 0;  // of phase one, and if that is 0 of phase two
    std::string text;      // of aclGetRecentErrMsg after the last phase
    uint64_t workspace_size = 0;
    std::vector<float> max, sum, out;  // elements in row-major order; 16-bit outputs as their bits
    bool outputs_untouched = true;     // including everything around the views
    bool executor_is_null = true;      // after phase one
};

// Runs both phases, or only the first.
Outcome run(const Call& call, bool only_phase_one = false);

// The call is refused: code, exact sentence, nothing written, no executor, workspace size 0.
void expect_refused(const Call& call, aclnnStatus code, const std::string& sentence);

// A kCounting call succeeds, and `visible` is the number of keys that (sequence, head, row) sees: 0 for a fully masked
// row and kNoKeys for a row of a sequence without keys.
inline constexpr int64_t kNoKeys = -1;
using VisibleKeys = std::function<int64_t(int64_t sequence, int64_t head, int64_t row)>;
void expect_counts(const Call& call, const std::vector<int64_t>& q_lengths, int64_t heads, const VisibleKeys& visible);

// Both calls succeed with the same bits in all outputs.
void expect_same_bits(const Call& a, const Call& b);

// One line of a table of mistakes.
struct Mistake {
    const char* id;  // entry of the list of known mistakes, or a short name
    void (*make)(Call&);
    const char* sentence;
    aclnnStatus code = 161002;
};
std::ostream& operator<<(std::ostream& stream, const Mistake& mistake);

// Applies each mistake to a fresh call and expects the refusal; then the legal call itself must work again.
void expect_all_refused(Call (*make_call)(), std::initializer_list<Mistake> mistakes);

}  // namespace flash_attention::testing
