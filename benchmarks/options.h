// The command line of attention_bench.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "suites.h"

namespace fusion_bench {

struct UsageError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Options {
    std::vector<Entry> entries;  // of all suites and problem strings, in the order given
    std::vector<ElementwiseCase> elementwise;
    std::string only;
    std::optional<int> runs;
    double seconds = 0.5;
    int threads = 1;
    std::optional<std::string> json;
    std::optional<std::string> sketches;  // the folder
    bool list = false, help = false;
};

// A problem string that the operator accepts, and the number behind an option. Both throw UsageError.
flash_attention::testing::Case legal_case(std::string_view text);
int whole_number(std::string_view option, std::string_view text, int least, int most);

// Throws UsageError with the argument and the rule that it breaks.
Options parse_options(int argc, char** argv);

std::string help_text();

}  // namespace fusion_bench
