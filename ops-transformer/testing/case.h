// One attention call as a line of text. Tests, benchmarks and failure messages all speak of calls in this form:
//
//   layout=TND dtype=bf16 n=8/2 d=128 q=1,0,513 kv=7,9,513 mode=4 pre=100 next=0 mask=compressed seed=7
//
// key         meaning                                                                   default
// layout      BSH, SBH, BSND, BNSD (fixed length) or TND (several sequences)             BSND
// dtype       fp32, fp16, bf16                                                          fp32
// b           batch size, fixed length only                                             1
// n           query heads/key heads, or one number for both                             1
// d, dv       head dimension of query and key, and of value                             64, dv = d
// q, kv       sequence lengths; TND: one a sequence, separated by commas                64
// tail        TND: this many trailing zeros at the end of both lists                    0
// slack       TND: rows of query / of key and value that belong to no sequence, 3/0     0/0
// mode        sparseMode                                                                0
// pre, next   preTokens, nextTokens                                                     2147483647
// mask        none, or <shape>[:<what it hides>] (MaskShape, MaskContent below)         none
// mask_dtype  bool, uint8 (any non-zero byte hides)                                     bool
// scale       scaleValue                                                                1/sqrt(d)
// values      distribution of the inputs (Values below)                                 normal
// strides     <tensor>:<view>,... for q, k, v, mask, out, max, sum (View below)         all packed
// seed        of everything random                                                      1
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "testing/element.h"

namespace flash_attention::testing {

enum class MaskShape {
    kNone,
    kPlain,        // "2d": [Sq, Skv]; TND [max Sq, max Skv]
    kTotal,        // "total": TND only, [sum of Sq, sum of Skv]
    k11,           // "11": [1, 1, Sq, Skv]
    kB1,           // "b1": [B, 1, Sq, Skv]
    kBN,           // "bn": [B, N, Sq, Skv]
    kCompressed,   // "compressed": [2048, 2048], for modes 2, 3, 4
    kCompressed4,  // "compressed4": [1, 1, 2048, 2048]
};

enum class MaskContent {
    kCausal,  // column > row; the only canonical content of a compressed mask
    kNothing,
    kWindow,  // what pre and next exclude, measured from the top left corner
    kRandom,  // 30 % of the elements; as a compressed mask: content that must not be looked at
    kRows,    // random, and a quarter of the rows completely
    kBlocks,  // random squares of 64, so that whole tiles are hidden or visible
    kAll,
};

enum class Values {
    kNormal,
    kPositive,    // uniform in [0, 1): all products add up
    kLarge,       // logits of several hundreds
    kHighKey,     // equal keys but one, whose logit is higher by the logarithm of the number of keys
    kHiddenNan,   // NaN and infinities in keys, values and rows that nobody sees
    kVisibleNan,  // NaN and infinities anywhere in query, key and value
    kMinusInf,    // keys with logits of minus infinity, for some sequences all of them
};

// How a tensor lies in its storage.
enum class View {
    kPacked,
    kOffset,      // packed, but starts at an odd element
    kPadded,      // gaps after every row and every outer dimension
    kSwapped,     // the first two dimensions exchanged in memory
    kTransposed,  // all dimensions reversed in memory: the last one is not contiguous
    kEvery2,      // every second element: the last dimension is not contiguous
    kExpand,      // inputs only: stride 0 in the first dimension
    kExpandLast,  // inputs only: stride 0 in the last dimension
};

enum Argument { kQuery, kKey, kValue, kMask, kOut, kMax, kSum, kArgumentCount };

struct Case {
    std::string layout = "BSND";
    DType dtype = DType::kFp32;
    int64_t batch = 1;
    int64_t heads = 1, kv_heads = 1;
    int64_t d = 64, dv = 64;
    std::vector<int64_t> q{64}, kv{64};
    int64_t tail = 0;
    int64_t slack_q = 0, slack_kv = 0;
    int64_t mode = 0;
    int64_t pre = 2147483647, next = 2147483647;
    MaskShape mask = MaskShape::kNone;
    MaskContent hides = MaskContent::kCausal;
    bool byte_mask = false;  // mask_dtype=uint8
    double scale = 0.125;
    Values values = Values::kNormal;
    std::array<View, kArgumentCount> views{};
    uint64_t seed = 1;

    bool operator==(const Case&) const = default;

    bool varlen() const { return layout == "TND"; }
    // Batch size of masks and lists: trailing zeros are sequences too.
    int64_t sequences() const { return varlen() ? static_cast<int64_t>(q.size()) + tail : batch; }
    bool compressed() const { return mask == MaskShape::kCompressed || mask == MaskShape::kCompressed4; }
};

// Throws std::invalid_argument with a sentence that names the key and its value.
Case parse_case(std::string_view text);

// The shortest text that parses to the same case: keys with default values are left out, except layout, dtype, n, d, q
// and kv.
std::string to_string(const Case& c);

std::string_view name_of(DType dtype);
std::string_view name_of(MaskShape shape);

// Empty if the operator has to accept the case; else the rule that it breaks. Without a mask everything is legal, since
// the mode is not looked at.
std::string why_illegal(const Case& c);

}  // namespace flash_attention::testing
