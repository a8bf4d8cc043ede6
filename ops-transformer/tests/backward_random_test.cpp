// Random backward problems through the C ABI, judged by the reference.
#include "random_run.h"
#include "testing/backward_judge.h"

namespace flash_attention::testing {
namespace {

TEST_P(RandomCases, GradientsAgreeWithTheReference) {
    GradientAccuracy accuracy;
    expect_right(chosen_cases(true, 1440, 120), [&](const Case& c) { return check_backward_case(c, &accuracy); });
    std::cout << accuracy.table();
}

INSTANTIATE_TEST_SUITE_P(Types, RandomCases, ::testing::Values(DType::kFp32, DType::kFp16, DType::kBf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// Of as many cases as the default run of forward has, which fill the tables.
TEST(RandomDistribution, FillsTheTables) {
    const std::vector<Case> cases = expect_filled_tables(true, 720, 1200);
    int64_t bias_gradients = 0, from_operator = 0, ropes = 0, sinks = 0, strided = 0;
    std::map<Version, int64_t> versions;
    for (const Case& c : cases) {
        bias_gradients += c.dpse == Dpse::kWanted;
        from_operator += c.given == Given::kOperator;
        versions[grad_version_of(c)]++;
        ropes += c.has(kDqRope);
        sinks += c.has(kDsink);
        for (const Argument gradient : {kDy, kDq, kDk, kDv}) strided += c.views[gradient] != View::kPacked;
    }
    std::cout << bias_gradients << " ask for the gradient of the bias, " << from_operator
              << " take the results of the forward operator, " << ropes << " have rope parts, " << sinks << " a sink\n";
    for (const auto& [version, calls] : versions) std::cout << calls << " call " << name_of(version) << "\n";
    const auto count = static_cast<int64_t>(cases.size());
    EXPECT_EQ(versions.size(), 9U);
    EXPECT_GE(bias_gradients * 5, count);
    EXPECT_GE(from_operator * 5, count);
    EXPECT_GE(sinks * 10, count);
    EXPECT_GE(ropes, 7);        // each mode of TND that takes them
    EXPECT_GE(strided, count);  // a third of four tensors
}

}  // namespace
}  // namespace flash_attention::testing
