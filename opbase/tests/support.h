// What several tests need: the queued error text, and random numbers that can be repeated.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

#include "acl/acl_rt.h"

// Takes the newest queued text of this thread; "" when there is none. Reading clears the queue.
inline std::string take_error() {
    const char* text = aclGetRecentErrMsg();
    return text != nullptr ? text : "";
}

// A generator with a new seed for each run, printed; FUSION_RANDOM_SEED repeats a run.
inline std::mt19937_64 make_rng() {
    const char* asked = std::getenv("FUSION_RANDOM_SEED");
    const uint64_t seed = asked != nullptr ? std::strtoull(asked, nullptr, 10) : std::random_device()();
    std::cout << "FUSION_RANDOM_SEED=" << seed << std::endl;
    return std::mt19937_64(seed);
}

// In [low, high].
inline int64_t random_int(std::mt19937_64& rng, int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng);
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << "text: " << (text)
