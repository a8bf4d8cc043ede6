// What the figures of attention_bench rest on: counted work, the standard cases, the command line.
#include <gtest/gtest.h>

#include <algorithm>

#include "options.h"
#include "peak.h"
#include "prepared_case.h"
#include "testing/call.h"
#include "testing/random_cases.h"
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

TEST(Suites, HoldLegalCasesAndPartnersWithTheSameWork) {
    for (const Suite& suite : suites()) {
        const std::vector<Entry> entries = suite.entries();
        EXPECT_FALSE(entries.empty()) << suite.name;
        for (const Entry& entry : entries) {
            const std::string text = to_string(entry.description);
            EXPECT_EQ(why_illegal(entry.description), "") << text;
            EXPECT_EQ(entry.floor > 0, entry.partner || entry.against_one_thread) << text;
            if (!entry.partner) continue;
            EXPECT_EQ(why_illegal(*entry.partner), "") << text;
            EXPECT_EQ(entry.partner->dtype, entry.description.dtype) << text;
            EXPECT_EQ(useful_flops(*entry.partner), useful_flops(entry.description)) << text;
        }
    }
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
    EXPECT_EQ(refusal({"--suite", "fast"}), "--suite fast: must be one of plain, shares, threads, decode");
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
    EXPECT_EQ(refusal({"--list"}), "");
    EXPECT_EQ(refusal({"--help"}), "");
}

}  // namespace
}  // namespace fusion_bench
