// One attention call as a line of text. Tests, benchmarks and failure messages all speak of calls in this form:
//
//   layout=TND dtype=bf16 n=8/2 d=128 q=1,0,513 kv=7,9,513 mode=4 pre=100 next=0 mask=compressed seed=7
//
// key         meaning                                                                   default
// layout      BSH, SBH, BSND, BNSD (fixed length) or TND (several sequences)             BSND
// dtype       fp32, fp16, bf16                                                          fp32
// pass        forward, or backward: of the same call                                    forward
// version     the function to call without aclnnFlashAttention: VarLenScoreV5            the smallest that can
// grad        of backward: UnpaddingScoreGradV5; `version` is the forward function       the smallest that can
// b           batch size, fixed length only                                             1
// n           query heads/key heads, or one number for both                             1
// d, dv       head dimension of query and key, and of value                             64, dv = d
// rope        features of queryRope and keyRope; 0: absent                              0
// q, kv       sequence lengths; TND: one a sequence, separated by commas                64
// tail        TND: this many trailing zeros at the end of both lists                    0
// slack       TND: rows of query / of key and value that belong to no sequence, 3/0     0/0
// mode        sparseMode                                                                0
// pre, next   preTokens, nextTokens                                                     2147483647
// mask        none, or <shape>[:<what it hides>] (MaskShape, MaskContent below)         none
// mask_dtype  bool, uint8 (any non-zero byte hides)                                     bool
// prefix      prefixOptional: one number a sequence, separated by commas                absent
// pse         pseType and realShiftOptional: <type>:<shape>[:<values>] (Pse... below)   1:none
// q_start,    qStartIdxOptional and kvStartIdxOptional: numbers, separated by commas;
// kv_start    of each the first counts                                                  absent
// keep        keepProb                                                                  1
// drop        dropMaskOptional: none, or <shape>[:<bits>] (DropShape, DropBits below)   none
// drop_seed, drop_offset
//             seed and offset, of drop=from_seed                                        0
// sink        sinkOptional (Sink below)                                                 none
// stats       softmaxOutLayout and softmaxInLayout: same_as_input, or any other text    absent
// dpse        dpseOut: none, empty or wanted                                            none
// given       backward gets the results of forward from: reference, rounded to their
//             types, or operator                                                        reference
// scale       scaleValue                                                                1/sqrt(d)
// values      distribution of the inputs (Values below)                                 normal
// strides     <tensor>:<view>,... (Argument and View below)                             all packed
// seed        of everything random                                                      1
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "testing/element.h"

namespace flash_attention::testing {

// Of the operator, forward and backward: one function each, all listed in entry_points.h.
enum class Version;

enum class MaskShape {
    kNone,
    kPlain,        // "2d": [Sq, Skv]; TND [max Sq, max Skv]
    kTotal,        // "total": TND only, [sum of Sq, sum of Skv]
    k11,           // "11": [1, 1, Sq, Skv]
    kB1,           // "b1": [B, 1, Sq, Skv]
    kBN,           // "bn": [B, N, Sq, Skv]
    kCompressed,   // "compressed": [2048, 2048] for modes 2, 3, 4, 7 and 8, [3072, 2048] for mode 6
    kCompressed4,  // "compressed4": the same with 1, 1 in front
};

enum class MaskContent {
    kCausal,  // column > row; the canonical content of a compressed mask (and what belongs below it for mode 6)
    kNothing,
    kWindow,  // what pre and next exclude, measured from the top left corner
    kRandom,  // 30 % of the elements; as a compressed mask: content that must not be looked at
    kRows,    // random, and a quarter of the rows completely
    kBlocks,  // random squares of 64, so that whole tiles are hidden or visible
    kAll,
};

// Shapes of realShiftOptional. A 1 at the end: one batch entry for all. The flat forms of TND have one dimension.
enum class PseShape {
    kNone,
    kFull,         // "full": [B, N, Sq, Skv]; TND flat, N * sum of Sq * Skv
    kFull1,        // "full1": [1, N, Sq, Skv], not TND
    kFullAny,      // "full_any": TND only, as many elements as full: [1, N, sum of Sq * Skv]
    kRow,          // "row": [B, N, 1, Skv]; TND flat, N * sum of Skv
    kRow1,         // "row1": [1, N, 1, Skv], not TND
    kRowAny,       // "row_any": TND only, as many elements as row: [1, N, sum of Skv]
    kCompressed,   // "compressed": [B, N, 1024, Skv]; TND [B, N, 1024, max Skv]
    kCompressed1,  // "compressed1": with 1 for B
    kSlopes,       // "slopes": [B, N], for types 2 and 3
    kSlopes1,      // "slopes1": [N]
};

enum class PseValues {
    kNormal,
    kAlibi,     // depends on j - i only, as a compressed bias must to mean the same as a full one
    kMinusInf,  // "minus_inf": normal, but a quarter of the entries hides its key, and a tenth of the rows all keys
    kLarge,     // several hundreds
};

enum class DropShape {
    kNone,
    kExact,     // "exact": one dimension, as many bytes as the bits need
    kRounded,   // "rounded": to 16 bytes, as frameworks allocate
    kLonger,    // "longer": 37 bytes more than needed
    kOdd,       // "odd": [3, 1, n]
    kFromSeed,  // "from_seed": no mask; the operator makes its bits from seed and offset
};

enum class DropBits {
    kRandom,  // each bit is set with the probability keep; with one half if that is 1
    kOnes,    // keeps everything
    kZeros,   // drops everything
};

enum class Sink {
    kNone,
    kNormal,
    kLarge,     // several hundreds: above all scores for some heads, below for others
    kMinusInf,  // "minus_inf": of every second head
};

enum class Values {
    kNormal,
    kPositive,    // uniform in [0, 1): all products add up
    kLarge,       // logits of several hundreds
    kHighKey,     // equal keys but one, whose logit is higher by the logarithm of the number of keys
    kHiddenNan,   // NaN and infinities in keys, values, rows and bias entries that nobody sees
    kVisibleNan,  // NaN and infinities anywhere in query, key, value, bias and sink
    kMinusInf,    // keys with logits of minus infinity, for some sequences all of them
};

enum class Dpse { kNone, kEmpty /* a tensor without elements */, kWanted };

// Where backward has output and statistics of forward from.
enum class Given { kReference, kOperator };

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

// In the text: q, k, v, mask, out, max, sum, q_rope, k_rope, pse, drop, sink; of backward dy, dq, dk, dv, dq_rope,
// dk_rope, dpse, dsink. out, max and sum are results of forward, and inputs of backward.
enum Argument {
    kQuery,
    kKey,
    kValue,
    kMask,
    kOut,
    kMax,
    kSum,
    kQueryRope,
    kKeyRope,
    kPse,
    kDrop,
    kSink,
    kDy,
    kDq,
    kDk,
    kDv,
    kDqRope,
    kDkRope,
    kDpse,
    kDsink,
    kArgumentCount
};
// Of some pass, so that its elements need memory of their own.
constexpr bool is_output(Argument argument) {
    return argument == kOut || argument == kMax || argument == kSum || argument >= kDq;
}
inline constexpr Argument kGradientArguments[] = {kDq, kDk, kDv, kDqRope, kDkRope, kDpse, kDsink};
inline constexpr size_t kGradientCount = std::size(kGradientArguments);

struct Case {
    std::string layout = "BSND";
    DType dtype = DType::kFp32;
    bool backward = false;  // pass=backward
    std::optional<Version> version;
    std::optional<Version> grad_version;
    int64_t batch = 1;
    int64_t heads = 1, kv_heads = 1;
    int64_t d = 64, dv = 64;
    int64_t rope = 0;
    std::vector<int64_t> q{64}, kv{64};
    int64_t tail = 0;
    int64_t slack_q = 0, slack_kv = 0;
    int64_t mode = 0;
    int64_t pre = 2147483647, next = 2147483647;
    MaskShape mask = MaskShape::kNone;
    MaskContent hides = MaskContent::kCausal;
    bool byte_mask = false;  // mask_dtype=uint8
    std::vector<int64_t> prefix;
    int64_t pse_type = 1;
    PseShape pse = PseShape::kNone;
    PseValues pse_values = PseValues::kNormal;
    std::vector<int64_t> q_start, kv_start;
    double keep = 1.0;
    DropShape drop = DropShape::kNone;
    DropBits drop_bits = DropBits::kRandom;
    int64_t drop_seed = 0, drop_offset = 0;
    Sink sink = Sink::kNone;
    std::string stats;
    Dpse dpse = Dpse::kNone;
    Given given = Given::kReference;
    double scale = 0.125;
    Values values = Values::kNormal;
    std::array<View, kArgumentCount> views{};
    uint64_t seed = 1;

    bool operator==(const Case&) const = default;

    bool varlen() const { return layout == "TND"; }
    // Batch size of masks and lists: trailing zeros are sequences too.
    int64_t sequences() const { return varlen() ? static_cast<int64_t>(q.size()) + tail : batch; }
    bool masked() const { return mask != MaskShape::kNone; }
    bool compressed() const { return mask == MaskShape::kCompressed || mask == MaskShape::kCompressed4; }
    bool biased() const { return pse != PseShape::kNone; }
    bool slopes() const { return pse == PseShape::kSlopes || pse == PseShape::kSlopes1; }
    bool compressed_bias() const { return pse == PseShape::kCompressed || pse == PseShape::kCompressed1; }
    // Whether the argument is passed at all.
    bool has(Argument argument) const;
};

// Throws std::invalid_argument with a sentence that names the key and its value.
Case parse_case(std::string_view text);

// The shortest text that parses to the same case: keys with default values are left out, except layout, dtype, n, d, q
// and kv.
std::string to_string(const Case& c);

std::string_view name_of(DType dtype);
std::string_view name_of(MaskShape shape);
std::string_view name_of(PseShape shape);
std::string_view name_of(Version version);  // as in the text
std::string_view name_of(Argument argument);

// Each layout's from the smallest to the largest; ScoreV4, which takes all layouts, is last.
std::vector<Version> all_versions();

// All versions that take the case's layout and have every argument that it uses, the smallest first. Never empty, since
// ScoreV4 has everything.
std::vector<Version> versions_of(const Case& c);

// The version to call: the case's own, or the smallest.
Version version_of(const Case& c);

// The same of backward, where ScoreGradV4 is last.
std::vector<Version> all_grad_versions();
std::vector<Version> grad_versions_of(const Case& c);
Version grad_version_of(const Case& c);

// Empty if the operator has to accept the case; else the rule that it breaks. Without a mask every mode and window is
// legal, since they are not looked at.
std::string why_illegal(const Case& c);

}  // namespace flash_attention::testing
