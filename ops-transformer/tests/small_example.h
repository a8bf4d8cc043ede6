// Two rows, three keys, one head: the example whose results are known to six digits.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "reference/score.h"

namespace flash_attention::reference {

inline ScoreArguments small_example() {
    ScoreArguments a;
    a.input_layout = "BSND";
    a.query = {{1, 2, 1, 2}, {1, 0, 0, 2}};
    a.key = {{1, 3, 1, 2}, {1, 1, 0, 1, 2, 0}};
    a.value = {{1, 3, 1, 2}, {1, 0, 0, 1, 2, 2}};
    a.scale_value = 0.5;
    return a;
}

// The example's results are rounded to six digits.
inline void expect_near(const std::vector<double>& got, const std::vector<double>& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); i++) EXPECT_NEAR(got[i], expected[i], 5.1e-7) << "at " << i;
}

}  // namespace flash_attention::reference
