#include "testing/case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <stdexcept>

namespace flash_attention::testing {
namespace {

template <class Value>
struct Name {
    std::string_view text;
    Value value;
};

constexpr Name<DType> kDTypes[] = {{"fp32", DType::kFp32}, {"fp16", DType::kFp16}, {"bf16", DType::kBf16}};
constexpr Name<bool> kMaskTypes[] = {{"bool", false}, {"uint8", true}};
constexpr Name<MaskShape> kMaskShapes[] = {
    {"none", MaskShape::kNone},
    {"2d", MaskShape::kPlain},
    {"total", MaskShape::kTotal},
    {"11", MaskShape::k11},
    {"b1", MaskShape::kB1},
    {"bn", MaskShape::kBN},
    {"compressed", MaskShape::kCompressed},
    {"compressed4", MaskShape::kCompressed4},
};
constexpr Name<MaskContent> kContents[] = {
    {"causal", MaskContent::kCausal}, {"nothing", MaskContent::kNothing}, {"window", MaskContent::kWindow},
    {"random", MaskContent::kRandom}, {"rows", MaskContent::kRows},       {"blocks", MaskContent::kBlocks},
    {"all", MaskContent::kAll},
};
constexpr Name<Values> kValueNames[] = {
    {"normal", Values::kNormal},      {"positive", Values::kPositive},    {"large", Values::kLarge},
    {"high_key", Values::kHighKey},   {"hidden_nan", Values::kHiddenNan}, {"visible_nan", Values::kVisibleNan},
    {"minus_inf", Values::kMinusInf},
};
constexpr Name<View> kViews[] = {
    {"packed", View::kPacked},   {"offset", View::kOffset},          {"padded", View::kPadded},
    {"swapped", View::kSwapped}, {"transposed", View::kTransposed},  {"every2", View::kEvery2},
    {"expand", View::kExpand},   {"expand_last", View::kExpandLast},
};
constexpr Name<Argument> kArguments[] = {
    {"q", kQuery}, {"k", kKey}, {"v", kValue}, {"mask", kMask}, {"out", kOut}, {"max", kMax}, {"sum", kSum},
};
constexpr std::string_view kLayouts[] = {"BSH", "SBH", "BSND", "BNSD", "TND"};

template <class Value, size_t N>
std::string_view name_in(const Name<Value> (&names)[N], Value value) {
    for (const auto& name : names) {
        if (name.value == value) return name.text;
    }
    throw std::logic_error("a value without a name");
}

template <class Value, size_t N>
Value value_in(const Name<Value> (&names)[N], std::string_view key, std::string_view text) {
    std::string allowed;
    for (const auto& name : names) {
        if (name.text == text) return name.value;
        allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", name.text);
    }
    throw std::invalid_argument(fmt::format("{}={}: expected one of {}", key, text, allowed));
}

template <class Number>
Number number(std::string_view key, std::string_view text) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
        throw std::invalid_argument(fmt::format("{}={}: \"{}\" is not a number of its kind", key, text, text));
    }
    return value;
}

int64_t at_least(int64_t least, std::string_view key, std::string_view text) {
    const auto value = number<int64_t>(key, text);
    if (value < least) throw std::invalid_argument(fmt::format("{}={}: must be at least {}", key, text, least));
    return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    while (true) {
        const size_t end = text.find(separator);
        parts.push_back(text.substr(0, end));
        if (end == std::string_view::npos) return parts;
        text.remove_prefix(end + 1);
    }
}

// "8/2", or "8" for both when `both`; else the second number is 0.
std::pair<int64_t, int64_t> pair_of(std::string_view key, std::string_view text, int64_t least) {
    const auto parts = split(text, '/');
    if (parts.size() > 2) throw std::invalid_argument(fmt::format("{}={}: expected one or two numbers", key, text));
    return {at_least(least, key, parts.front()), at_least(least, key, parts.back())};
}

// What has to be known about all keys before defaults that depend on others are filled in.
struct Given {
    std::optional<int64_t> dv;
    std::optional<double> scale;
};

void parse_mask(Case& c, std::string_view text) {
    const auto parts = split(text, ':');
    if (parts.size() > 2)
        throw std::invalid_argument(fmt::format("mask={}: expected <shape> or <shape>:<content>", text));
    c.mask = value_in(kMaskShapes, "mask", parts[0]);
    if (parts.size() == 2) c.hides = value_in(kContents, "mask", parts[1]);
}

void parse_strides(Case& c, std::string_view text) {
    for (const std::string_view item : split(text, ',')) {
        const auto parts = split(item, ':');
        if (parts.size() != 2) {
            throw std::invalid_argument(fmt::format("strides={}: expected <tensor>:<view>, got \"{}\"", text, item));
        }
        c.views[value_in(kArguments, "strides", parts[0])] = value_in(kViews, "strides", parts[1]);
    }
}

std::vector<int64_t> parse_lengths(std::string_view key, std::string_view text) {
    std::vector<int64_t> lengths;
    for (const std::string_view part : split(text, ',')) lengths.push_back(at_least(0, key, part));
    return lengths;
}

void parse_key(Case& c, Given& given, std::string_view key, std::string_view text) {
    if (key == "layout") {
        if (std::find(std::begin(kLayouts), std::end(kLayouts), text) == std::end(kLayouts)) {
            throw std::invalid_argument(fmt::format("layout={}: expected BSH, SBH, BSND, BNSD or TND", text));
        }
        c.layout = text;
    } else if (key == "dtype") {
        c.dtype = value_in(kDTypes, key, text);
    } else if (key == "b") {
        c.batch = at_least(0, key, text);
    } else if (key == "n") {
        std::tie(c.heads, c.kv_heads) = pair_of(key, text, 1);
    } else if (key == "d") {
        c.d = at_least(0, key, text);
    } else if (key == "dv") {
        given.dv = at_least(0, key, text);
    } else if (key == "q") {
        c.q = parse_lengths(key, text);
    } else if (key == "kv") {
        c.kv = parse_lengths(key, text);
    } else if (key == "tail") {
        c.tail = at_least(0, key, text);
    } else if (key == "slack") {
        std::tie(c.slack_q, c.slack_kv) = pair_of(key, text, 0);
    } else if (key == "mode") {
        c.mode = number<int64_t>(key, text);
    } else if (key == "pre") {
        c.pre = number<int64_t>(key, text);
    } else if (key == "next") {
        c.next = number<int64_t>(key, text);
    } else if (key == "mask") {
        parse_mask(c, text);
    } else if (key == "mask_dtype") {
        c.byte_mask = value_in(kMaskTypes, key, text);
    } else if (key == "scale") {
        given.scale = number<double>(key, text);
    } else if (key == "values") {
        c.values = value_in(kValueNames, key, text);
    } else if (key == "strides") {
        parse_strides(c, text);
    } else if (key == "seed") {
        c.seed = number<uint64_t>(key, text);
    } else {
        throw std::invalid_argument(fmt::format("{}={}: there is no such key", key, text));
    }
}

double default_scale(const Case& c) {
    return c.d == 0 ? 1.0 : 1.0 / std::sqrt(static_cast<double>(c.d));
}

void check_consistency(const Case& c) {
    auto refuse = [](const std::string& text) { throw std::invalid_argument(text); };
    if (c.heads % c.kv_heads != 0)
        refuse(fmt::format("n={}/{}: the first must be a multiple of the second", c.heads, c.kv_heads));
    if (c.dv > c.d) refuse(fmt::format("dv={}: must not exceed d={}", c.dv, c.d));
    if (c.varlen()) {
        if (c.q.size() != c.kv.size()) refuse(fmt::format("q has {} lengths and kv has {}", c.q.size(), c.kv.size()));
        if (c.batch != 1) refuse(fmt::format("b={}: layout TND takes its batch from q and kv", c.batch));
        return;
    }
    if (c.q.size() != 1 || c.kv.size() != 1)
        refuse(fmt::format("layout {} takes one length for q and one for kv", c.layout));
    if (c.tail != 0 || c.slack_q != 0 || c.slack_kv != 0)
        refuse(fmt::format("layout {} has neither tail nor slack", c.layout));
    if (c.mask == MaskShape::kTotal) refuse(fmt::format("mask=total needs layout=TND, not {}", c.layout));
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

std::string window_problem_varlen(const Case& c) {
    const int64_t pre = limited(c.pre), next = limited(c.next);
    const int64_t max_q = *std::max_element(c.q.begin(), c.q.end()),
                  max_kv = *std::max_element(c.kv.begin(), c.kv.end());
    const bool plain = pre >= max_q && (next == 0 || next >= max_kv);
    if (c.mode == 0 && !plain && next < 0) return "mode 0 needs next >= 0";
    if (c.mode == 0 && !plain && pre < 0 && next < -pre) return "mode 0 with a negative pre needs next >= |pre|";
    if (c.mode == 4 && pre < 0) return "mode 4 needs pre >= 0";
    if (c.mode == 4 && next < 0 && pre + next < 0) return "mode 4 with a negative next needs pre + next >= 0";
    for (size_t b = 0; b < c.q.size(); b++) {
        const bool empty = c.q[b] == 0 || c.kv[b] == 0;
        if (c.mode == 0 && !plain && !empty && c.kv[b] + pre < c.q[b]) return "mode 0 needs Skv + pre >= Sq";
        if (c.mode == 3 && c.q[b] > c.kv[b]) return "mode 3 needs Sq <= Skv";
        if (c.mode == 4 && c.q[b] > 0 && c.q[b] - next > c.kv[b]) return "mode 4 needs Sq - next <= Skv";
    }
    return "";
}

}  // namespace

Case parse_case(std::string_view text) {
    Case c;
    Given given;
    std::set<std::string_view> seen;
    for (const std::string_view word : split(text, ' ')) {
        if (word.empty()) continue;
        const size_t equals = word.find('=');
        if (equals == std::string_view::npos)
            throw std::invalid_argument(fmt::format("\"{}\" is not of the form key=value", word));
        const std::string_view key = word.substr(0, equals);
        if (!seen.insert(key).second) throw std::invalid_argument(fmt::format("{} is given twice", key));
        parse_key(c, given, key, word.substr(equals + 1));
    }
    c.dv = given.dv.value_or(c.d);
    c.scale = given.scale.value_or(default_scale(c));
    check_consistency(c);
    return c;
}

std::string to_string(const Case& c) {
    const Case usual;
    std::string text = fmt::format("layout={} dtype={}", c.layout, name_of(c.dtype));
    auto add = [&text](bool unusual, std::string_view key, const std::string& value) {
        if (unusual) text += fmt::format(" {}={}", key, value);
    };
    auto pair = [](int64_t a, int64_t b) { return a == b ? fmt::format("{}", a) : fmt::format("{}/{}", a, b); };
    add(c.batch != usual.batch, "b", fmt::format("{}", c.batch));
    add(true, "n", pair(c.heads, c.kv_heads));
    add(true, "d", fmt::format("{}", c.d));
    add(c.dv != c.d, "dv", fmt::format("{}", c.dv));
    add(true, "q", fmt::format("{}", fmt::join(c.q, ",")));
    add(true, "kv", fmt::format("{}", fmt::join(c.kv, ",")));
    add(c.tail != usual.tail, "tail", fmt::format("{}", c.tail));
    add(c.slack_q != 0 || c.slack_kv != 0, "slack", pair(c.slack_q, c.slack_kv));
    add(c.mode != usual.mode, "mode", fmt::format("{}", c.mode));
    add(c.pre != usual.pre, "pre", fmt::format("{}", c.pre));
    add(c.next != usual.next, "next", fmt::format("{}", c.next));
    const bool unusual_content = c.hides != usual.hides;
    add(c.mask != usual.mask || unusual_content, "mask",
        fmt::format("{}{}{}", name_of(c.mask), unusual_content ? ":" : "",
                    unusual_content ? name_in(kContents, c.hides) : ""));
    add(c.byte_mask, "mask_dtype", std::string(name_in(kMaskTypes, c.byte_mask)));
    add(c.scale != default_scale(c), "scale", fmt::format("{}", c.scale));
    add(c.values != usual.values, "values", std::string(name_in(kValueNames, c.values)));
    std::string strides;
    for (int a = 0; a < kArgumentCount; a++) {
        if (c.views[a] == View::kPacked) continue;
        strides += fmt::format("{}{}:{}", strides.empty() ? "" : ",", name_in(kArguments, static_cast<Argument>(a)),
                               name_in(kViews, c.views[a]));
    }
    add(!strides.empty(), "strides", strides);
    add(c.seed != usual.seed, "seed", fmt::format("{}", c.seed));
    return text;
}

std::string_view name_of(DType dtype) {
    return name_in(kDTypes, dtype);
}
std::string_view name_of(MaskShape shape) {
    return name_in(kMaskShapes, shape);
}

std::string why_illegal(const Case& c) {
    for (const int a : {kOut, kMax, kSum}) {
        if (c.views[a] == View::kExpand || c.views[a] == View::kExpandLast) return "an output cannot be expanded";
    }
    if (c.mask == MaskShape::kNone) return "";
    if (c.mode < 0 || c.mode > 4) return "only modes 0 to 4 are known";
    if (c.compressed() != (c.mode >= 2)) return "modes 0 and 1 take an explicit mask, modes 2 to 4 a compressed one";
    return c.varlen() ? window_problem_varlen(c) : window_problem_fixed(c);
}

}  // namespace flash_attention::testing
