// Random problems through the C ABI, judged by the reference.
#include "random_run.h"
#include "testing/judge.h"

namespace flash_attention::testing {
namespace {

TEST_P(RandomCases, AgreeWithTheReference) {
    Accuracy accuracy;
    expect_right(chosen_cases(false, 1920, 120), [&](const Case& c) { return check_case(c, &accuracy); });
    std::cout << accuracy.table();
}

INSTANTIATE_TEST_SUITE_P(Types, RandomCases, ::testing::Values(DType::kFp32, DType::kFp16, DType::kBf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// Of the default run, whatever the environment asks for.
TEST(RandomDistribution, FillsTheTables) {
    expect_filled_tables(false, 720, 1200);
}

}  // namespace
}  // namespace flash_attention::testing
