// Random choices of the case generator; the same on every machine.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>

namespace flash_attention::testing {

class Draw {
  public:
    Draw(uint64_t seed, int64_t index) : random_(seed * 0x9E3779B97F4A7C15U + static_cast<uint64_t>(index)) {}

    int64_t below(int64_t end) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(end)); }
    int64_t between(int64_t least, int64_t most) { return least + below(most - least + 1); }
    bool chance(double probability) { return std::uniform_real_distribution<double>()(random_) < probability; }
    template <class Value>
    Value one_of(std::initializer_list<Value> values) {
        return *(values.begin() + below(static_cast<int64_t>(values.size())));
    }
    uint64_t seed() { return random_() % 1'000'000; }

  private:
    std::mt19937_64 random_;
};

}  // namespace flash_attention::testing
