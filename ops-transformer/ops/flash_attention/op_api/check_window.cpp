// Whether preTokens and nextTokens fit the lengths. The operator refuses windows that see nothing, and in varlen calls
// most windows that leave rows without a visible key. Modes 1 and 2 read neither.
#include <fmt/format.h>

#include <algorithm>

#include "op_api/checks.h"
#include "opbase/error.h"

namespace flash_attention {
namespace {

using opbase::ParameterError;

// Any int64 is legal; beyond kUnlimited an edge cannot be told from infinity, and sums with lengths cannot overflow.
struct Window {
    int64_t pre, next;
};

Window clamped_window(const ScoreRequest& request) {
    return {std::clamp(request.pre_tokens, -kUnlimited, kUnlimited),
            std::clamp(request.next_tokens, -kUnlimited, kUnlimited)};
}

[[noreturn]] void refuse_empty_window(const ScoreRequest& request, const Sequence& lengths) {
    throw ParameterError(fmt::format("preTokens {} and nextTokens {} leave no visible position for Sq={}, Skv={}",
                                     request.pre_tokens, request.next_tokens, lengths.q_len, lengths.kv_len));
}

// True when a window measured from the top left corner touches the Sq x Skv matrix.
bool window_sees_something(const Window& window, const Sequence& lengths) {
    if (window.pre < 0) return window.next >= -window.pre && -window.pre < lengths.kv_len;
    if (window.next < 0) return window.pre >= -window.next && -window.next < lengths.q_len;
    return true;
}

void check_fixed(const ScoreRequest& request, SparseMode mode, const Sequence& lengths) {
    Window window = clamped_window(request);
    if (mode == SparseMode::kBand) {  // measured from the bottom right corner
        window.pre += lengths.q_len - lengths.kv_len;
        window.next += lengths.kv_len - lengths.q_len;
    } else if (mode != SparseMode::kDefault) {
        return;
    }
    if (!window_sees_something(window, lengths)) refuse_empty_window(request, lengths);
}

// "batch 2 has Sq 9, Skv 4": how the varlen messages begin.
std::string name_batch(const ScoreRequest& request, const Sequence& lengths, const SequenceLengths& all) {
    return fmt::format("sparseMode {}: batch {} has Sq {}, Skv {}", request.sparse_mode,
                       &lengths - all.sequences.data(), lengths.q_len, lengths.kv_len);
}

void check_varlen_default(const ScoreRequest& request, const SequenceLengths& all) {
    const Window window = clamped_window(request);
    if (window.next < 0) {
        throw ParameterError(
            fmt::format("sparseMode 0: nextTokens {} is not supported by VarLen operators: expected at least 0",
                        request.next_tokens));
    }
    for (const Sequence& lengths : all.sequences) {
        if (lengths.q_len == 0 || lengths.kv_len == 0) continue;
        if (window.pre < 0 && window.next < -window.pre) refuse_empty_window(request, lengths);
        if (lengths.kv_len + window.pre < lengths.q_len) {
            throw ParameterError(
                fmt::format("{}, and preTokens {} leaves rows without visible key: expected at least {}",
                            name_batch(request, lengths, all), request.pre_tokens, lengths.q_len - lengths.kv_len));
        }
    }
}

void check_varlen_causal(const ScoreRequest& request, const SequenceLengths& all) {
    for (const Sequence& lengths : all.sequences) {
        if (lengths.q_len <= lengths.kv_len) continue;
        throw ParameterError(fmt::format("sparseMode {}: batch {} has Sq {} > Skv {} (rows without visible key)",
                                         request.sparse_mode, &lengths - all.sequences.data(), lengths.q_len,
                                         lengths.kv_len));
    }
}

void check_varlen_band(const ScoreRequest& request, const SequenceLengths& all) {
    const Window window = clamped_window(request);
    for (const Sequence& lengths : all.sequences) {
        if (lengths.q_len == 0 || lengths.kv_len == 0) continue;
        if (window.pre >= 0 && window.pre + window.next >= 0 && lengths.q_len - window.next <= lengths.kv_len) continue;
        throw ParameterError(
            fmt::format("{}, and preTokens {}, nextTokens {} leave rows without visible key: expected preTokens >= 0, "
                        "preTokens + nextTokens >= 0 and nextTokens >= {}",
                        name_batch(request, lengths, all), request.pre_tokens, request.next_tokens,
                        lengths.q_len - lengths.kv_len));
    }
}

}  // namespace

void check_window(const ScoreRequest& request, const ScoreSizes& sizes, const SequenceLengths& lengths) {
    if (sizes.q_len == 0 || sizes.nothing_to_attend()) return;
    const SparseMode mode = static_cast<SparseMode>(request.sparse_mode);
    if (!request.varlen) {
        check_fixed(request, mode, make_sequence(sizes.q_len, sizes.kv_len));
    } else if (mode == SparseMode::kDefault) {
        check_varlen_default(request, lengths);
    } else if (mode == SparseMode::kRightDownCausal) {
        check_varlen_causal(request, lengths);
    } else if (mode == SparseMode::kBand) {
        check_varlen_band(request, lengths);
    }
}

}  // namespace flash_attention
