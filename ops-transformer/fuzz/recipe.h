// From the fuzzer's bytes to an attention call. The first bytes are a recipe: each chooses one property from a short
// list, so that most recipes are legal calls of small size. The bytes behind it are up to six changes, each of which
// sets one number, pointer or text of the finished call to something else, mostly something wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "any_call.h"

namespace flash_attention::fuzzing {

using testing::Call;

// One byte a field, in the order of the input. A value beyond the end of its list counts modulo the list's length, and
// 0 is always the plainest choice, so that short inputs are plain calls.
struct Recipe {
    uint8_t version = 0;    // entry point, in the order of testing::Version: forward, then backward
    uint8_t layout = 0;     // BNSD, BSND, BSH, SBH; the version for all layouts also has TND; lower case from 128 on
    uint8_t batch = 0;      // batch entries or sequences
    uint8_t heads = 0;      // of key
    uint8_t group = 0;      // query heads for each of them
    uint8_t head_dim = 0;   // D
    uint8_t value_dim = 0;  // Dv: D, half of it, 1, 0
    uint8_t dtype = 0;      // FLOAT, FLOAT16, BFLOAT16
    uint8_t q_length = 0;   // Sq, or that of the first sequence; the others follow from both lengths
    uint8_t kv_length = 0;  // Skv likewise
    uint8_t mode = 0;       // sparseMode
    uint8_t mask = 0;       // none, or one of the shapes of the mode; BOOL from 128 on
    uint8_t hidden = 0;     // which bytes of a full mask are set
    uint8_t pre = 0;        // preTokens: small and extreme numbers
    uint8_t next = 0;       // nextTokens likewise
    uint8_t prefix = 0;     // none, or where in the legal range
    uint8_t pse_type = 0;   // 1, 0, 2, 3
    uint8_t bias = 0;       // none, or one of the shapes of the type; from 128 on backward gives its gradient
    uint8_t drop_mask = 0;  // none, or how many bytes more than needed
    uint8_t keep_prob = 0;
    uint8_t sink = 0;          // none, or one
    uint8_t rope = 0;          // none, or Drope; a rope part removes what it does not go together with
    uint8_t stats_layout = 0;  // softmaxOutLayout
    uint8_t stats_shape = 0;   // of TND statistics
    uint8_t scale = 0;
    uint8_t starts = 0;      // qStartIdx and kvStartIdx
    uint8_t slack = 0;       // rows and keys of TND that belong to no sequence
    uint8_t tail = 0;        // zeros at the end of the lists
    uint8_t content = 0;     // see Content
    uint8_t view = 0;        // which tensor is a strided view, and how
    uint8_t other_view = 0;  // a second one
    uint8_t ending = 0;      // see Ending
};
static_assert(sizeof(Recipe) == 32, "recipes are copied from and to bytes");

// One change of a finished call. Numbers choose from lists as in the recipe.
struct Change {
    uint8_t kind = 0, argument = 0, index = 0, value = 0;
};
static_assert(sizeof(Change) == 4, "likewise");

enum class ChangeKind : uint8_t {
    kDimension,   // of tensor `argument`, from 128 on one of backward: size of axis `index` becomes `value`
    kStride,      // likewise
    kRank,        // an axis of size `value` more, or one less
    kOffset,      // becomes `value`
    kDtype,       // any number
    kFormat,      // any number
    kStorage,     // described as one axis of size `value`, or of the size that the view needs plus `index` - 8
    kNoData,      // null data address
    kNoTensor,    // null pointer
    kNewTensor,   // a small tensor where there was none
    kListEntry,   // of list `argument`: entry `index` becomes `value`
    kListLength,  // one entry `value` more, one less, none, or no list
    kInteger,     // headNum, preTokens, ... becomes `value`
    kReal,        // scaleValue or keepProb becomes something out of the ordinary
    kText,        // inputLayout or softmaxOutLayout likewise
    kNullResult,  // workspaceSize or executor is null
};
inline constexpr int kChangeKindCount = 16;

// What happens between phase one and the end of the executor.
enum class Ending {
    kRun,
    kRunTwice,        // made repeatable; both runs give the same bits
    kUnaligned,       // the workspace starts at an odd address
    kNoWorkspace,     // a null workspace is refused, then the run works
    kSmallWorkspace,  // one byte too few is refused, then the run works
    kOtherVersion,    // another version refuses the executor, then the run works
    kUsedUp,          // a second run is refused
    kDestroy,         // no run
};
inline constexpr int kEndingCount = 8;

// What the inputs hold.
enum class Content { kSmall, kZero, kSpecial /* NaN and infinities among small numbers */, kAnyBits };
inline constexpr int kContentCount = 4;

struct FuzzCall {
    Call call;
    std::string layout, softmax_out_layout;  // what the call's pointers point to
    Ending ending = Ending::kRun;
    Content content = Content::kSmall;
    uint8_t hidden = 0;
};

// A call points into itself, so it is filled in place.
void read_call(const uint8_t* data, size_t size, FuzzCall& result);

// The legal call of a recipe, and one change of any call.
void cook(const Recipe& recipe, FuzzCall& result);
void apply(const Change& change, FuzzCall& result);

// The bytes that read_call reads like this.
std::vector<uint8_t> to_bytes(const Recipe& recipe, const std::vector<Change>& changes = {});

}  // namespace flash_attention::fuzzing
