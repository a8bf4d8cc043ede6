// What the tests with random problems share.
//
//   FUSION_RANDOM_CASES=5000   how many (default below)
//   FUSION_RANDOM_SEED=7       another sequence of cases
//   FUSION_CASE='layout=...'   only this one
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "testing/random_cases.h"
#include "testing/reduced.h"

namespace flash_attention::testing {

inline uint64_t from_environment(const char* name, uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::stoull(text);
}

inline uint64_t random_seed() {
    return from_environment("FUSION_RANDOM_SEED", 1);
}

// A case of the environment belongs to the tests of its pass.
inline std::vector<Case> chosen_cases(bool backward, int64_t usual, int64_t smaller) {
    if (const char* text = std::getenv("FUSION_CASE")) {
        const Case only = parse_case(text);
        return only.backward == backward ? std::vector{only} : std::vector<Case>{};
    }
    const auto count = from_environment("FUSION_RANDOM_CASES", static_cast<uint64_t>(reduced(usual, smaller)));
    return mixed_cases(random_seed(), static_cast<int64_t>(count), backward);
}

// `first` cases of the table of modes and masks and `second` of that of modes and modifiers; prints how many fall into
// each cell, and demands that all are legal and no cell is empty.
inline std::vector<Case> expect_filled_tables(bool backward, int64_t first, int64_t second) {
    std::vector<Case> cases;
    int64_t crossing = 0, with_modifiers = 0, with_several = 0, from_seed = 0;
    for (int64_t i = 0; i < first + second; i++) {
        cases.push_back(i < first ? random_case(random_seed(), i, backward)
                                  : modifier_case(random_seed(), i - first, backward));
        const Case& c = cases.back();
        crossing += crosses_blocks(c);
        with_modifiers += modifier_count(c) > 0;
        with_several += modifier_count(c) > 1;
        from_seed += c.drop == DropShape::kFromSeed;
        EXPECT_EQ(why_illegal(c), "") << to_string(c);
    }
    const auto count = static_cast<int64_t>(cases.size());
    std::cout << "FUSION_RANDOM_SEED=" << random_seed() << ", " << crossing << " of " << count
              << " cases cross two query blocks and two key blocks, " << with_modifiers << " have modifiers, "
              << with_several << " several, " << from_seed << " make the bits of dropout from a seed\n"
              << coverage_table(cases) << "\n"
              << modifier_table(cases);
    EXPECT_GE(crossing * 4, count);
    EXPECT_GE(with_several * 4, count);
    EXPECT_GE(from_seed * 80, count);
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
    return cases;
}

// One test for each element type.
class RandomCases : public ::testing::TestWithParam<DType> {
  protected:
    // `check(c)` gives sentences about what is wrong.
    template <class Check>
    void expect_right(const std::vector<Case>& cases, Check check) {
        int64_t count = 0;
        for (const Case& c : cases) {
            if (c.dtype != GetParam()) continue;
            count++;
            std::string wrong;
            for (const std::string& sentence : check(c)) wrong += sentence + "\n";
            EXPECT_EQ(wrong, "");
        }
        std::cout << count << " cases, FUSION_RANDOM_SEED=" << random_seed() << "\n";
        RecordProperty("seed", std::to_string(random_seed()));
    }
};

}  // namespace flash_attention::testing
