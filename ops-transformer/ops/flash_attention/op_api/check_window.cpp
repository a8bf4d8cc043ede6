// Whether preTokens, nextTokens and prefixes fit the lengths. The operator refuses windows that see nothing, and in
// varlen calls most windows that leave rows without a visible key. Modes 1 and 2 read neither.
#include <fmt/format.h>

#include <algorithm>

#include "ascendcl/log.h"
#include "op_api/checks.h"
#include "opbase/error.h"
#include "opbase/tensor.h"

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

void check_fixed(const ScoreRequest& request, const ScoreSizes& sizes) {
    const Sequence lengths{.q_len = sizes.q_len, .kv_len = sizes.kv_len};
    Window window = clamped_window(request);
    if (request.sparse_mode == 4) {  // measured from the bottom right corner
        window.pre += lengths.q_len - lengths.kv_len;
        window.next += lengths.kv_len - lengths.q_len;
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
        if (!lengths.has_pairs()) continue;
        if (window.pre < 0 && window.next < -window.pre) refuse_empty_window(request, lengths);
        if (lengths.kv_len + window.pre < lengths.q_len) {
            throw ParameterError(
                fmt::format("{}, and preTokens {} leaves rows without visible key: expected at least {}",
                            name_batch(request, lengths, all), request.pre_tokens, lengths.q_len - lengths.kv_len));
        }
    }
}

void refuse_more_rows_than_keys(const ScoreRequest& request, const Sequence& lengths, const SequenceLengths& all) {
    if (lengths.q_len <= lengths.kv_len) return;
    throw ParameterError(fmt::format("sparseMode {}: batch {} has Sq {} > Skv {} (rows without visible key)",
                                     request.sparse_mode, &lengths - all.sequences.data(), lengths.q_len,
                                     lengths.kv_len));
}

void check_varlen_causal(const ScoreRequest& request, const SequenceLengths& all) {
    for (const Sequence& lengths : all.sequences) refuse_more_rows_than_keys(request, lengths, all);
}

void check_varlen_band(const ScoreRequest& request, const SequenceLengths& all) {
    const Window window = clamped_window(request);
    for (const Sequence& lengths : all.sequences) {
        if (!lengths.has_pairs()) continue;
        if (window.pre >= 0 && window.pre + window.next >= 0 && lengths.q_len - window.next <= lengths.kv_len) continue;
        throw ParameterError(
            fmt::format("{}, and preTokens {}, nextTokens {} leave rows without visible key: expected preTokens >= 0, "
                        "preTokens + nextTokens >= 0 and nextTokens >= {}",
                        name_batch(request, lengths, all), request.pre_tokens, request.next_tokens,
                        lengths.q_len - lengths.kv_len));
    }
}

// Modes 7 and 8: the band of the one sequence that another call has begun or will end.
void check_varlen_split(const ScoreRequest& request, const SequenceLengths& all) {
    const int64_t band = band_sequence(request, all);
    if (band < 0) return;
    const Window window = clamped_window(request);
    const Sequence& lengths = all.sequences[band];
    const bool last = request.sparse_mode == 7;
    const int64_t least_next = lengths.q_len - lengths.kv_len;
    if (window.pre < lengths.kv_len || (last && window.next > 0) || window.next < least_next) {
        throw ParameterError(
            fmt::format("{}: its band needs preTokens >= {}{} nextTokens >= {}, got preTokens {} and "
                        "nextTokens {}",
                        name_batch(request, lengths, all), lengths.kv_len, last ? ", nextTokens <= 0 and" : " and",
                        least_next, request.pre_tokens, request.next_tokens));
    }
    if (!last) return;
    for (const Sequence& s : all.sequences) {
        if (s.has_pairs()) refuse_more_rows_than_keys(request, s, all);
    }
}

// The prefixes that a sequence may have: with fewer rows than keys, the first row sees at least Skv - Sq keys anyway.
struct PrefixRange {
    int64_t least, most;
    bool holds(int64_t prefix) const { return prefix >= least && prefix <= most; }
};

PrefixRange prefix_range(const Sequence& lengths) {
    return {std::max<int64_t>(lengths.kv_len - lengths.q_len, 0), lengths.kv_len};
}

void check_prefixes(const ScoreRequest& request, const SequenceLengths& all) {
    if (opbase::is_absent(request.prefix)) {
        throw ParameterError(fmt::format("prefixOptional cannot be empty for sparseMode {}", request.sparse_mode));
    }
    const std::vector<int64_t>& prefixes = request.prefix->values;
    if (prefixes.size() != all.sequences.size()) {
        throw ParameterError(fmt::format("prefixOptional has {} entries: expected {}, one for each batch entry",
                                         prefixes.size(), all.sequences.size()));
    }
    for (size_t b = 0; b < prefixes.size(); b++) {
        const Sequence& lengths = all.sequences[b];
        const PrefixRange range = prefix_range(lengths);
        if (!lengths.has_pairs() || range.holds(prefixes[b])) continue;
        throw ParameterError(fmt::format("prefixOptional[{}] is {}: expected {}..{} ({} .. Skv)", b, prefixes[b],
                                         range.least, range.most, lengths.q_len > lengths.kv_len ? "0" : "Skv - Sq"));
    }
}

}  // namespace

bool has_valid_prefixes(const ScoreRequest& request, const SequenceLengths& lengths) {
    if (opbase::is_absent(request.prefix) || request.prefix->values.size() != lengths.sequences.size()) return false;
    for (size_t b = 0; b < lengths.sequences.size(); b++) {
        const Sequence& s = lengths.sequences[b];
        if (s.has_pairs() && !prefix_range(s).holds(request.prefix->values[b])) return false;
    }
    return true;
}

int64_t band_sequence(const ScoreRequest& request, const SequenceLengths& lengths) {
    const auto count = static_cast<int64_t>(lengths.sequences.size());
    for (int64_t i = 0; i < count; i++) {
        const int64_t b = request.sparse_mode == 7 ? count - 1 - i : i;
        if (lengths.sequences[b].q_len > 0) return b;
    }
    return -1;
}

void check_window(const ScoreRequest& request, const ScoreSizes& sizes, const SequenceLengths& lengths) {
    if (sizes.q_len == 0 || sizes.nothing_to_attend()) return;
    switch (request.sparse_mode) {
        case 0:
            return request.varlen ? check_varlen_default(request, lengths) : check_fixed(request, sizes);
        case 3:
            return request.varlen ? check_varlen_causal(request, lengths) : void();
        case 4:
            return request.varlen ? check_varlen_band(request, lengths) : check_fixed(request, sizes);
        case 5:
            if (!has_valid_prefixes(request, lengths)) {
                ascendcl::warn_once("prefixOptional",
                                    "prefixOptional is not valid: sparseMode 5 shows what attenMaskOptional shows");
            }
            return;
        case 6:
            return check_prefixes(request, lengths);
        case 7:
        case 8:
            return check_varlen_split(request, lengths);
        default:
            return;
    }
}

}  // namespace flash_attention
