// Random problems through the C ABI, judged by the reference.
//
//   FUSION_RANDOM_CASES=5000   how many (default below)
//   FUSION_RANDOM_SEED=7       another sequence of cases
//   FUSION_CASE='layout=...'   only this one
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <string>

#include "testing/judge.h"
#include "testing/random_cases.h"
#include "testing/reduced.h"

namespace flash_attention::testing {
namespace {

uint64_t from_environment(const char* name, uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::stoull(text);
}

uint64_t seed() {
    return from_environment("FUSION_RANDOM_SEED", 1);
}
int64_t case_count() {
    return static_cast<int64_t>(from_environment("FUSION_RANDOM_CASES", reduced(1920, 120)));
}

// Number i of a table's cases, in an order that spreads a small number over all cells.
int64_t spread(int64_t i, int64_t cells) {
    int64_t stride = 100;
    while (std::gcd(stride, cells) != 1) stride++;
    return i / cells * cells + i % cells * stride % cells;
}

// Three of eight cases come from the table of modes and masks, five from the larger one of modes and modifiers.
std::vector<Case> all_cases() {
    if (const char* text = std::getenv("FUSION_CASE")) return {parse_case(text)};
    std::vector<Case> cases;
    for (int64_t i = 0; i < case_count(); i++) {
        const int64_t eighths = i / 8, of_eight = i % 8;
        if (of_eight < 3) {
            cases.push_back(random_case(seed(), spread(eighths * 3 + of_eight, cell_count())));
        } else {
            cases.push_back(modifier_case(seed(), spread(eighths * 5 + of_eight - 3, modifier_cell_count())));
        }
    }
    return cases;
}

class RandomCases : public ::testing::TestWithParam<DType> {};

TEST_P(RandomCases, AgreeWithTheReference) {
    Accuracy accuracy;
    int64_t count = 0;
    for (const Case& c : all_cases()) {
        if (c.dtype != GetParam()) continue;
        count++;
        EXPECT_EQ(lines(check_case(c, &accuracy)), "");
    }
    std::cout << count << " cases, FUSION_RANDOM_SEED=" << seed() << "\n" << accuracy.table();
    RecordProperty("seed", std::to_string(seed()));
}

INSTANTIATE_TEST_SUITE_P(Types, RandomCases, ::testing::Values(DType::kFp32, DType::kFp16, DType::kBf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// Of the default run, whatever the environment asks for.
TEST(RandomDistribution, FillsTheTables) {
    std::vector<Case> cases;
    int64_t crossing = 0, with_modifiers = 0, with_several = 0;
    constexpr int64_t kFirst = 720, kSecond = 1200;
    for (int64_t i = 0; i < kFirst + kSecond; i++) {
        cases.push_back(i < kFirst ? random_case(seed(), i) : modifier_case(seed(), i - kFirst));
        const Case& c = cases.back();
        crossing += crosses_blocks(c);
        with_modifiers += modifier_count(c) > 0;
        with_several += modifier_count(c) > 1;
        EXPECT_EQ(why_illegal(c), "") << to_string(c);
    }
    const auto count = static_cast<int64_t>(cases.size());
    std::cout << "FUSION_RANDOM_SEED=" << seed() << ", " << crossing << " of " << count
              << " cases cross two query blocks and two key blocks, " << with_modifiers << " have modifiers, "
              << with_several << " several\n"
              << coverage_table(cases) << "\n"
              << modifier_table(cases);
    EXPECT_GE(crossing * 4, count);
    EXPECT_GE(with_several * 4, count);
    for (const Cell& cell : cells()) {
        const auto filled =
            std::count_if(cases.begin(), cases.end(), [&cell](const Case& c) { return cell_of(c) == cell; });
        EXPECT_GT(filled, 0) << cell.layout << " " << name_of(cell.dtype) << " mode " << cell.mode << " mask "
                             << name_of(cell.mask);
    }
    for (const ModifierCell& cell : modifier_cells()) {
        const auto filled =
            std::count_if(cases.begin(), cases.end(), [&cell](const Case& c) { return falls_into(c, cell); });
        EXPECT_GT(filled, 0) << cell.layout << " " << name_of(cell.dtype) << " mode " << cell.mode << " modifier "
                             << modifier_names()[cell.modifier];
    }
}

}  // namespace
}  // namespace flash_attention::testing
