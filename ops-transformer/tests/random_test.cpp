// Random problems through the C ABI, judged by the reference.
//
//   FUSION_RANDOM_CASES=5000   how many (default below)
//   FUSION_RANDOM_SEED=7       another sequence of cases
//   FUSION_CASE='layout=...'   only this one
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "testing/judge.h"
#include "testing/random_cases.h"

namespace flash_attention::testing {
namespace {

#ifdef FUSION_REDUCED_TESTS
constexpr int64_t kDefaultCases = 60;
#else
constexpr int64_t kDefaultCases = 720;
#endif

uint64_t from_environment(const char* name, uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::stoull(text);
}

uint64_t seed() {
    return from_environment("FUSION_RANDOM_SEED", 1);
}
int64_t case_count() {
    return static_cast<int64_t>(from_environment("FUSION_RANDOM_CASES", kDefaultCases));
}

// The cells of the table in an order that spreads a small number of cases over all of them.
std::vector<Case> all_cases() {
    if (const char* text = std::getenv("FUSION_CASE")) return {parse_case(text)};
    std::vector<Case> cases;
    constexpr int64_t kStride = 100;  // has no divisor in common with the number of cells
    for (int64_t i = 0; i < case_count(); i++) {
        const int64_t round = i / cell_count(), cell = i % cell_count() * kStride % cell_count();
        cases.push_back(random_case(seed(), round * cell_count() + cell));
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

TEST(RandomDistribution, FillsTheTable) {
    std::vector<Case> cases;
    int64_t crossing = 0;
    for (int64_t i = 0; i < 720; i++) {
        cases.push_back(random_case(seed(), i));
        crossing += crosses_blocks(cases.back());
        EXPECT_EQ(why_illegal(cases.back()), "") << to_string(cases.back());
    }
    const std::string table = coverage_table(cases);
    std::cout << "FUSION_RANDOM_SEED=" << seed() << ", " << crossing << " of " << cases.size()
              << " cases cross two query blocks and two key blocks\n"
              << table;
    EXPECT_GE(crossing * 4, static_cast<int64_t>(cases.size()));
    for (const Cell& cell : cells()) {
        const auto filled =
            std::count_if(cases.begin(), cases.end(), [&cell](const Case& c) { return cell_of(c) == cell; });
        EXPECT_GT(filled, 0) << cell.layout << " " << name_of(cell.dtype) << " mode " << cell.mode << " mask "
                             << name_of(cell.mask);
    }
}

}  // namespace
}  // namespace flash_attention::testing
