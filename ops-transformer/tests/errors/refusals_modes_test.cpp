// Sparse modes 6, 7 and 8 with one mistake in the prefix or the band: 161002 and the exact sentence. The legal calls
// have Sq 3, Skv 5 (dense, B 2) and the lengths q 3, 0, 4 and kv 5, 2, 4 (TND), N 4/2, D 8, float, without a mask.
// Numbers name entries of the list of known mistakes.
#include <gtest/gtest.h>

#include <limits>

#include "call.h"

namespace flash_attention::testing {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();

Call dense() {
    return dense_call();
}
Call tnd() {
    return varlen_call();
}

void set_prefix(Call& call, std::vector<int64_t> prefix) {
    call.sparse_mode = 6;
    call.mask = compressed_mask({3072, 2048});
    call.prefix = std::move(prefix);
}

void set_band(Call& call, int64_t mode, int64_t pre, int64_t next) {
    call.sparse_mode = mode;
    call.mask = compressed_mask();
    call.pre = pre;
    call.next = next;
}

// 5.20
TEST(RefusalsModes, PrefixOfDenseBatches) {
    expect_all_refused(
        dense_versions(), dense,
        {
            {"none",
             [](Call& c) {
                 set_prefix(c, {});
                 c.prefix.reset();
             },
             "prefixOptional cannot be empty for sparseMode 6"},
            {"empty", [](Call& c) { set_prefix(c, {}); }, "prefixOptional cannot be empty for sparseMode 6"},
            {"too many",
             [](Call& c) {
                 set_prefix(c, {3, 3, 3});
             },
             "prefixOptional has 3 entries: expected 2, one for each batch entry"},
            {"one for all", [](Call& c) { set_prefix(c, {3}); },
             "prefixOptional has 1 entries: expected 2, one for each batch entry"},
            {"too short",
             [](Call& c) {
                 c = dense_call("BSND", {.sq = 6, .skv = 10});
                 set_prefix(c, {4, 3});
             },
             "prefixOptional[1] is 3: expected 4..10 (Skv - Sq .. Skv)"},
            {"too long",
             [](Call& c) {
                 c = dense_call("BSND", {.sq = 6, .skv = 10});
                 set_prefix(c, {11, 3});
             },
             "prefixOptional[0] is 11: expected 4..10 (Skv - Sq .. Skv)"},
            {"too long, more rows than keys",
             [](Call& c) {
                 c = dense_call("SBH", {.sq = 6, .skv = 4});
                 set_prefix(c, {0, 5});
             },
             "prefixOptional[1] is 5: expected 0..4 (0 .. Skv)"},
            {"negative",
             [](Call& c) {
                 c = dense_call("BNSD", {.sq = 6, .skv = 4});
                 set_prefix(c, {-1, 0});
             },
             "prefixOptional[0] is -1: expected 0..4 (0 .. Skv)"},
            {"highest",
             [](Call& c) {
                 set_prefix(c, {3, kHighest});
             },
             "prefixOptional[1] is 9223372036854775807: expected 2..5 (Skv - Sq .. Skv)"},
            {"lowest",
             [](Call& c) {
                 set_prefix(c, {kLowest, 3});
             },
             "prefixOptional[0] is -9223372036854775808: expected 2..5 (Skv - Sq .. Skv)"},
        });
}

TEST(RefusalsModes, PrefixOfSequences) {
    expect_all_refused(tnd_versions(), tnd,
                       {
                           {"none",
                            [](Call& c) {
                                set_prefix(c, {});
                                c.prefix.reset();
                            },
                            "prefixOptional cannot be empty for sparseMode 6"},
                           {"sequences without rows count",
                            [](Call& c) {
                                set_prefix(c, {3, 3});
                            },
                            "prefixOptional has 2 entries: expected 3, one for each batch entry"},
                           {"too short",
                            [](Call& c) {
                                c = varlen_call({6, 3}, {10, 9});
                                set_prefix(c, {4, 5});
                            },
                            "prefixOptional[1] is 5: expected 6..9 (Skv - Sq .. Skv)"},
                           {"too long, more rows than keys",
                            [](Call& c) {
                                c = varlen_call({6, 3}, {4, 9});
                                set_prefix(c, {5, 9});
                            },
                            "prefixOptional[0] is 5: expected 0..4 (0 .. Skv)"},
                           {"negative",
                            [](Call& c) {
                                c = varlen_call({6, 6}, {9, 4});
                                set_prefix(c, {9, -1});
                            },
                            "prefixOptional[1] is -1: expected 0..4 (0 .. Skv)"},
                       });
}

// 5.19: the band is that of the last sequence with rows.
TEST(RefusalsModes, BandOfMode7) {
    expect_all_refused(tnd_versions(), tnd,
                       {
                           {"pre",
                            [](Call& c) {
                                c = varlen_call({2, 3}, {4, 5});
                                set_band(c, 7, 4, 0);
                            },
                            "sparseMode 7: batch 1 has Sq 3, Skv 5: its band needs preTokens >= 5, nextTokens <= 0 and "
                            "nextTokens >= -2, got preTokens 4 and nextTokens 0"},
                           {"next above 0",
                            [](Call& c) {
                                c = varlen_call({2, 3}, {4, 5});
                                set_band(c, 7, 5, 1);
                            },
                            "sparseMode 7: batch 1 has Sq 3, Skv 5: its band needs preTokens >= 5, nextTokens <= 0 and "
                            "nextTokens >= -2, got preTokens 5 and nextTokens 1"},
                           {"next below",
                            [](Call& c) {
                                c = varlen_call({2, 3}, {4, 5});
                                set_band(c, 7, 5, -3);
                            },
                            "sparseMode 7: batch 1 has Sq 3, Skv 5: its band needs preTokens >= 5, nextTokens <= 0 and "
                            "nextTokens >= -2, got preTokens 5 and nextTokens -3"},
                           {"followed by a sequence without rows",
                            [](Call& c) {
                                c = varlen_call({2, 3, 0}, {4, 5, 9});
                                set_band(c, 7, 4, -1);
                            },
                            "sparseMode 7: batch 1 has Sq 3, Skv 5: its band needs preTokens >= 5, nextTokens <= 0 and "
                            "nextTokens >= -2, got preTokens 4 and nextTokens -1"},
                           {"extremes",
                            [](Call& c) {
                                c = varlen_call({3}, {5});
                                set_band(c, 7, kHighest, kLowest);
                            },
                            "sparseMode 7: batch 0 has Sq 3, Skv 5: its band needs preTokens >= 5, nextTokens <= 0 and "
                            "nextTokens >= -2, got preTokens 9223372036854775807 and nextTokens -9223372036854775808"},
                           {"rows without keys elsewhere",
                            [](Call& c) {
                                c = varlen_call({9, 3}, {4, 5});
                                set_band(c, 7, 5, 0);
                            },
                            "sparseMode 7: batch 0 has Sq 9 > Skv 4 (rows without visible key)"},
                       });
}

// 5.19: the band is that of the first sequence with rows.
TEST(RefusalsModes, BandOfMode8) {
    expect_all_refused(tnd_versions(), tnd,
                       {
                           {"pre",
                            [](Call& c) {
                                c = varlen_call({3, 2}, {5, 4});
                                set_band(c, 8, 4, 0);
                            },
                            "sparseMode 8: batch 0 has Sq 3, Skv 5: its band needs preTokens >= 5 and nextTokens >= "
                            "-2, got preTokens 4 and nextTokens 0"},
                           {"next",
                            [](Call& c) {
                                c = varlen_call({3, 2}, {5, 4});
                                set_band(c, 8, 5, -3);
                            },
                            "sparseMode 8: batch 0 has Sq 3, Skv 5: its band needs preTokens >= 5 and nextTokens >= "
                            "-2, got preTokens 5 and nextTokens -3"},
                           {"more rows than keys",
                            [](Call& c) {
                                c = varlen_call({7, 2}, {5, 4});
                                set_band(c, 8, 5, 1);
                            },
                            "sparseMode 8: batch 0 has Sq 7, Skv 5: its band needs preTokens >= 5 and nextTokens >= 2, "
                            "got preTokens 5 and nextTokens 1"},
                           {"preceded by a sequence without rows",
                            [](Call& c) {
                                c = varlen_call({0, 3, 2}, {1, 5, 4});
                                set_band(c, 8, 4, 9);
                            },
                            "sparseMode 8: batch 1 has Sq 3, Skv 5: its band needs preTokens >= 5 and nextTokens >= "
                            "-2, got preTokens 4 and nextTokens 9"},
                           {"extremes",
                            [](Call& c) {
                                c = varlen_call({3}, {5});
                                set_band(c, 8, kLowest, kHighest);
                            },
                            "sparseMode 8: batch 0 has Sq 3, Skv 5: its band needs preTokens >= 5 and nextTokens >= "
                            "-2, got preTokens -9223372036854775808 and nextTokens 9223372036854775807"},
                       });
}

}  // namespace
}  // namespace flash_attention::testing
