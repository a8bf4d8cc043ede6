#include "testing/random_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <random>

namespace flash_attention::testing {
namespace {

constexpr int64_t kBlock = 128;             // the largest block size that an implementation is assumed to use
constexpr int64_t kMostWork = 24'000'000;   // multiply-adds of a case: some 50 ms for the reference
constexpr int64_t kUnlimited = 2147483647;  // what callers pass for "no limit"

class Draw {
  public:
    Draw(uint64_t seed, int64_t index) : random_(seed * 0x9E3779B97F4A7C15U + static_cast<uint64_t>(index)) {}

    int64_t below(int64_t end) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(end)); }
    bool chance(double probability) { return std::uniform_real_distribution<double>()(random_) < probability; }
    template <class Value>
    Value one_of(std::initializer_list<Value> values) {
        return *(values.begin() + below(static_cast<int64_t>(values.size())));
    }
    uint64_t seed() { return random_() % 1'000'000; }

  private:
    std::mt19937_64 random_;
};

int64_t edge_length(Draw& draw) {
    if (draw.chance(0.03)) return 513;
    return draw.one_of<int64_t>({1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129});
}

int64_t long_length(Draw& draw) {
    if (draw.chance(0.05)) return 513;
    return draw.one_of<int64_t>({129, 130, 144, 159, 160, 191, 192, 193, 200, 255, 256, 257, 300});
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
    return pairs * c.batch * c.heads * (c.d + c.dv);
}

// Takes from heads first, then from the batch, then from D.
void limit_work(Draw& draw, Case& c) {
    while (work(c) > kMostWork) {
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

// Draws until the mode's rules hold; where lengths leave little choice, lets everything through that the mode can.
void draw_window(Draw& draw, Case& c) {
    const int64_t longest =
        std::max(*std::max_element(c.q.begin(), c.q.end()), *std::max_element(c.kv.begin(), c.kv.end()));
    for (int attempt = 0; attempt < 64; attempt++) {
        c.pre = draw_tokens(draw, longest);
        c.next = draw_tokens(draw, longest);
        if (why_illegal(c).empty()) return;
    }
    c.pre = c.next = kUnlimited;
}

void draw_mask(Draw& draw, Case& c) {
    c.byte_mask = c.mask != MaskShape::kNone && draw.chance(0.5);
    if (c.compressed()) {
        if (draw.chance(0.25)) c.hides = MaskContent::kRandom;
    } else if (c.mask != MaskShape::kNone) {
        c.hides = draw.one_of({MaskContent::kNothing, MaskContent::kCausal, MaskContent::kRandom, MaskContent::kRandom,
                               MaskContent::kRows, MaskContent::kRows, MaskContent::kBlocks, MaskContent::kBlocks,
                               MaskContent::kWindow});
        if (draw.chance(0.03)) c.hides = MaskContent::kAll;
    }
    // Mode 3 of TND refuses sequences with more rows than keys.
    if (c.varlen() && c.mode == 3 && c.compressed()) {
        for (size_t s = 0; s < c.q.size(); s++) c.kv[s] = std::max(c.q[s], c.kv[s]);
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
        if (!draw.chance(0.33) || (a == kMask && c.mask == MaskShape::kNone)) continue;
        const bool output = a == kOut || a == kMax || a == kSum;
        c.views[a] = output
                         ? draw.one_of({View::kOffset, View::kPadded, View::kSwapped, View::kTransposed, View::kEvery2})
                         : draw.one_of({View::kOffset, View::kPadded, View::kSwapped, View::kTransposed, View::kEvery2,
                                        View::kExpand, View::kExpandLast});
        // The content of a compressed mask never matters, and copies of four million bytes cost more than the case.
        if (a == kMask && c.compressed()) c.views[a] = draw.one_of({View::kOffset, View::kExpand});
    }
}

}  // namespace

const std::vector<Cell>& cells() {
    static const std::vector<Cell> all = [] {
        std::vector<Cell> made;
        for (const char* layout : {"BSH", "SBH", "BSND", "BNSD", "TND"}) {
            for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
                for (int64_t mode = 0; mode <= 4; mode++) {
                    made.push_back({layout, dtype, mode, MaskShape::kNone});
                    if (mode >= 2) {
                        made.push_back({layout, dtype, mode, MaskShape::kCompressed});
                        made.push_back({layout, dtype, mode, MaskShape::kCompressed4});
                        continue;
                    }
                    for (const MaskShape mask : {MaskShape::kPlain, MaskShape::k11, MaskShape::kB1, MaskShape::kBN}) {
                        made.push_back({layout, dtype, mode, mask});
                    }
                    if (std::string(layout) == "TND") made.push_back({layout, dtype, mode, MaskShape::kTotal});
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

Case random_case(uint64_t seed, int64_t index) {
    Draw draw(seed, index);
    const Cell& cell = cells()[index % cell_count()];
    Case c;
    c.layout = cell.layout;
    c.dtype = cell.dtype;
    c.mode = cell.mode;
    c.mask = cell.mask;
    // A third, and not always the same cells.
    const bool crossing = (index + index / cell_count()) % 3 == 0;
    draw_lengths(draw, c, crossing);
    draw_sizes(draw, c);
    limit_work(draw, c);
    draw_mask(draw, c);
    draw_numbers(draw, c);
    draw_views(draw, c);
    return c;
}

bool crosses_blocks(const Case& c) {
    for (size_t s = 0; s < c.q.size(); s++) {
        if (c.q[s] > kBlock && c.kv[s] > kBlock) return true;
    }
    return false;
}

std::string coverage_table(const std::vector<Case>& cases) {
    std::string text = fmt::format("{:18}", "mode and mask");
    for (const char* layout : {"BSH", "SBH", "BSND", "BNSD", "TND"}) text += fmt::format("{:>16}", layout);
    text += fmt::format("\n{:18}", "");
    for (int i = 0; i < 5; i++) text += fmt::format("{:>16}", "fp32 fp16 bf16");
    text += "\n";
    auto count = [&cases](const Cell& cell) {
        return std::count_if(cases.begin(), cases.end(), [&cell](const Case& c) { return cell_of(c) == cell; });
    };
    for (const Cell& line : cells()) {
        // TND has every mode and mask shape; each is one line.
        if (line.layout != "TND" || line.dtype != DType::kFp32) continue;
        text += fmt::format("{:18}", fmt::format("{} {}", line.mode, name_of(line.mask)));
        for (const char* layout : {"BSH", "SBH", "BSND", "BNSD", "TND"}) {
            text += " ";
            for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
                const Cell cell{layout, dtype, line.mode, line.mask};
                const bool legal = std::find(cells().begin(), cells().end(), cell) != cells().end();
                text += legal ? fmt::format("{:>5}", count(cell)) : fmt::format("{:>5}", "-");
            }
        }
        text += "\n";
    }
    return text;
}

}  // namespace flash_attention::testing
