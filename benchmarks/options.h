// The command line of attention_bench.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
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

// Throws UsageError with the argument and the rule that it breaks.
Options parse_options(int argc, char** argv);

std::string help_text();

}  // namespace fusion_bench
