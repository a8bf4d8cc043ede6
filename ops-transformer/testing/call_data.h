// What the files that fill a call with numbers share.
#pragma once

#include <initializer_list>
#include <limits>
#include <random>
#include <vector>

#include "testing/call.h"

namespace flash_attention::testing {

using Random = std::mt19937_64;

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

inline double any_of(Random& random, std::initializer_list<double> values) {
    return *(values.begin() + static_cast<int64_t>(random() % values.size()));
}

inline int64_t below(Random& random, int64_t end) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(end));
}

// A number that no softmax survives.
inline double poison(Random& random) {
    return any_of(random, {kNan, kInfinity, -kInfinity});
}

// Normal, or uniform in [0, 1), times a factor.
void fill(std::vector<double>& values, Random& random, Values kind, double factor);

// For large logits the query takes the first factor and the key the second: sqrt(d) standard deviations of q.k times
// the usual scale then give about 400.
inline double query_factor(const Case& c) {
    return c.values == Values::kLarge ? 40.0 : 1.0;
}
inline double key_factor(const Case& c) {
    return c.values == Values::kLarge ? 10.0 : 1.0;
}

// A few elements anywhere: rows that see them become NaN or infinite as the formulas say, all others stay as they were.
void make_visible_nan(std::vector<double>& values, Random& random);

// An expanded view repeats one slice, so the values must repeat as well.
void apply_expansion(View view, const std::vector<int64_t>& shape, auto& values) {
    if (values.empty()) return;
    const auto count = static_cast<int64_t>(values.size());
    if (view == View::kExpand) {
        const int64_t slice = count / shape[0];
        for (int64_t i = slice; i < count; i++) values[i] = values[i - slice];
    } else if (view == View::kExpandLast) {
        for (int64_t i = 0; i < count; i++) values[i] = values[i - i % shape.back()];
    }
}

// Bias, start indices, drop mask, sink and rope parts (call_modifiers.cpp), once masks and lists are there. Each tensor
// has random numbers of its own, so that the others stay as they are when one is added to a case.
void add_modifiers(const Case& c, reference::ScoreArguments& a);

}  // namespace flash_attention::testing
