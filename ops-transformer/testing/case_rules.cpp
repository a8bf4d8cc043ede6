// What the operators accept, and which of their functions can be asked: the rules of the public header once more, so
// that generators draw legal calls and tests can name the rule that a call breaks.
#include <algorithm>

#include "entry_points.h"
#include "testing/case.h"

namespace flash_attention::testing {
namespace {

bool can_express(const VersionTraits& version, const Case& c) {
    const bool types = c.pse_type != 1 || !c.q_start.empty() || !c.kv_start.empty();
    return (c.varlen() ? version.tnd : version.dense) && (version.pse_type || !types) &&
           (version.rope || c.rope == 0) && (version.sink || c.sink == Sink::kNone) &&
           (version.softmax_layout || c.stats.empty()) && (version.everything || c.drop != DropShape::kFromSeed);
}

int64_t longest(const std::vector<int64_t>& lengths) {
    return *std::max_element(lengths.begin(), lengths.end());
}

// Beyond every length and far from overflow: the rules below compare sums of pre, next and lengths.
int64_t limited(int64_t tokens) {
    return std::clamp<int64_t>(tokens, -(int64_t{1} << 40), int64_t{1} << 40);
}

// A window of fixed-length calls, measured from the top left corner: it must show something.
std::string band_problem(int64_t pre, int64_t next, int64_t q_len, int64_t kv_len) {
    if (pre < 0 && next < 0) return "pre and next are both negative";
    if (pre < 0 && (next < -pre || -pre >= kv_len)) return "a negative pre needs next >= |pre| and |pre| < Skv";
    if (next < 0 && (pre < -next || -next >= q_len)) return "a negative next needs pre >= |next| and |next| < Sq";
    return "";
}

std::string window_problem_fixed(const Case& c) {
    const int64_t q_len = c.q[0], kv_len = c.kv[0], pre = limited(c.pre), next = limited(c.next);
    if (c.mode == 4) return band_problem(pre + q_len - kv_len, next + kv_len - q_len, q_len, kv_len);
    if (c.mode != 0 || (pre >= q_len && (next == 0 || next >= kv_len))) return "";
    return band_problem(pre, next, q_len, kv_len);
}

// Modes 7 and 8: the sequence with a window of its own.
std::string split_problem(const Case& c, int64_t pre, int64_t next) {
    size_t band = c.q.size();
    for (size_t b = 0; b < c.q.size(); b++) {
        if (c.q[b] > 0 && (c.mode == 7 || band == c.q.size())) band = b;
    }
    if (band == c.q.size() || c.kv[band] == 0) return "";
    if (pre < c.kv[band]) return "modes 7 and 8 need pre >= Skv of the band";
    if (next < c.q[band] - c.kv[band]) return "modes 7 and 8 need next >= Sq - Skv of the band";
    if (c.mode == 7 && next > 0) return "mode 7 needs next <= 0";
    return "";
}

std::string window_problem_varlen(const Case& c) {
    const int64_t pre = limited(c.pre), next = limited(c.next);
    const bool plain = pre >= longest(c.q) && (next == 0 || next >= longest(c.kv));
    if (c.mode == 0 && !plain && next < 0) return "mode 0 needs next >= 0";
    if (c.mode == 0 && !plain && pre < 0 && next < -pre) return "mode 0 with a negative pre needs next >= |pre|";
    if (c.mode == 4 && pre < 0) return "mode 4 needs pre >= 0";
    if (c.mode == 4 && next < 0 && pre + next < 0) return "mode 4 with a negative next needs pre + next >= 0";
    for (size_t b = 0; b < c.q.size(); b++) {
        const bool empty = c.q[b] == 0 || c.kv[b] == 0;
        if (c.mode == 0 && !plain && !empty && c.kv[b] + pre < c.q[b]) return "mode 0 needs Skv + pre >= Sq";
        if ((c.mode == 3 || c.mode == 7) && c.q[b] > c.kv[b]) return "modes 3 and 7 need Sq <= Skv";
        if (c.mode == 4 && c.q[b] > 0 && c.q[b] - next > c.kv[b]) return "mode 4 needs Sq - next <= Skv";
    }
    return c.mode == 7 || c.mode == 8 ? split_problem(c, pre, next) : "";
}

std::string prefix_problem(const Case& c) {
    if (c.mode != 6) return "";
    if (static_cast<int64_t>(c.prefix.size()) != c.sequences()) return "mode 6 needs one prefix for each sequence";
    for (size_t b = 0; b < c.prefix.size(); b++) {
        // Trailing zeros of TND lists are sequences without rows and keys.
        const size_t at = c.varlen() ? b : 0;
        const int64_t q_len = at < c.q.size() ? c.q[at] : 0, kv_len = at < c.kv.size() ? c.kv[at] : 0;
        if (c.prefix[b] < std::max<int64_t>(0, kv_len - q_len) || c.prefix[b] > kv_len)
            return "mode 6 needs prefixes from max(0, Skv - Sq) to Skv";
    }
    return "";
}

std::string mask_problem(const Case& c) {
    if (!c.masked()) return "";
    if (c.mode < 0 || c.mode > 8) return "only modes 0 to 8 exist";
    if (c.varlen() && c.mode == 5) return "mode 5 is for dense batches";
    if (!c.varlen() && c.mode > 6) return "modes 7 and 8 are for TND";
    const bool explicit_mask = c.mode == 0 || c.mode == 1 || c.mode == 5;
    if (c.compressed() == explicit_mask) return "modes 0, 1 and 5 take an explicit mask, the others a compressed one";
    const bool of_batch = c.mask == MaskShape::kB1 || c.mask == MaskShape::kBN;
    if (c.mode == 5 && c.batch != 1 && !of_batch) return "mode 5 needs a mask for each batch entry";
    const std::string problem = prefix_problem(c);
    if (!problem.empty()) return problem;
    return c.varlen() ? window_problem_varlen(c) : window_problem_fixed(c);
}

bool equal_lengths(const Case& c, size_t from) {
    return std::equal(c.q.begin() + static_cast<std::ptrdiff_t>(from), c.q.end(),
                      c.kv.begin() + static_cast<std::ptrdiff_t>(from));
}

std::string compressed_bias_problem(const Case& c) {
    if (!c.masked()) return "a compressed bias needs a mask";
    if (!equal_lengths(c, 0)) return "a compressed bias needs Sq = Skv";
    if (!c.varlen()) {
        if (c.q[0] <= 1024) return "a compressed bias needs Sq > 1024";
        return c.mode == 0 || c.mode == 2 || c.mode == 3 ? "" : "a compressed bias needs mode 0, 2 or 3";
    }
    if (c.mode == 2 || c.mode == 3) return "";
    const int64_t window = c.mode == 0 ? longest(c.q) : longest(c.kv);
    const bool causal = (c.mode == 0 || c.mode == 4) && c.pre >= window && c.next == 0;
    return causal ? "" : "a compressed bias needs a causal mask";
}

std::string slopes_problem(const Case& c) {
    if (!c.varlen()) return equal_lengths(c, 0) ? "" : "types 2 and 3 need Sq = Skv";
    if (!c.masked()) return "";
    if (c.mode == 7) return "types 2 and 3 do not go with mode 7";
    if (c.mode != 8) return "";
    const bool started = !c.q_start.empty() && !c.kv_start.empty();
    const int64_t shift = started ? c.q_start[0] - c.kv_start[0] : 0;
    if (c.q[0] - c.kv[0] + shift != 0) return "mode 8 needs Sq - Skv + q_start - kv_start = 0 for the first sequence";
    return equal_lengths(c, 1) ? "" : "types 2 and 3 with mode 8 need Sq = Skv for all sequences but the first";
}

std::string bias_problem(const Case& c) {
    if (c.pse_type < 0 || c.pse_type > 3) return "pse types are 0 to 3";
    if (!c.biased()) return c.pse_type == 1 ? "" : "pse types 0, 2 and 3 need a bias";
    if (c.slopes() != (c.pse_type >= 2)) return "pse types 2 and 3 take slopes, types 0 and 1 a bias";
    if (c.compressed_bias()) return compressed_bias_problem(c);
    return c.slopes() ? slopes_problem(c) : "";
}

std::string rope_problem(const Case& c) {
    if (c.rope == 0) return "";
    if (c.dtype != DType::kBf16) return "rope parts need bf16";
    if (c.rope > c.d) return "rope must not exceed d";
    if (!c.masked()) return "rope parts need a mask";
    if (c.mode == 6) return "rope parts do not go with mode 6";
    if (c.biased()) return "rope parts do not go with a bias";
    if (c.drop != DropShape::kNone || c.keep != 1) return "rope parts do not go with dropout";
    return "";
}

std::string backward_problem(const Case& c) {
    if (c.keep < 1 && c.drop == DropShape::kNone) return "backward needs a drop mask for keep < 1";
    if (!c.stats.empty() && (!c.varlen() || c.stats != "same_as_input"))
        return "backward takes no other layout of the statistics than same_as_input, of TND";
    // Lists of whole sequences leave nothing over, lists with trailing zeros may.
    if (c.slack_q > 0 && c.slack_kv > 0 && c.tail == 0) return "backward needs trailing zeros for slack on both sides";
    const std::vector<Version> versions = grad_versions_of(c);
    if (std::find(versions.begin(), versions.end(), grad_version_of(c)) == versions.end())
        return "the version of backward does not have all arguments of the case";
    return "";
}

// Dense ones, then those of TND, then the one that takes both; without the one that gives another's executor.
std::vector<Version> in_order(const std::vector<Version>& dense, const std::vector<Version>& tnd, Version all) {
    std::vector<Version> versions = only(dense, &VersionTraits::tnd, false);
    for (const Version version : tnd) {
        if (version != Version::kVarLenV5Max && version != Version::kUnpaddingGradV5Max && version != all)
            versions.push_back(version);
    }
    versions.push_back(all);
    return versions;
}

}  // namespace

bool Case::has(Argument argument) const {
    switch (argument) {
        case kMask:
            return masked();
        case kQueryRope:
        case kKeyRope:
            return rope > 0;
        case kPse:
            return biased();
        case kDrop:
            return drop != DropShape::kNone && drop != DropShape::kFromSeed;
        case kSink:
            return sink != Sink::kNone;
        case kDqRope:
        case kDkRope:
            return backward && rope > 0;
        case kDpse:
            return backward && dpse == Dpse::kWanted;
        case kDsink:
            return backward && sink != Sink::kNone;
        default:
            return argument < kDy || backward;
    }
}

std::vector<Version> all_versions() {
    return in_order(dense_versions(), tnd_versions(), Version::kScoreV4);
}

std::vector<Version> all_grad_versions() {
    return in_order(dense_grad_versions(), tnd_grad_versions(), Version::kGradV4);
}

std::string_view name_of(Version version) {
    std::string_view name = traits(version).name;
    name.remove_prefix(std::string_view("aclnnFlashAttention").size());
    return name;
}

std::vector<Version> versions_of(const Case& c) {
    std::vector<Version> able = all_versions();
    std::erase_if(able, [&c](Version version) { return !can_express(traits(version), c); });
    return able;
}

Version version_of(const Case& c) {
    return c.version.value_or(versions_of(c).front());
}

std::vector<Version> grad_versions_of(const Case& c) {
    std::vector<Version> able = all_grad_versions();
    std::erase_if(able, [&c](Version version) { return !can_express(traits(version), c); });
    return able;
}

Version grad_version_of(const Case& c) {
    return c.grad_version.value_or(grad_versions_of(c).front());
}

std::string why_illegal(const Case& c) {
    for (int i = 0; i < kArgumentCount; i++) {
        const auto a = static_cast<Argument>(i);
        if (is_output(a) && (c.views[a] == View::kExpand || c.views[a] == View::kExpandLast))
            return "an output cannot be expanded";
    }
    const std::vector<Version> versions = versions_of(c);
    if (std::find(versions.begin(), versions.end(), version_of(c)) == versions.end())
        return "the version does not have all arguments of the case";
    if (!(c.keep > 0 && c.keep <= 1)) return "keep must be in (0, 1]";
    if (c.keep < 1 && c.drop == DropShape::kNone && version_of(c) == Version::kScoreV4)
        return "ScoreV4 drops where keep < 1, so that a call without a mask is drop=from_seed";
    if (c.backward) {
        const std::string problem = backward_problem(c);
        if (!problem.empty()) return problem;
    }
    for (const auto& rule : {mask_problem, bias_problem, rope_problem}) {
        const std::string problem = rule(c);
        if (!problem.empty()) return problem;
    }
    return "";
}

}  // namespace flash_attention::testing
