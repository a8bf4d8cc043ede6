#include "testing/random_modifiers.h"

#include <algorithm>

#include "entry_points.h"

namespace flash_attention::testing {
namespace {

enum class PseForm { kFull, kRow, kCompressed, kSlopes };

PseForm form_of(PseShape shape) {
    switch (shape) {
        case PseShape::kRow:
        case PseShape::kRow1:
        case PseShape::kRowAny:
            return PseForm::kRow;
        case PseShape::kCompressed:
        case PseShape::kCompressed1:
            return PseForm::kCompressed;
        case PseShape::kSlopes:
        case PseShape::kSlopes1:
            return PseForm::kSlopes;
        default:
            return PseForm::kFull;
    }
}

PseShape draw_shape(Draw& draw, const Case& c, PseForm form) {
    switch (form) {
        case PseForm::kRow:
            return draw.one_of({PseShape::kRow, c.varlen() ? PseShape::kRowAny : PseShape::kRow1});
        case PseForm::kCompressed:
            return draw.one_of({PseShape::kCompressed, PseShape::kCompressed1});
        case PseForm::kSlopes:
            return draw.one_of({PseShape::kSlopes, PseShape::kSlopes1});
        default:
            return draw.one_of({PseShape::kFull, c.varlen() ? PseShape::kFullAny : PseShape::kFull1});
    }
}

void add_bias(Draw& draw, Case& c, int64_t type, PseForm form) {
    c.pse_type = type;
    c.pse = draw_shape(draw, c, form);
    c.pse_values = draw.one_of({PseValues::kNormal, PseValues::kNormal, PseValues::kAlibi, PseValues::kLarge});
    if (form != PseForm::kSlopes && draw.chance(0.3)) c.pse_values = PseValues::kMinusInf;
}

void add_dropout(Draw& draw, Case& c) {
    c.drop = draw.one_of(
        {DropShape::kExact, DropShape::kRounded, DropShape::kLonger, DropShape::kOdd, DropShape::kFromSeed});
    c.keep = draw.one_of({0.9, 0.5, 0.1, 0.999, 1.0});
    if (c.drop == DropShape::kFromSeed) {
        c.drop_seed = static_cast<int64_t>(draw.seed());
        c.drop_offset = draw.one_of<int64_t>({0, 12, draw.below(1000), int64_t{1} << 32, -1});
    } else if (draw.chance(0.1))
        c.drop_bits = draw.one_of({DropBits::kOnes, DropBits::kZeros});
}

void add_sink(Draw& draw, Case& c) {
    c.sink = draw.one_of({Sink::kNormal, Sink::kNormal, Sink::kLarge, Sink::kMinusInf});
}

void add_rope(Draw& draw, Case& c) {
    c.rope = std::clamp<int64_t>(draw.one_of<int64_t>({1, 7, 16, 64, c.d / 2, c.d}), 1, c.d);
}

// What modes 5 and 6 ask for: at the least what the diagonal shows of the first row, at the most all keys.
void draw_valid_prefix(Draw& draw, Case& c) {
    c.prefix.clear();
    for (int64_t b = 0; b < c.sequences(); b++) {
        const auto at = static_cast<size_t>(c.varlen() ? b : 0);
        const int64_t q_len = at < c.q.size() ? c.q[at] : 0, kv_len = at < c.kv.size() ? c.kv[at] : 0;
        const int64_t least = std::max<int64_t>(0, kv_len - q_len);
        c.prefix.push_back(draw.one_of<int64_t>({least, kv_len, draw.between(least, kv_len)}));
    }
}

struct Modifier {
    const char* name;
    bool (*in)(const Case& c);
    void (*add)(Draw& draw, Case& c);
};

template <int64_t type, PseForm form>
constexpr Modifier bias_modifier(const char* name) {
    return {name, [](const Case& c) { return c.biased() && c.pse_type == type && form_of(c.pse) == form; },
            [](Draw& draw, Case& c) { add_bias(draw, c, type, form); }};
}

// Places in the table below.
enum : size_t {
    kNoModifier,
    kFirstBias,
    kLastBias = kFirstBias + 7,
    kDropoutModifier,
    kSinkModifier,
    kRopeModifier,
    kPrefixModifier,
    kStatsModifier,
    kModifierCount
};
constexpr Modifier kModifiers[] = {
    {"none", [](const Case& c) { return modifier_count(c) == 0; }, [](Draw&, Case&) {}},
    bias_modifier<0, PseForm::kFull>("pse 0 full"),
    bias_modifier<0, PseForm::kRow>("pse 0 row"),
    bias_modifier<0, PseForm::kCompressed>("pse 0 compressed"),
    bias_modifier<1, PseForm::kFull>("pse 1 full"),
    bias_modifier<1, PseForm::kRow>("pse 1 row"),
    bias_modifier<1, PseForm::kCompressed>("pse 1 compressed"),
    bias_modifier<2, PseForm::kSlopes>("pse 2 slopes"),
    bias_modifier<3, PseForm::kSlopes>("pse 3 slopes"),
    {"dropout", [](const Case& c) { return c.drop != DropShape::kNone; }, add_dropout},
    {"sink", [](const Case& c) { return c.sink != Sink::kNone; }, add_sink},
    {"rope", [](const Case& c) { return c.rope > 0; }, add_rope},
    {"prefix", [](const Case& c) { return !c.prefix.empty() && (c.mode == 5 || c.mode == 6); },
     [](Draw&, Case&) {}},  // drawn once lengths are known
    {"same_as_input", [](const Case& c) { return c.stats == "same_as_input"; },
     [](Draw&, Case& c) { c.stats = "same_as_input"; }},
};
static_assert(std::size(kModifiers) == kModifierCount);

// Whether the operator takes the modifier with a masked call of the cell, for suitable lengths.
bool is_legal(const ModifierCell& cell) {
    const bool varlen = cell.layout == "TND";
    const int64_t mode = cell.mode;
    if (varlen ? mode == 5 : mode > 6) return false;
    const std::string_view name = kModifiers[cell.modifier].name;
    if (name.ends_with("compressed")) return mode == 0 || mode == 2 || mode == 3 || (varlen && mode == 4);
    if (name.ends_with("slopes")) return mode != 7;
    if (cell.modifier == kRopeModifier) return varlen && cell.dtype == DType::kBf16 && mode != 6;
    if (cell.modifier == kPrefixModifier) return mode == 5 || mode == 6;
    if (cell.modifier == kStatsModifier) return varlen;
    return true;
}

}  // namespace

const std::vector<std::string>& modifier_names() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> made;
        for (const Modifier& modifier : kModifiers) made.emplace_back(modifier.name);
        return made;
    }();
    return names;
}

const std::vector<ModifierCell>& modifier_cells() {
    static const std::vector<ModifierCell> all = [] {
        std::vector<ModifierCell> made;
        for (const char* layout : {"BSH", "SBH", "BSND", "BNSD", "TND"}) {
            for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
                for (int64_t mode = 0; mode <= 8; mode++) {
                    for (size_t modifier = 0; modifier < kModifierCount; modifier++) {
                        const ModifierCell cell{layout, dtype, mode, modifier};
                        if (is_legal(cell)) made.push_back(cell);
                    }
                }
            }
        }
        return made;
    }();
    return all;
}

bool falls_into(const Case& c, const ModifierCell& cell) {
    return c.layout == cell.layout && c.dtype == cell.dtype && c.mode == cell.mode && c.masked() &&
           kModifiers[cell.modifier].in(c);
}

int64_t modifier_count(const Case& c) {
    int64_t count = 0;
    for (size_t modifier = kFirstBias; modifier < kModifierCount; modifier++)
        count += modifier != kPrefixModifier && kModifiers[modifier].in(c) ? 1 : 0;
    return count;
}

void add_modifier(Draw& draw, Case& c, size_t modifier) {
    kModifiers[modifier].add(draw, c);
}

void add_more_modifiers(Draw& draw, Case& c) {
    auto legal = [&c](size_t modifier) { return is_legal({c.layout, c.dtype, c.mode, modifier}); };
    const bool masked = c.masked();
    if (c.rope == 0 && !c.biased() && draw.chance(0.5)) {
        const auto bias = static_cast<size_t>(draw.between(kFirstBias, kLastBias));
        // Those of the compressed form are long: only where they are asked for.
        const bool compressed = std::string_view(kModifiers[bias].name).ends_with("compressed");
        if (!compressed && (legal(bias) || !masked)) add_modifier(draw, c, bias);
    }
    if (c.rope == 0 && c.drop == DropShape::kNone && draw.chance(0.4)) add_dropout(draw, c);
    if (draw.chance(0.4)) add_sink(draw, c);
    if (masked && legal(kRopeModifier) && !c.biased() && c.drop == DropShape::kNone && draw.chance(0.5))
        add_rope(draw, c);
    // For other layouts than TND it has no effect, and only one version takes it.
    if (c.stats.empty() && draw.chance(c.varlen() ? 0.4 : 0.1)) c.stats = draw.chance(0.1) ? "TND" : "same_as_input";
    // Without a mask there is no dropout, whatever keepProb is; only ScoreV4 drops then (drop=from_seed).
    if (c.rope == 0 && c.drop == DropShape::kNone && version_of(c) != Version::kScoreV4 && draw.chance(0.1))
        c.keep = 0.7;
}

void adapt_lengths(Draw& draw, Case& c) {
    const bool masked = c.masked();
    if (c.compressed_bias() && !c.varlen()) {
        c.q[0] = c.kv[0] = draw.one_of<int64_t>({1025, 1025, 1026, 1088, 1153});
        c.batch = std::min<int64_t>(c.batch, 2);
    } else if (c.compressed_bias()) {
        if (draw.chance(0.3)) c.q[static_cast<size_t>(draw.below(static_cast<int64_t>(c.q.size())))] = 1030;
        c.kv = c.q;
    } else if (c.slopes() && !c.varlen()) {
        c.kv = c.q;
    } else if (c.slopes() && masked && c.mode == 8) {
        std::copy(c.q.begin() + 1, c.q.end(), c.kv.begin() + 1);
        if (draw.chance(0.5)) c.kv[0] = c.q[0];
    }
    // Modes 3 and 7 of TND refuse sequences with more rows than keys.
    if (c.varlen() && masked && (c.mode == 3 || c.mode == 7)) {
        for (size_t s = 0; s < c.q.size(); s++) c.kv[s] = std::max(c.q[s], c.kv[s]);
    }
    // A mask of mode 5 with one matrix for all belongs to one batch entry.
    if (c.mode == 5 && (c.mask == MaskShape::kPlain || c.mask == MaskShape::k11)) c.batch = 1;
}

void draw_lists(Draw& draw, Case& c) {
    if (c.masked() && (c.mode == 5 || c.mode == 6)) {
        draw_valid_prefix(draw, c);
        // Mode 5 does without.
        if (c.mode == 5 && draw.chance(0.1)) c.prefix.clear();
        if (c.mode == 5 && draw.chance(0.1)) c.prefix.push_back(1);
        if (c.mode == 5 && draw.chance(0.1) && !c.prefix.empty()) c.prefix[0] = draw.one_of<int64_t>({-1, c.kv[0] + 1});
    } else if (draw.chance(0.05)) {
        c.prefix = {draw.below(9), draw.below(9)};  // ignored
    }
    if (c.slopes() && draw.chance(0.6)) {
        c.q_start = {draw.between(-300, 300), 7};
        c.kv_start = {draw.between(-300, 300)};
        if (draw.chance(0.2)) (draw.chance(0.5) ? c.q_start : c.kv_start).clear();
    }
    if (c.slopes() && c.masked() && c.mode == 8) {
        c.q_start = {draw.between(-300, 300)};
        c.kv_start = {c.q_start[0] + c.q[0] - c.kv[0], 3};
    }
}

}  // namespace flash_attention::testing
