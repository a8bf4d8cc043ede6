// What the figures of attention_bench rest on: counted work, the standard cases, turns and medians, the command line
// and the report.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "elementwise.h"
#include "measure.h"
#include "options.h"
#include "peak.h"
#include "prepared_case.h"
#include "report.h"
#include "testing/call.h"
#include "testing/call_memory.h"
#include "testing/random_cases.h"
#include "testing/reduced.h"
#include "work.h"

namespace fusion_bench {
namespace {

namespace testing = flash_attention::testing;
namespace reference = flash_attention::reference;

constexpr uint64_t kSeed = 1;

TEST(Work, CountsThePairsThatTheReferenceSees) {
    int64_t partly = 0;
    for (int64_t index = 0; index < testing::cell_count(); index++) {
        const testing::Case c = testing::random_case(kSeed, index);
        const reference::ScoreArguments arguments = visibility_of(c);
        int64_t pairs = 0, all = 0;
        for (const reference::Sequence& s : reference::sequences_of(arguments)) {
            all += s.q_len * s.kv_len;
            for (int64_t i = 0; i < s.q_len; i++) {
                for (int64_t j = 0; j < s.kv_len; j++) pairs += reference::sees(arguments, s, 0, i, j);
            }
        }
        EXPECT_EQ(shown_pairs(c), pairs) << to_string(c) << ", seed " << kSeed;
        partly += pairs != 0 && pairs != all;
    }
    EXPECT_GT(partly, testing::cell_count() / 4);
}

TEST(Work, CountsFeaturesHeadsAndBatches) {
    // Causal: 10 pairs of 4 rows and 4 keys.
    EXPECT_EQ(useful_flops(testing::parse_case("b=3 n=6/2 d=32 dv=16 q=4 kv=4 mode=3 mask=compressed")),
              2.0 * 10 * 3 * 6 * (32 + 16));
    EXPECT_EQ(
        useful_flops(testing::parse_case("layout=TND dtype=bf16 n=2 d=32 rope=8 q=4,1 kv=4,5 mode=3 mask=compressed")),
        2.0 * (10 + 5) * 2 * (32 + 8 + 32));
    // What an explicit mask hides is not known before it is read.
    EXPECT_EQ(useful_flops(testing::parse_case("n=1 d=8 q=4 kv=4 mode=1 mask=2d:random")), 2.0 * 16 * (8 + 8));
}

TEST(Work, CountsFiveProductsOfBackward) {
    // Scores, dQ and dK have 32 features, dV and the gradient of the weights 16.
    EXPECT_EQ(useful_flops(testing::parse_case("b=3 n=6/2 d=32 dv=16 q=4 kv=4 mode=3 mask=compressed pass=backward")),
              2.0 * 10 * 3 * 6 * (32 + 16 + 16 + 32 + 32));
    EXPECT_EQ(useful_flops(testing::parse_case(
                  "layout=TND dtype=bf16 n=2 d=32 rope=8 q=4,1 kv=4,5 mode=3 mask=compressed pass=backward")),
              2.0 * (10 + 5) * 2 * (3 * (32 + 8) + 2 * 32));
}

std::vector<Entry> entries_of(const Suite& suite) {
    return suite.entries == nullptr ? std::vector<Entry>() : suite.entries();
}

TEST(Suites, HoldLegalCasesAndPartnersWithTheSameWork) {
    for (const Suite& suite : suites()) {
        const std::vector<Entry> entries = entries_of(suite);
        EXPECT_EQ(entries.empty(), suite.elementwise != nullptr) << suite.name;
        const bool backward = std::string_view(suite.name).substr(0, 8) == "backward";
        for (const Entry& entry : entries) {
            const std::string text = to_string(entry.description);
            EXPECT_EQ(entry.description.backward, backward) << text;
            EXPECT_EQ(why_illegal(entry.description), "") << text;
            EXPECT_EQ(entry.floor > 0, entry.partner || entry.against_one_thread) << text;
            if (!entry.partner) continue;
            EXPECT_EQ(why_illegal(*entry.partner), "") << text;
            EXPECT_EQ(entry.partner->dtype, entry.description.dtype) << text;
            EXPECT_EQ(entry.partner->backward, backward) << text;
            EXPECT_EQ(useful_flops(*entry.partner), useful_flops(entry.description)) << text;
        }
    }
}

// The same case with fewer positions, which the operators have to accept just as well.
testing::Case shortened(testing::Case c) {
    constexpr int64_t kTimes = 32;
    c.batch = std::min<int64_t>(c.batch, 2);
    for (std::vector<int64_t>* lengths : {&c.q, &c.kv}) {
        for (int64_t& length : *lengths) length = std::max<int64_t>(length / kTimes, 1);
    }
    return c;
}

TEST(Suites, HoldCasesThatTheOperatorsRun) {
    std::set<std::string> all;
    for (const Suite& suite : suites()) {
        for (const Entry& entry : entries_of(suite)) {
            // Every kind of case is there in every type.
            if (testing::reduced_tests() && entry.description.dtype != testing::DType::kBf16) continue;
            all.insert(to_string(shortened(entry.description)));
            if (entry.partner) all.insert(to_string(shortened(*entry.partner)));
        }
    }
    for (const std::string& text : all) {
        try {
            EXPECT_GE(PreparedCase(testing::parse_case(text)).run(wall_time), 0) << text;
        } catch (const std::runtime_error& error) {
            ADD_FAILURE() << text << ": " << error.what();
        }
    }
}

TEST(Suites, HoldElementwiseCasesOfEveryType) {
    std::vector<std::string> found;
    for (const Suite& suite : suites()) {
        if (suite.elementwise == nullptr) continue;
        for (const ElementwiseCase& c : suite.elementwise()) found.push_back(to_string(c));
    }
    EXPECT_EQ(found, (std::vector<std::string>{"operator=ring layout=SBH dtype=fp32 n=8 d=64 q=4096",
                                               "operator=ring layout=SBH dtype=fp32 n=8 d=128 q=4096",
                                               "operator=ring layout=SBH dtype=fp16 n=8 d=64 q=4096",
                                               "operator=ring layout=SBH dtype=fp16 n=8 d=128 q=4096",
                                               "operator=ring layout=SBH dtype=bf16 n=8 d=64 q=4096",
                                               "operator=ring layout=SBH dtype=bf16 n=8 d=128 q=4096",
                                               "operator=dropout bits=1048576", "operator=dropout bits=67108864"}));
}

TEST(Elementwise, RunsAndCountsBytes) {
    testing::stream();  // starts the runtime
    const RingRun ring({testing::DType::kBf16, 64, 2, 32});
    EXPECT_GE(ring.run(wall_time), 0);
    // Two inputs and an output, each with 64 * 2 rows of 32 features of 2 bytes and two statistics of 8 floats.
    EXPECT_EQ(ring.bytes(), 3.0 * 64 * 2 * (32 * 2 + 2 * 8 * 4));
    const DropoutRun dropout(1024);
    EXPECT_GE(dropout.run(wall_time), 0);
    EXPECT_EQ(dropout.random_bytes(), 4096);
    const SumRun sum(1e6);
    EXPECT_GE(sum.run(wall_time), 0);
    EXPECT_GE(sum.bytes(), 1e6);
    EXPECT_LT(sum.bytes(), 1.3e6);
}

// Gives the times of a list, one after another, and notes its name.
Contender synthetic(char name, double work, std::vector<double> seconds, std::string& order) {
    return {.run =
                [=, &order, at = size_t{0}]() mutable {
                    order += name;
                    return seconds.at(at++);
                },
            .work = work};
}

TEST(Turns, GoBackwardsEverySecondRoundAndKeepAllTimes) {
    std::string order;
    std::vector<Contender> contenders{synthetic('a', 6, {1, 2, 4}, order), synthetic('b', 3, {2, 8, 1}, order),
                                      synthetic('c', 1, {1, 1, 1}, order)};
    EXPECT_EQ(measure_by_turns(contenders, nullptr, {.rounds = 3, .seconds = 0}), 0);
    EXPECT_EQ(order, "abccbaabc");
    EXPECT_EQ(contenders[0].seconds, (std::vector<double>{1, 2, 4}));
    EXPECT_EQ(contenders[0].best(), 1);
    EXPECT_EQ(contenders[1].best(), 1);
    // In the rounds 6/1 : 3/2, 6/2 : 3/8 and 6/4 : 3/1, while best times would give 2.
    EXPECT_EQ(median_ratio(contenders[0], contenders[1]), 4);
    EXPECT_EQ(median_ratio(contenders[1], contenders[0]), 0.25);
}

TEST(Turns, TakeTheMeanOfTheMiddleOfAnEvenNumber) {
    std::string order;
    std::vector<Contender> contenders{synthetic('a', 1, {1, 1, 1, 1}, order), synthetic('b', 1, {1, 8, 2, 4}, order)};
    EXPECT_GT(measure_by_turns(contenders, multiply_add_portable, {.rounds = 4, .seconds = 0}), 0);
    EXPECT_EQ(median_ratio(contenders[0], contenders[1]), 3);
}

double best_peak(const std::string& table) {
    double best = 0;
    for (int run = 0; run < 5; run++) best = std::max(best, measure_peak(peak_loop(table, testing::DType::kFp32)));
    return best;
}

TEST(Peak, GrowsWithTheRegisters) {
    const double portable = best_peak("portable");
    EXPECT_GT(portable, 1e8);  // the slowest processors of today do several times as much
    // Twice the width and both operations in one give a factor of two or more; noise may take a part of it.
    const std::vector<std::string> tables = available_tables();
    if (tables.front() != "portable") {
        EXPECT_GT(best_peak(tables.front()), 1.2 * portable);
    }
}

std::string refusal(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "attention_bench");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    try {
        parse_options(static_cast<int>(argv.size()), argv.data());
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

TEST(Options, AreRefusedWithArgumentAndRule) {
    EXPECT_EQ(refusal({}), "nothing to measure: a problem string or --suite must be given");
    EXPECT_EQ(refusal({"--suite", "fast"}),
              "--suite fast: must be one of plain, shares, threads, decode, backward, backward-shares, "
              "backward-threads, ring, dropout");
    EXPECT_EQ(refusal({"--suite"}), "--suite: a value must follow");
    EXPECT_EQ(refusal({"--runs", "0"}), "--runs 0: must be a whole number from 1 to 1000000");
    EXPECT_EQ(refusal({"--runs", "2.5"}), "--runs 2.5: must be a whole number from 1 to 1000000");
    EXPECT_EQ(refusal({"--threads", "-1"}), "--threads -1: must be a whole number from 1 to 1024");
    EXPECT_EQ(refusal({"--seconds", "nan"}), "--seconds nan: must be a number from 0 to 3600");
    EXPECT_EQ(refusal({"--fast"}), "--fast: there is no such option");
    EXPECT_EQ(refusal({"q=64", "--only", "d=17"}), "--only d=17: must be a part of at least one of the cases");
    EXPECT_EQ(refusal({"d=x"}), "\"d=x\": d=x: \"x\" is not a number of its kind");
    EXPECT_EQ(refusal({"keep=2 drop=exact"}), "\"keep=2 drop=exact\": the operator refuses it: keep must be in (0, 1]");
}

TEST(Options, AreTaken) {
    EXPECT_EQ(refusal({"q=64", "--suite", "decode", "--runs", "1", "--seconds", "0.25", "--threads", "2",
                       "--against-sketches=there", "--json", "out.json", "--only", "n"}),
              "");
    EXPECT_EQ(refusal({"--suite", "ring", "--only", "dtype=bf16", "--suite", "dropout"}), "");
    EXPECT_EQ(refusal({"--list"}), "");
    EXPECT_EQ(refusal({"--help"}), "");
}

TEST(Options, ChooseAmongAllCases) {
    std::string arguments[] = {"attention_bench", "--suite", "ring",   "q=64 dtype=bf16",
                               "--suite",         "dropout", "--only", "dtype=bf16"};
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    const Options options = parse_options(static_cast<int>(argv.size()), argv.data());
    EXPECT_EQ(options.entries.size(), 1U);
    EXPECT_EQ(options.elementwise.size(), 2U);
    EXPECT_EQ(options.runs, std::nullopt);
}

TEST(Report, NamesEveryFigureInJson) {
    Result result{.description = "q=64", .threads = 2, .seconds = 0.5, .flops = 1e9, .peak = 8e9};
    result.share = {.partner = "q=32", .threads = 1, .seconds = 0.25, .flops = 5e8, .share = 0.9375, .floor = 0.5};
    result.sketch = {.seconds = 0.25, .share = 0.75};
    result.reading = {.bytes = 1e9, .share = 0.5};
    ElementwiseResult ring{.description = "operator=ring", .seconds = 0.5, .bytes = 1e9};
    ring.sum = {.speed = 4e9, .share = 0.875};
    const ElementwiseResult dropout{.description = "operator=dropout", .seconds = 0.25, .bytes = 1e9, .floor = 1e9};
    const auto all = nlohmann::json::parse(to_json({"A CPU", "avx2", "g++", 1}, {result}, {ring, dropout}));
    EXPECT_EQ(all["processor"], "A CPU");
    EXPECT_EQ(all["results"], nlohmann::json::parse(R"([
        {"case": "q=64", "threads": 2, "seconds": 0.5, "gflops": 2.0, "peak_gflops": 8.0, "percent_of_peak": 25.0,
         "partner": {"case": "q=32", "threads": 1, "seconds": 0.25}, "share": 0.9375, "floor": 0.5,
         "sketch_percent_of_peak": 50.0, "share_of_sketch": 0.75,
         "gigabytes_per_second": 2.0, "percent_of_reading": 50.0},
        {"case": "operator=ring", "threads": 1, "seconds": 0.5, "gigabytes_per_second": 2.0,
         "sum_gigabytes_per_second": 4.0, "share_of_sum": 0.875},
        {"case": "operator=dropout", "threads": 1, "seconds": 0.25, "gigabytes_per_second": 4.0,
         "floor_of_thread": 1.0}])"));
}

TEST(Report, FillsEveryColumnThatTheHeadHas) {
    const Columns columns{.share = true, .sketch = true, .reading = true};
    const Result empty{.description = "q=64", .seconds = 0.5, .flops = 1e9, .peak = 8e9};
    EXPECT_EQ(table_row(columns, empty).find("q=64"), table_head(columns).find("case"));
    Result full = empty;
    full.share = {.partner = "q=32", .seconds = 0.25, .flops = 1e9, .share = 0.9375, .floor = 0.5};
    full.sketch = {.seconds = 0.25, .share = 0.75};
    full.reading = {.bytes = 1e9, .share = 0.5};
    EXPECT_EQ(table_row(columns, full),
              "   500.000       2.0    25.0       4.0   0.938    0.50      50.0   0.750     2.0"
              "    50.0  q=64");
    const ElementwiseResult ring{
        .description = "operator=ring", .seconds = 0.5, .bytes = 1e9, .sum = ElementwiseResult::Sum{4e9, 0.875}};
    EXPECT_EQ(elementwise_row(ring).find("operator"), elementwise_head().find("case"));
}

}  // namespace
}  // namespace fusion_bench
