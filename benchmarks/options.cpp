#include "options.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <type_traits>

namespace fusion_bench {
namespace {

using flash_attention::testing::Case;

constexpr int kMaxRuns = 1000000, kMaxThreads = 1024;
constexpr double kMaxSeconds = 3600;

template <class Number>
Number number_in(std::string_view option, std::string_view text, Number least, Number most) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value >= least && value <= most))
        throw UsageError(fmt::format("{} {}: must be a {} from {} to {}", option, text,
                                     std::is_integral_v<Number> ? "whole number" : "number", least, most));
    return value;
}

void add_suite(Options& options, std::string_view name) {
    const Suite* const suite = find_suite(name);
    if (suite == nullptr) {
        std::string known;
        for (const Suite& s : suites()) known += fmt::format("{}{}", known.empty() ? "" : ", ", s.name);
        throw UsageError(fmt::format("--suite {}: must be one of {}", name, known));
    }
    if (suite->entries != nullptr) {
        for (Entry& entry : suite->entries()) options.entries.push_back(std::move(entry));
    }
    if (suite->elementwise != nullptr) {
        for (const ElementwiseCase& c : suite->elementwise()) options.elementwise.push_back(c);
    }
}

bool empty(const Options& options) {
    return options.entries.empty() && options.elementwise.empty();
}

}  // namespace

Case legal_case(std::string_view text) {
    Case c;
    try {
        c = flash_attention::testing::parse_case(text);
    } catch (const std::invalid_argument& error) {
        throw UsageError(fmt::format("\"{}\": {}", text, error.what()));
    }
    const std::string problem = flash_attention::testing::why_illegal(c);
    if (!problem.empty()) throw UsageError(fmt::format("\"{}\": the operator refuses it: {}", text, problem));
    return c;
}

int whole_number(std::string_view option, std::string_view text, int least, int most) {
    return number_in<int>(option, text, least, most);
}

Options parse_options(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; i++) {
        const std::string_view argument = argv[i];
        auto value = [&]() -> std::string_view {
            if (i + 1 == argc) throw UsageError(fmt::format("{}: a value must follow", argument));
            return argv[++i];
        };
        constexpr std::string_view kSketches = "--against-sketches";
        if (argument == "--suite") {
            add_suite(options, value());
        } else if (argument == "--only") {
            options.only = value();
        } else if (argument == "--runs") {
            options.runs = whole_number(argument, value(), 1, kMaxRuns);
        } else if (argument == "--seconds") {
            options.seconds = number_in<double>(argument, value(), 0.0, kMaxSeconds);
        } else if (argument == "--threads") {
            options.threads = whole_number(argument, value(), 1, kMaxThreads);
        } else if (argument == "--json") {
            options.json = value();
        } else if (argument == kSketches) {
            options.sketches = FUSION_SKETCHES_DIR;
        } else if (argument.substr(0, kSketches.size() + 1) == "--against-sketches=") {
            options.sketches = argument.substr(kSketches.size() + 1);
        } else if (argument == "--list") {
            options.list = true;
        } else if (argument == "--help" || argument == "-h") {
            options.help = true;
        } else if (argument.substr(0, 1) == "-") {
            throw UsageError(fmt::format("{}: there is no such option", argument));
        } else {
            options.entries.push_back({.description = legal_case(argument)});
        }
    }
    if (options.list && empty(options)) {
        for (const Suite& suite : suites()) add_suite(options, suite.name);
    }
    if (options.help) return options;
    if (empty(options)) throw UsageError("nothing to measure: a problem string or --suite must be given");
    auto not_wanted = [&options](const std::string& text) { return text.find(options.only) == std::string::npos; };
    std::erase_if(options.entries, [&](const Entry& entry) { return not_wanted(to_string(entry.description)); });
    std::erase_if(options.elementwise, [&](const ElementwiseCase& c) { return not_wanted(to_string(c)); });
    if (empty(options))
        throw UsageError(fmt::format("--only {}: must be a part of at least one of the cases", options.only));
    return options;
}

std::string help_text() {
    std::string text =
        "usage: attention_bench [options] [--suite <name>]... [\"<problem string>\"]...\n"
        "\n"
        "Times phase two of the attention operators and compares it with what the core can multiply and add at most,\n"
        "measured in between on the same core. Problem strings: \"layout=BNSD dtype=bf16 n=8/2 d=128 q=512 kv=512 "
        "...\";\n"
        "all keys are listed in ops-transformer/testing/case.h. ASCEND_CPU_ISA chooses the kernels.\n"
        "\n"
        "suites:\n";
    for (const Suite& suite : suites()) text += fmt::format("  {:<24}{}\n", suite.name, suite.about);
    return text +
           "\n"
           "options:\n"
           "  --only <text>           only cases with this text in their problem string, as in --only dtype=bf16\n"
           "  --runs <N>              at least N rounds a case, in each of which everything that is compared runs "
           "once\n"
           "                          (default 9, or 5 where nothing is compared)\n"
           "  --seconds <S>           and at least S seconds a case (default 0.5)\n"
           "  --threads <N>           threads of the operator (default 1, kept on one core)\n"
           "  --json <file>           writes the results as JSON too\n"
           "  --against-sketches[=<dir>]\n"
           "                          times the sketched kernels in <dir> by turns with the operator where they can "
           "do\n"
           "                          the case (default: ../shared/sketches beside the source tree)\n"
           "  --list                  prints the problem strings that would be measured, and their partners\n"
           "  --help\n"
           "\n"
           "columns:\n"
           "  ms                      processor time for one thread, else wall time; the best of all runs\n"
           "  GFLOP/s                 useful work: for each head and pair that mode and window let see 2 (D + Dv), "
           "and\n"
           "                          2 (3 D + 2 Dv) of backward, rope part included in D; the content of an explicit\n"
           "                          mask does not lessen it\n"
           "  % peak                  of the multiply-adds of all threads; bf16: of its dot products if the kernels "
           "have\n"
           "                          them\n"
           "  partner                 its GFLOP/s in its best run\n"
           "  share, floor            the case's speed as a part of its partner's in the same round, the median of "
           "all\n"
           "                          rounds, and what it should at least be\n"
           "  sketch %, share         the sketch's part of the same peak, and the operator's speed as a part of the\n"
           "                          sketch's, like share\n"
           "  GB/s, % read            of key and value, and as a part of a plain sum over both, like share\n"
           "columns of ring and dropout:\n"
           "  GB/s, floor             read and written, or of random numbers, and what it should at least be of each\n"
           "                          thread\n"
           "  sum GB/s, share         of a plain sum of two arrays of as many bytes, and the operator's speed as a "
           "part\n"
           "                          of it, like share above\n"
           "\n"
           "exit code: 0, or 1 when a call fails, or 2 for wrong arguments\n";
}

}  // namespace fusion_bench
