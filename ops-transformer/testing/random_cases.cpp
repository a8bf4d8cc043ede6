#include "testing/random_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "testing/draw.h"
#include "testing/random_modifiers.h"

namespace flash_attention::testing {
namespace {

constexpr int64_t kBlock = 192;             // the largest block size that an implementation is assumed to use
constexpr int64_t kMostWork = 24'000'000;   // multiply-adds of a case: some 50 ms for the reference
constexpr int64_t kLessWork = 6'000'000;    // for the second table, which has more cells
constexpr int64_t kBackwardCost = 4;        // of the reference, in units of forward
constexpr int64_t kUnlimited = 2147483647;  // what callers pass for "no limit"

// Around the edges of vectors, strips of 24 and 48 rows, and blocks of 64 to 192 rows or keys.
int64_t edge_length(Draw& draw) {
    if (draw.chance(0.03)) return 513;
    return draw.one_of<int64_t>({1,  2,  7,  8,  9,  15, 16, 17,  23,  24,  25,  31,  32,  33,  47,  48,
                                 49, 63, 64, 65, 95, 96, 97, 100, 127, 128, 129, 143, 144, 160, 191, 192});
}

int64_t long_length(Draw& draw) {
    if (draw.chance(0.05)) return 513;
    return draw.one_of<int64_t>(
        {193, 194, 200, 208, 215, 216, 217, 240, 255, 256, 257, 287, 288, 289, 300, 383, 384, 385});
}

void draw_lengths(Draw& draw, Case& c, bool crossing) {
    const int64_t sequences = c.varlen() ? 1 + draw.below(4) : 1;
    c.q.clear();
    c.kv.clear();
    for (int64_t s = 0; s < sequences; s++) {
        c.q.push_back(c.varlen() && draw.chance(0.2) ? 0 : edge_length(draw));
        c.kv.push_back(c.varlen() && draw.chance(0.2) ? 0 : edge_length(draw));
    }
    const int64_t longest = draw.below(sequences);
    if (crossing) {
        c.q[longest] = long_length(draw);
        c.kv[longest] = long_length(draw);
    }
    // Some rows and some keys, so that neither outputs nor masks are empty tensors; those have tests of their own.
    c.q[longest] = std::max<int64_t>(c.q[longest], 1);
    c.kv[longest] = std::max<int64_t>(c.kv[longest], 1);
    if (!c.varlen()) {
        c.batch = draw.one_of<int64_t>({1, 1, 2, 3});
        return;
    }
    if (draw.chance(0.2)) c.tail = 1 + draw.below(2);
    if (draw.chance(0.3)) {
        c.slack_q = draw.below(10);
        c.slack_kv = draw.below(10);
    }
}

void draw_sizes(Draw& draw, Case& c) {
    c.d = draw.one_of<int64_t>({1, 3, 16, 16, 33, 40, 64, 64, 64, 72, 80, 96, 128, 128, 128, 192, 256, 513, 768});
    c.dv = c.d;
    if (draw.chance(0.35)) c.dv = std::max<int64_t>(1, draw.one_of<int64_t>({1, c.d / 2, c.d - 1, (c.d * 2) / 3}));
    struct Heads {
        int64_t query, key;
    };
    const Heads heads = draw.one_of<Heads>({{1, 1}, {2, 2}, {2, 1}, {4, 2}, {3, 1}, {8, 2}, {8, 1}, {5, 5}, {6, 3}});
    c.heads = heads.query;
    c.kv_heads = heads.key;
}

int64_t work(const Case& c) {
    int64_t pairs = 0;
    for (size_t s = 0; s < c.q.size(); s++) pairs += c.q[s] * c.kv[s];
    return pairs * c.batch * c.heads * (c.d + c.rope + c.dv);
}

// Takes from heads first, then from the batch, then from D.
void limit_work(Draw& draw, Case& c, int64_t most) {
    while (work(c) > most) {
        if (c.heads > 2) {
            c.heads = 2;
            c.kv_heads = 1;
        } else if (c.batch > 1) {
            c.batch = 1;
        } else if (c.heads > 1) {
            c.heads = c.kv_heads = 1;
        } else if (c.d > 16) {
            c.d = draw.one_of<int64_t>({16, 33, 40, c.d / 2});
            c.dv = std::min(c.dv, c.d);
            c.rope = std::min(c.rope, c.d);
        } else {
            return;
        }
    }
}

int64_t draw_tokens(Draw& draw, int64_t length) {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
    if (draw.chance(0.08)) return draw.one_of<int64_t>({kMost, kLeast, -kUnlimited});
    if (draw.chance(0.15)) return -draw.below(length + 1);
    return draw.one_of<int64_t>(
        {0, 1, draw.below(16), draw.below(length + 1), draw.below(length + 1), length, kUnlimited});
}

// The window of the sequence that has one of its own in modes 7 and 8: what is left of a causal one that was cut.
void draw_split_window(Draw& draw, Case& c) {
    size_t band = c.q.size();
    for (size_t b = 0; b < c.q.size(); b++) {
        if (c.q[b] > 0 && (c.mode == 7 || band == c.q.size())) band = b;
    }
    const int64_t q_len = c.q[band], kv_len = c.kv[band];
    c.pre = draw.one_of<int64_t>({kv_len, kv_len + draw.below(9), kUnlimited});
    c.next = q_len - kv_len + draw.below(std::max<int64_t>(kv_len - q_len, 0) + 1);
    if (c.mode == 8 && draw.chance(0.3)) c.next += draw.below(kv_len + 1);
}

// Draws until the mode's rules hold; where lengths leave little choice, lets everything through that the mode can.
void draw_window(Draw& draw, Case& c) {
    const int64_t longest =
        std::max(*std::max_element(c.q.begin(), c.q.end()), *std::max_element(c.kv.begin(), c.kv.end()));
    const bool causal_bias = c.compressed_bias() && (c.varlen() || draw.chance(0.75));
    for (int attempt = 0; attempt < 64; attempt++) {
        c.pre = draw_tokens(draw, longest);
        c.next = draw_tokens(draw, longest);
        if (c.masked() && c.varlen() && (c.mode == 7 || c.mode == 8)) draw_split_window(draw, c);
        if (causal_bias && (c.mode == 0 || c.mode == 4)) {
            c.next = 0;
            if (c.varlen()) c.pre = draw.one_of<int64_t>({longest, longest + 1, kUnlimited});
        }
        if (why_illegal(c).empty()) return;
    }
    c.pre = kUnlimited;
    c.next = c.mode == 7 || causal_bias ? 0 : kUnlimited;
}

void draw_mask(Draw& draw, Case& c) {
    c.byte_mask = c.masked() && draw.chance(0.5);
    if (c.compressed()) {
        if (draw.chance(0.25)) c.hides = MaskContent::kRandom;
    } else if (c.masked()) {
        c.hides = draw.one_of({MaskContent::kNothing, MaskContent::kCausal, MaskContent::kRandom, MaskContent::kRandom,
                               MaskContent::kRows, MaskContent::kRows, MaskContent::kBlocks, MaskContent::kBlocks,
                               MaskContent::kWindow});
        if (draw.chance(0.03)) c.hides = MaskContent::kAll;
    }
    draw_window(draw, c);
}

void draw_numbers(Draw& draw, Case& c) {
    c.scale = 1.0 / std::sqrt(static_cast<double>(c.d));
    if (draw.chance(0.35)) c.scale = draw.one_of({0.0, -c.scale, 0.3, -0.02, 1.0, 1.0 / static_cast<double>(c.d)});
    c.values =
        draw.one_of({Values::kNormal, Values::kNormal, Values::kNormal, Values::kPositive, Values::kLarge,
                     Values::kHighKey, Values::kHiddenNan, Values::kHiddenNan, Values::kVisibleNan, Values::kMinusInf});
    c.seed = draw.seed();
}

void draw_views(Draw& draw, Case& c) {
    for (int a = 0; a < kArgumentCount; a++) {
        const auto argument = static_cast<Argument>(a);
        if (argument >= kDy && !c.backward) break;
        if (!draw.chance(0.33) || !c.has(argument)) continue;
        c.views[a] = is_output(argument)
                         ? draw.one_of({View::kOffset, View::kPadded, View::kSwapped, View::kTransposed, View::kEvery2})
                         : draw.one_of({View::kOffset, View::kPadded, View::kSwapped, View::kTransposed, View::kEvery2,
                                        View::kExpand, View::kExpandLast});
        // The content of a compressed mask never matters, and copies of four million bytes cost more than the case.
        if (a == kMask && c.compressed()) c.views[a] = draw.one_of({View::kOffset, View::kExpand});
    }
}

void draw_version(Draw& draw, Case& c) {
    if (draw.chance(0.5)) return;
    std::vector<Version> able = versions_of(c);
    std::erase_if(able, [c](Version version) mutable {
        c.version = version;
        return !why_illegal(c).empty();
    });
    c.version = able[draw.below(static_cast<int64_t>(able.size()))];
}

// What only backward has, and what it does not take. Before lists are drawn, since trailing zeros lengthen them.
void draw_backward(Draw& draw, Case& c) {
    if (c.drop == DropShape::kNone) c.keep = 1;
    if (!c.varlen() || c.stats != "same_as_input") c.stats.clear();
    if (c.slack_q > 0 && c.slack_kv > 0) c.tail = std::max<int64_t>(c.tail, 1);
    if (c.biased()) c.dpse = draw.one_of({Dpse::kWanted, Dpse::kWanted, Dpse::kEmpty, Dpse::kNone});
    if (draw.chance(0.25)) c.given = Given::kOperator;
}

void draw_grad_version(Draw& draw, Case& c) {
    if (draw.chance(0.5)) return;
    const std::vector<Version> able = grad_versions_of(c);
    c.grad_version = able[draw.below(static_cast<int64_t>(able.size()))];
}

// Explicit masks for modes 0, 1 and 5, compressed ones for the others.
std::vector<MaskShape> mask_shapes(const std::string& layout, int64_t mode) {
    if (layout == "TND" ? mode == 5 : mode > 6) return {};
    if (mode != 0 && mode != 1 && mode != 5) return {MaskShape::kCompressed, MaskShape::kCompressed4};
    std::vector<MaskShape> shapes{MaskShape::kPlain, MaskShape::k11, MaskShape::kB1, MaskShape::kBN};
    if (layout == "TND") shapes.push_back(MaskShape::kTotal);
    return shapes;
}

// Of modifiers beside what the cell asks for. Backward drops some of them again.
double chance_of_more(bool backward) {
    return backward ? 0.6 : 0.5;
}

// Everything that the cell and the modifiers leave open.
void complete(Draw& draw, Case& c, const std::function<void()>& add_modifiers, bool crossing, int64_t most_work) {
    draw_lengths(draw, c, crossing);
    draw_sizes(draw, c);
    add_modifiers();
    if (c.backward) draw_backward(draw, c);
    adapt_lengths(draw, c);
    limit_work(draw, c, c.backward ? most_work / kBackwardCost : most_work);
    draw_lists(draw, c);
    draw_mask(draw, c);
    draw_numbers(draw, c);
    draw_views(draw, c);
    draw_version(draw, c);
    if (c.backward) draw_grad_version(draw, c);
}

// Cases of a table: a line has a label, and a number for each layout and element type, or none where that is illegal.
using Count = std::function<int64_t(const std::string& layout, DType dtype)>;  // -1: illegal

std::string table_head(const char* first) {
    std::string text = fmt::format("{:22}", first);
    for (const char* layout : {"BSH", "SBH", "BSND", "BNSD", "TND"}) text += fmt::format("{:>16}", layout);
    text += fmt::format("\n{:22}", "");
    for (int i = 0; i < 5; i++) text += fmt::format("{:>16}", "fp32 fp16 bf16");
    return text + "\n";
}

std::string table_line(const std::string& label, const Count& count) {
    std::string text = fmt::format("{:22}", label);
    for (const char* layout : {"BSH", "SBH", "BSND", "BNSD", "TND"}) {
        text += " ";
        for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
            const int64_t number = count(layout, dtype);
            text += number < 0 ? fmt::format("{:>5}", "-") : fmt::format("{:>5}", number);
        }
    }
    return text + "\n";
}

}  // namespace

const std::vector<Cell>& cells() {
    static const std::vector<Cell> all = [] {
        std::vector<Cell> made;
        for (const char* layout : {"BSH", "SBH", "BSND", "BNSD", "TND"}) {
            for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
                for (int64_t mode = 0; mode <= 8; mode++) {
                    made.push_back({layout, dtype, mode, MaskShape::kNone});
                    for (const MaskShape mask : mask_shapes(layout, mode)) made.push_back({layout, dtype, mode, mask});
                }
            }
        }
        return made;
    }();
    return all;
}

Cell cell_of(const Case& c) {
    return {c.layout, c.dtype, c.mode, c.mask};
}

Case random_case(uint64_t seed, int64_t index, bool backward) {
    Draw draw(seed, index);
    const double more = chance_of_more(backward);
    const Cell& cell = cells()[index % cell_count()];
    Case c;
    c.backward = backward;
    c.layout = cell.layout;
    c.dtype = cell.dtype;
    c.mode = cell.mode;
    c.mask = cell.mask;
    auto add_modifiers = [&] {
        if (draw.chance(more)) add_more_modifiers(draw, c);
    };
    // A third, and not always the same cells.
    complete(draw, c, add_modifiers, (index + index / cell_count()) % 3 == 0, kMostWork);
    return c;
}

Case modifier_case(uint64_t seed, int64_t index, bool backward) {
    Draw draw(seed + 0x5851F42D4C957F2DU, index);
    const ModifierCell& cell = modifier_cells()[index % modifier_cell_count()];
    Case c;
    c.backward = backward;
    c.layout = cell.layout;
    c.dtype = cell.dtype;
    c.mode = cell.mode;
    const std::vector<MaskShape> shapes = mask_shapes(c.layout, c.mode);
    c.mask = shapes[draw.below(static_cast<int64_t>(shapes.size()))];
    const bool plain = cell.modifier == 0;
    const double more = chance_of_more(backward);
    auto add_modifiers = [&] {
        add_modifier(draw, c, cell.modifier);
        if (!plain && draw.chance(more)) add_more_modifiers(draw, c);
    };
    complete(draw, c, add_modifiers, (index + index / modifier_cell_count()) % 3 == 0, kLessWork);
    return c;
}

int64_t spread(int64_t i, int64_t cells) {
    int64_t stride = 100;
    while (std::gcd(stride, cells) != 1) stride++;
    return i / cells * cells + i % cells * stride % cells;
}

std::vector<Case> mixed_cases(uint64_t seed, int64_t count, bool backward) {
    std::vector<Case> cases;
    for (int64_t i = 0; i < count; i++) {
        const int64_t eighths = i / 8, of_eight = i % 8;
        if (of_eight < 3) {
            cases.push_back(random_case(seed, spread(eighths * 3 + of_eight, cell_count()), backward));
        } else {
            const int64_t index = spread(eighths * 5 + of_eight - 3, modifier_cell_count());
            cases.push_back(modifier_case(seed, index, backward));
        }
    }
    return cases;
}

bool crosses_blocks(const Case& c) {
    for (size_t s = 0; s < c.q.size(); s++) {
        if (c.q[s] > kBlock && c.kv[s] > kBlock) return true;
    }
    return false;
}

std::string coverage_table(const std::vector<Case>& cases) {
    std::string text = table_head("mode and mask");
    for (int64_t mode = 0; mode <= 8; mode++) {
        for (const MaskShape mask :
             {MaskShape::kNone, MaskShape::kPlain, MaskShape::k11, MaskShape::kB1, MaskShape::kBN, MaskShape::kTotal,
              MaskShape::kCompressed, MaskShape::kCompressed4}) {
            auto has = [&](const Cell& cell) {
                return std::find(cells().begin(), cells().end(), cell) != cells().end();
            };
            if (!has({"TND", DType::kFp32, mode, mask}) && !has({"BSH", DType::kFp32, mode, mask})) continue;
            text += table_line(fmt::format("{} {}", mode, name_of(mask)), [&](const std::string& layout, DType dtype) {
                const Cell cell{layout, dtype, mode, mask};
                if (!has(cell)) return int64_t{-1};
                return static_cast<int64_t>(
                    std::count_if(cases.begin(), cases.end(), [&cell](const Case& c) { return cell_of(c) == cell; }));
            });
        }
    }
    return text;
}

std::string modifier_table(const std::vector<Case>& cases) {
    std::string text = table_head("modifier and mode");
    for (size_t modifier = 0; modifier < modifier_names().size(); modifier++) {
        for (int64_t mode = 0; mode <= 8; mode++) {
            bool exists = false;
            const std::string label = fmt::format("{} {}", modifier_names()[modifier], mode);
            const std::string line = table_line(label, [&](const std::string& layout, DType dtype) {
                const auto& all = modifier_cells();
                const auto cell = std::find_if(all.begin(), all.end(), [&](const ModifierCell& of) {
                    return of.layout == layout && of.dtype == dtype && of.mode == mode && of.modifier == modifier;
                });
                if (cell == all.end()) return int64_t{-1};
                exists = true;
                return static_cast<int64_t>(
                    std::count_if(cases.begin(), cases.end(), [&cell](const Case& c) { return falls_into(c, *cell); }));
            });
            if (exists) text += line;
        }
    }
    return text;
}

}  // namespace flash_attention::testing
