#include "testing/case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <stdexcept>
#include <tuple>

#include "entry_points.h"

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
constexpr Name<PseShape> kPseShapes[] = {
    {"none", PseShape::kNone},
    {"full", PseShape::kFull},
    {"full1", PseShape::kFull1},
    {"full_any", PseShape::kFullAny},
    {"row", PseShape::kRow},
    {"row1", PseShape::kRow1},
    {"row_any", PseShape::kRowAny},
    {"compressed", PseShape::kCompressed},
    {"compressed1", PseShape::kCompressed1},
    {"slopes", PseShape::kSlopes},
    {"slopes1", PseShape::kSlopes1},
};
constexpr Name<PseValues> kPseValues[] = {
    {"normal", PseValues::kNormal},
    {"alibi", PseValues::kAlibi},
    {"minus_inf", PseValues::kMinusInf},
    {"large", PseValues::kLarge},
};
constexpr Name<DropShape> kDropShapes[] = {
    {"none", DropShape::kNone},     {"exact", DropShape::kExact}, {"rounded", DropShape::kRounded},
    {"longer", DropShape::kLonger}, {"odd", DropShape::kOdd},     {"from_seed", DropShape::kFromSeed},
};
constexpr Name<DropBits> kDropBits[] = {
    {"random", DropBits::kRandom}, {"ones", DropBits::kOnes}, {"zeros", DropBits::kZeros}};
constexpr Name<Sink> kSinks[] = {
    {"none", Sink::kNone}, {"normal", Sink::kNormal}, {"large", Sink::kLarge}, {"minus_inf", Sink::kMinusInf}};
constexpr Name<bool> kPasses[] = {{"forward", false}, {"backward", true}};
constexpr Name<Dpse> kDpses[] = {{"none", Dpse::kNone}, {"empty", Dpse::kEmpty}, {"wanted", Dpse::kWanted}};
constexpr Name<Given> kGivens[] = {{"reference", Given::kReference}, {"operator", Given::kOperator}};
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
    {"q", kQuery},        {"k", kKey},          {"v", kValue},   {"mask", kMask},
    {"out", kOut},        {"max", kMax},        {"sum", kSum},   {"q_rope", kQueryRope},
    {"k_rope", kKeyRope}, {"pse", kPse},        {"drop", kDrop}, {"sink", kSink},
    {"dy", kDy},          {"dq", kDq},          {"dk", kDk},     {"dv", kDv},
    {"dq_rope", kDqRope}, {"dk_rope", kDkRope}, {"dpse", kDpse}, {"dsink", kDsink},
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
struct Defaults {
    std::optional<int64_t> dv;
    std::optional<double> scale;
};

using Text = std::string_view;

// One reader a key. `read_...` with members serve all keys of their kind.
template <int64_t Case::*member, int64_t least>
void read_size(Case& c, Defaults&, Text key, Text text) {
    c.*member = at_least(least, key, text);
}

template <auto member>
void read_number(Case& c, Defaults&, Text key, Text text) {
    c.*member = number<std::remove_reference_t<decltype(c.*member)>>(key, text);
}

template <auto member, const auto& names>
void read_name(Case& c, Defaults&, Text key, Text text) {
    c.*member = value_in(names, key, text);
}

template <std::vector<int64_t> Case::*member, int64_t least>
void read_list(Case& c, Defaults&, Text key, Text text) {
    (c.*member).clear();
    for (const Text part : split(text, ',')) (c.*member).push_back(at_least(least, key, part));
}

// "<shape>" or "<shape>:<content>".
template <auto shape, const auto& shapes, auto content, const auto& contents>
void read_shape(Case& c, Defaults&, Text key, Text text) {
    const auto parts = split(text, ':');
    if (parts.size() > 2)
        throw std::invalid_argument(fmt::format("{}={}: expected <shape> or <shape>:<content>", key, text));
    c.*shape = value_in(shapes, key, parts[0]);
    if (parts.size() == 2) c.*content = value_in(contents, key, parts[1]);
}

void read_layout(Case& c, Defaults&, Text, Text text) {
    if (std::find(std::begin(kLayouts), std::end(kLayouts), text) == std::end(kLayouts)) {
        throw std::invalid_argument(fmt::format("layout={}: expected BSH, SBH, BSND, BNSD or TND", text));
    }
    c.layout = text;
}

template <auto member, auto versions>
void read_version(Case& c, Defaults&, Text key, Text text) {
    std::string allowed;
    for (const auto version : versions()) {
        if (name_of(version) == text) {
            c.*member = version;
            return;
        }
        allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", name_of(version));
    }
    throw std::invalid_argument(fmt::format("{}={}: expected one of {}", key, text, allowed));
}

void read_pse(Case& c, Defaults& given, Text key, Text text) {
    const size_t colon = text.find(':');
    if (colon == Text::npos)
        throw std::invalid_argument(fmt::format("pse={}: expected <type>:<shape> or <type>:<shape>:<values>", text));
    c.pse_type = number<int64_t>(key, text.substr(0, colon));
    read_shape<&Case::pse, kPseShapes, &Case::pse_values, kPseValues>(c, given, key, text.substr(colon + 1));
}

void read_strides(Case& c, Defaults&, Text, Text text) {
    for (const Text item : split(text, ',')) {
        const auto parts = split(item, ':');
        if (parts.size() != 2) {
            throw std::invalid_argument(fmt::format("strides={}: expected <tensor>:<view>, got \"{}\"", text, item));
        }
        c.views[value_in(kArguments, "strides", parts[0])] = value_in(kViews, "strides", parts[1]);
    }
}

constexpr int64_t kAny = std::numeric_limits<int64_t>::min();

struct Key {
    Text name;
    void (*read)(Case& c, Defaults& given, Text key, Text text);
};
constexpr Key kKeys[] = {
    {"layout", read_layout},
    {"dtype", read_name<&Case::dtype, kDTypes>},
    {"pass", read_name<&Case::backward, kPasses>},
    {"version", read_version<&Case::version, all_versions>},
    {"grad", read_version<&Case::grad_version, all_grad_versions>},
    {"b", read_size<&Case::batch, 0>},
    {"n", [](Case& c, Defaults&, Text key, Text text) { std::tie(c.heads, c.kv_heads) = pair_of(key, text, 1); }},
    {"d", read_size<&Case::d, 0>},
    {"dv", [](Case&, Defaults& given, Text key, Text text) { given.dv = at_least(0, key, text); }},
    {"rope", read_size<&Case::rope, 0>},
    {"q", read_list<&Case::q, 0>},
    {"kv", read_list<&Case::kv, 0>},
    {"tail", read_size<&Case::tail, 0>},
    {"slack", [](Case& c, Defaults&, Text key, Text text) { std::tie(c.slack_q, c.slack_kv) = pair_of(key, text, 0); }},
    {"mode", read_number<&Case::mode>},
    {"pre", read_number<&Case::pre>},
    {"next", read_number<&Case::next>},
    {"mask", read_shape<&Case::mask, kMaskShapes, &Case::hides, kContents>},
    {"mask_dtype", read_name<&Case::byte_mask, kMaskTypes>},
    {"prefix", read_list<&Case::prefix, kAny>},
    {"pse", read_pse},
    {"q_start", read_list<&Case::q_start, kAny>},
    {"kv_start", read_list<&Case::kv_start, kAny>},
    {"keep", read_number<&Case::keep>},
    {"drop", read_shape<&Case::drop, kDropShapes, &Case::drop_bits, kDropBits>},
    {"drop_seed", read_number<&Case::drop_seed>},
    {"drop_offset", read_number<&Case::drop_offset>},
    {"sink", read_name<&Case::sink, kSinks>},
    {"stats", [](Case& c, Defaults&, Text, Text text) { c.stats = text; }},
    {"dpse", read_name<&Case::dpse, kDpses>},
    {"given", read_name<&Case::given, kGivens>},
    {"scale", [](Case&, Defaults& given, Text key, Text text) { given.scale = number<double>(key, text); }},
    {"values", read_name<&Case::values, kValueNames>},
    {"strides", read_strides},
    {"seed", read_number<&Case::seed>},
};

void parse_key(Case& c, Defaults& given, Text key, Text text) {
    for (const Key& known : kKeys) {
        if (known.name == key) return known.read(c, given, key, text);
    }
    throw std::invalid_argument(fmt::format("{}={}: there is no such key", key, text));
}

double default_scale(const Case& c) {
    return c.d == 0 ? 1.0 : 1.0 / std::sqrt(static_cast<double>(c.d));
}

// What no call can be made from; what the operator refuses is a matter of why_illegal.
void check_consistency(const Case& c) {
    auto refuse = [](const std::string& text) { throw std::invalid_argument(text); };
    if (c.heads % c.kv_heads != 0)
        refuse(fmt::format("n={}/{}: the first must be a multiple of the second", c.heads, c.kv_heads));
    if (c.dv > c.d) refuse(fmt::format("dv={}: must not exceed d={}", c.dv, c.d));
    const std::vector<Version> able = versions_of(c);
    if (std::find(able.begin(), able.end(), version_of(c)) == able.end()) {
        refuse(fmt::format("version={} does not have all arguments of the case, but {} has", name_of(*c.version),
                           name_of(able.front())));
    }
    const std::vector<Version> able_backward = grad_versions_of(c);
    if (std::find(able_backward.begin(), able_backward.end(), grad_version_of(c)) == able_backward.end()) {
        refuse(fmt::format("grad={} does not have all arguments of the case, but {} has", name_of(*c.grad_version),
                           name_of(able_backward.front())));
    }
    if (!c.backward && (c.grad_version || c.dpse != Dpse::kNone || c.given != Given::kReference))
        refuse("grad, dpse and given need pass=backward");
    if (c.drop == DropShape::kFromSeed ? c.drop_bits != DropBits::kRandom : c.drop_seed != 0 || c.drop_offset != 0)
        refuse("drop=from_seed takes no bits, and drop_seed and drop_offset need it");
    if (c.dpse == Dpse::kWanted && !c.biased()) refuse("dpse=wanted needs a bias");
    if (c.varlen()) {
        if (c.q.size() != c.kv.size()) refuse(fmt::format("q has {} lengths and kv has {}", c.q.size(), c.kv.size()));
        if (c.batch != 1) refuse(fmt::format("b={}: layout TND takes its batch from q and kv", c.batch));
        if (c.pse == PseShape::kFull1 || c.pse == PseShape::kRow1)
            refuse(fmt::format("pse={} needs another layout than TND", name_of(c.pse)));
        return;
    }
    if (c.q.size() != 1 || c.kv.size() != 1)
        refuse(fmt::format("layout {} takes one length for q and one for kv", c.layout));
    if (c.tail != 0 || c.slack_q != 0 || c.slack_kv != 0)
        refuse(fmt::format("layout {} has neither tail nor slack", c.layout));
    if (c.rope != 0) refuse(fmt::format("rope={} needs layout=TND, not {}", c.rope, c.layout));
    if (c.mask == MaskShape::kTotal) refuse(fmt::format("mask=total needs layout=TND, not {}", c.layout));
    if (c.pse == PseShape::kFullAny || c.pse == PseShape::kRowAny)
        refuse(fmt::format("pse={} needs layout=TND, not {}", name_of(c.pse), c.layout));
}

}  // namespace

Case parse_case(std::string_view text) {
    Case c;
    Defaults given;
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
    auto list = [](const std::vector<int64_t>& numbers) { return fmt::format("{}", fmt::join(numbers, ",")); };
    // "<shape>" or "<shape>:<content>".
    auto shape = [](std::string_view name, bool unusual_content, std::string_view content) {
        return unusual_content ? fmt::format("{}:{}", name, content) : std::string(name);
    };
    add(c.backward, "pass", "backward");
    add(c.version.has_value(), "version", c.version ? std::string(name_of(*c.version)) : "");
    add(c.grad_version.has_value(), "grad", c.grad_version ? std::string(name_of(*c.grad_version)) : "");
    add(c.batch != usual.batch, "b", fmt::format("{}", c.batch));
    add(true, "n", pair(c.heads, c.kv_heads));
    add(true, "d", fmt::format("{}", c.d));
    add(c.dv != c.d, "dv", fmt::format("{}", c.dv));
    add(c.rope != usual.rope, "rope", fmt::format("{}", c.rope));
    add(true, "q", list(c.q));
    add(true, "kv", list(c.kv));
    add(c.tail != usual.tail, "tail", fmt::format("{}", c.tail));
    add(c.slack_q != 0 || c.slack_kv != 0, "slack", pair(c.slack_q, c.slack_kv));
    add(c.mode != usual.mode, "mode", fmt::format("{}", c.mode));
    add(c.pre != usual.pre, "pre", fmt::format("{}", c.pre));
    add(c.next != usual.next, "next", fmt::format("{}", c.next));
    add(c.mask != usual.mask || c.hides != usual.hides, "mask",
        shape(name_of(c.mask), c.hides != usual.hides, name_in(kContents, c.hides)));
    add(c.byte_mask, "mask_dtype", std::string(name_in(kMaskTypes, c.byte_mask)));
    add(!c.prefix.empty(), "prefix", list(c.prefix));
    add(c.pse != usual.pse || c.pse_type != usual.pse_type || c.pse_values != usual.pse_values, "pse",
        fmt::format("{}:{}", c.pse_type,
                    shape(name_of(c.pse), c.pse_values != usual.pse_values, name_in(kPseValues, c.pse_values))));
    add(!c.q_start.empty(), "q_start", list(c.q_start));
    add(!c.kv_start.empty(), "kv_start", list(c.kv_start));
    add(c.keep != usual.keep, "keep", fmt::format("{}", c.keep));
    add(c.drop != usual.drop || c.drop_bits != usual.drop_bits, "drop",
        shape(name_in(kDropShapes, c.drop), c.drop_bits != usual.drop_bits, name_in(kDropBits, c.drop_bits)));
    add(c.drop_seed != usual.drop_seed, "drop_seed", fmt::format("{}", c.drop_seed));
    add(c.drop_offset != usual.drop_offset, "drop_offset", fmt::format("{}", c.drop_offset));
    add(c.sink != usual.sink, "sink", std::string(name_in(kSinks, c.sink)));
    add(!c.stats.empty(), "stats", c.stats);
    add(c.dpse != usual.dpse, "dpse", std::string(name_in(kDpses, c.dpse)));
    add(c.given != usual.given, "given", std::string(name_in(kGivens, c.given)));
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
std::string_view name_of(PseShape shape) {
    return name_in(kPseShapes, shape);
}
std::string_view name_of(Argument argument) {
    return name_in(kArguments, argument);
}
}  // namespace flash_attention::testing
