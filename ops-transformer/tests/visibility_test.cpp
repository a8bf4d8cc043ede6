// The engine's visibility (integers only) against the worked grids and against counting pair by pair.
#include "engine/visibility.h"

#include <gtest/gtest.h>

#include <iostream>
#include <limits>
#include <random>

#include "worked_grids.h"

namespace flash_attention {
namespace {

using flash_attention::testing::worked_grids;
using flash_attention::testing::worked_prefix_grids;
using flash_attention::testing::WorkedGrid;

struct Drawn {
    SparseMode mode;
    int64_t pre, next, prefix, q_len, kv_len;

    Band band() const { return make_band(mode, pre, next, prefix, q_len, kv_len); }
};

std::ostream& operator<<(std::ostream& out, const Drawn& d) {
    return out << "mode " << static_cast<int>(d.mode) << " pre " << d.pre << " next " << d.next << " prefix "
               << d.prefix << " " << d.q_len << "x" << d.kv_len;
}

// The definition: distances are small, and pre, next and prefix are compared as they are.
bool defined_visible(const Drawn& d, int64_t i, int64_t j) {
    const int64_t left = i - j, left_from_end = (i - d.q_len) - (j - d.kv_len);
    switch (d.mode) {
        case SparseMode::kDefault:
            return left <= d.pre && -left <= d.next;
        case SparseMode::kAll:
            return true;
        case SparseMode::kLeftUpCausal:
            return left >= 0;
        case SparseMode::kRightDownCausal:
            return left_from_end >= 0;
        case SparseMode::kBand:
            return left_from_end <= d.pre && -left_from_end <= d.next;
        case SparseMode::kPrefix:
            return left_from_end >= 0 || j < d.prefix;
    }
    return false;
}

// Empty ranges may lie anywhere.
::testing::AssertionResult same(const KeyRange& got, const KeyRange& expected) {
    if (got.empty() && expected.empty()) return ::testing::AssertionSuccess();
    if (got.begin == expected.begin && got.end == expected.end) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "[" << got.begin << ", " << got.end << ") instead of [" << expected.begin
                                         << ", " << expected.end << ")";
}

TEST(Visibility, ShowsTheWorkedGrids) {
    std::vector<WorkedGrid> grids = worked_grids();
    grids.insert(grids.end(), worked_prefix_grids().begin(), worked_prefix_grids().end());
    for (const WorkedGrid& grid : grids) {
        const SparseMode mode = grid.mode == 6 ? SparseMode::kPrefix : static_cast<SparseMode>(grid.mode);
        const Drawn d{mode, grid.pre, grid.next, grid.prefix, grid.q_len(), grid.kv_len()};
        const Band band = d.band();
        for (int64_t i = 0; i < grid.q_len(); i++) {
            const KeyRange keys = visible_keys(band, i, grid.kv_len());
            for (int64_t j = 0; j < grid.kv_len(); j++) {
                EXPECT_EQ(keys.begin <= j && j < keys.end, grid.visible(i, j)) << d << " row " << i << " key " << j;
            }
        }
    }
}

// A default band shows everything; with a prefix, rows see more than the diagonal gives them.
TEST(Visibility, BandWithPrefix) {
    Band band;
    EXPECT_TRUE(same(visible_keys(band, 5, 9), {0, 9}));
    band.last = 2;  // causal to the bottom right corner of 4 x 6
    band.prefix = 4;
    for (int64_t i = 0; i < 4; i++) EXPECT_TRUE(same(visible_keys(band, i, 6), {0, std::max<int64_t>(i + 3, 4)}));
    band.last = -2;  // 6 x 4: the first rows see the prefix only
    band.prefix = 2;
    for (int64_t i = 0; i < 6; i++) EXPECT_TRUE(same(visible_keys(band, i, 4), {0, std::max<int64_t>(i - 1, 2)}));
    EXPECT_TRUE(same(any_visible(band, 0, 6, 4), {0, 4}));
    EXPECT_TRUE(same(all_visible(band, 0, 6, 4), {0, 2}));
    EXPECT_EQ(visible_pairs(band, 0, 6, 4), 2 + 2 + 2 + 2 + 3 + 4);
}

class DrawnBands {
  public:
    explicit DrawnBands(uint64_t seed) : random_(seed) {}

    Drawn draw() {
        Drawn d{static_cast<SparseMode>(below(6)), 0, 0, 0, 1 + below(40), below(41)};
        for (int64_t* number : {&d.pre, &d.next, &d.prefix}) *number = tokens(d.q_len + d.kv_len);
        return d;
    }
    int64_t below(int64_t end) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(end)); }

  private:
    int64_t tokens(int64_t length) {
        constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
        constexpr int64_t kExtremes[] = {kMost, kMost - 1, kLeast, kLeast + 1, 2147483647, -2147483648, 0};
        if (below(4) == 0) return kExtremes[below(7)];
        return below(2 * length + 1) - length;
    }
    std::mt19937_64 random_;
};

TEST(Visibility, AgreesWithCountingPairs) {
    constexpr uint64_t kSeed = 20240611;
    std::cout << "seed " << kSeed << "\n";
    DrawnBands drawn(kSeed);
    for (int round = 0; round < 20000; round++) {
        const Drawn d = drawn.draw();
        const Band band = d.band();
        const int64_t row_begin = drawn.below(d.q_len), row_end = row_begin + 1 + drawn.below(d.q_len - row_begin);
        KeyRange any{d.kv_len, 0}, all{0, d.kv_len};
        int64_t pairs = 0;
        for (int64_t i = row_begin; i < row_end; i++) {
            KeyRange keys{d.kv_len, 0};
            for (int64_t j = 0; j < d.kv_len; j++) {
                if (!defined_visible(d, i, j)) continue;
                keys = {std::min(keys.begin, j), j + 1};
                pairs++;
            }
            ASSERT_TRUE(same(visible_keys(band, i, d.kv_len), keys)) << "round " << round << " row " << i << " " << d;
            all = {std::max(all.begin, keys.begin), std::min(all.end, keys.end)};
            if (!keys.empty()) any = {std::min(any.begin, keys.begin), std::max(any.end, keys.end)};
        }
        const auto where = ::testing::Message()
                           << "round " << round << " rows " << row_begin << " to " << row_end << " " << d;
        ASSERT_TRUE(same(any_visible(band, row_begin, row_end, d.kv_len), any)) << where;
        ASSERT_TRUE(same(all_visible(band, row_begin, row_end, d.kv_len), all)) << where;
        ASSERT_EQ(visible_pairs(band, row_begin, row_end, d.kv_len), pairs) << where;
    }
}

// Lengths at the end of what is legal: nothing may overflow, and the counts have a closed form.
TEST(Visibility, LongSequences) {
    constexpr int64_t kLength = int64_t{1} << 20;
    const Band causal = make_band(SparseMode::kRightDownCausal, 0, 0, 0, kLength, kLength);
    EXPECT_EQ(visible_pairs(causal, 0, kLength, kLength), kLength * (kLength + 1) / 2);
    const Band all = make_band(SparseMode::kBand, std::numeric_limits<int64_t>::max(),
                               std::numeric_limits<int64_t>::max(), 0, kLength, kLength);
    EXPECT_EQ(visible_pairs(all, 0, kLength, kLength), kLength * kLength);
    const Band window =
        make_band(SparseMode::kBand, 99, 0, 0, kLength, kLength);  // 100 keys a row, fewer in the first 99
    EXPECT_EQ(visible_pairs(window, 0, kLength, kLength), 100 * kLength - 99 * 100 / 2);
    EXPECT_TRUE(same(any_visible(window, 1000, 1064, kLength), {901, 1064}));
    EXPECT_TRUE(same(all_visible(window, 1000, 1064, kLength), {964, 1001}));
    // A prefix of half the keys adds to each of the first rows what the diagonal has not reached.
    constexpr int64_t kHalf = kLength / 2;
    const Band prefix = make_band(SparseMode::kPrefix, 0, 0, kHalf, kLength, kLength);
    EXPECT_EQ(visible_pairs(prefix, 0, kLength, kLength), kLength * (kLength + 1) / 2 + kHalf * (kHalf - 1) / 2);
}

}  // namespace
}  // namespace flash_attention
