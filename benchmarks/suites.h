// The standard cases of attention_bench.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "elementwise.h"
#include "testing/case.h"

namespace fusion_bench {

// One line of the table. With a partner, its figure is the speed as a share of the partner's, measured by turns.
struct Entry {
    flash_attention::testing::Case description;
    std::optional<flash_attention::testing::Case> partner = {};
    double floor = 0;                 // of the share; 0: none
    bool against_one_thread = false;  // the partner is the same case on one thread
    bool reads_keys = false;          // few query rows: the limit is reading key and value, not arithmetic
};

struct Suite {
    const char* name;
    const char* about;
    // One of both.
    std::vector<Entry> (*entries)();
    std::vector<ElementwiseCase> (*elementwise)() = nullptr;
};

const std::vector<Suite>& suites();

// nullptr when there is none of that name.
const Suite* find_suite(std::string_view name);

}  // namespace fusion_bench
