// What schedule_plan rests on: problems are those that the operators plan, items are handed out as threads take them,
// and cases that can be counted by hand come out as counted.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "case_problem.h"
#include "engine/decode.h"
#include "hand_out.h"
#include "kernels/table_info.h"
#include "opbase/parallel.h"
#include "planned_tables.h"
#include "testing/backward_runner.h"
#include "testing/random_cases.h"
#include "work.h"

namespace fusion_bench {
namespace {

namespace testing = flash_attention::testing;
using flash_attention::Problem;
using testing::parse_case;

constexpr uint64_t kSeed = 1;

PlannedTable table_named(const std::string& name) {
    for (PlannedTable& table : planned_tables())
        if (table.name == name) return table;
    throw std::invalid_argument(name);
}

// The kernels that every machine and build has: forward takes 64 rows at once, backward 32.
const PlannedTable& portable() {
    static const PlannedTable table = table_named("portable");
    return table;
}

constexpr double kL2 = 1 << 20, kMultiplyAddsOfByte = 2;

std::vector<WorkLoop> loops_of(const std::string& text, int threads) {
    const testing::Case c = parse_case(text);
    EXPECT_EQ(why_illegal(c), "") << text;
    return portable().work_of(problem_of(c), c.backward, threads, kL2);
}

Schedule schedule_of(const std::string& text, int threads) {
    return hand_out(loops_of(text, threads), threads, kMultiplyAddsOfByte);
}

TEST(HandOut, GivesTheNextItemToWhoIsFreeFirst) {
    EXPECT_EQ(makespan({}, 3), 0);
    EXPECT_EQ(makespan({3, 2, 2}, 2), 4);
    EXPECT_EQ(makespan({2, 2, 3}, 2), 5);  // the order counts
    EXPECT_EQ(makespan({1, 1, 1, 9}, 3), 10);
    EXPECT_EQ(makespan({5, 1}, 8), 5);
}

TEST(HandOut, CountsLoopsOneAfterTheOther) {
    const std::vector<WorkLoop> loops{{"items", {{6, 1}, {2, 1}, {0, 2}}}, {"later", {{0, 1}}}};
    const Schedule schedule = hand_out(loops, 2, 2);
    EXPECT_EQ(schedule.items, 3);
    EXPECT_EQ(schedule.makespan, 6 + 2);  // 6 beside 2 and 2 bytes; then a byte
    EXPECT_EQ(schedule.later, 2);
    EXPECT_EQ(schedule.work, 6 + 2 + 4 + 2);
    EXPECT_EQ(schedule.longest, 6 / 6.0);
    EXPECT_EQ(schedule.balance, 14 / 2.0 / 8);
    EXPECT_EQ(schedule.bytes_per_multiply_add(), 5 / 8.0);
}

TEST(Forward, SharesEqualItems) {
    const std::string text = "layout=BNSD n=8 d=64 q=512 kv=640";  // 8 blocks a head
    EXPECT_EQ(schedule_of(text, 64).items, 64);
    EXPECT_EQ(schedule_of(text, 64).balance, 1);
    EXPECT_EQ(schedule_of(text, 64).longest, 1);
    EXPECT_EQ(schedule_of(text, 16).balance, 1);
    EXPECT_EQ(schedule_of(text, 128).balance, 0.5);
    EXPECT_DOUBLE_EQ(schedule_of(text, 48).balance, 64.0 / 48 / 2);
}

TEST(Forward, WaitsForOneLongItem) {
    // Of 100 and 9 times 1 key block.
    const std::string text =
        "layout=TND n=1 d=64 q=64,64,64,64,64,64,64,64,64,64 kv=19200,192,192,192,192,192,192,192,192,192";
    const Schedule schedule = schedule_of(text, 10);
    EXPECT_EQ(schedule.items, 10);
    EXPECT_DOUBLE_EQ(schedule.longest, 100 / 10.9);
    EXPECT_DOUBLE_EQ(schedule.balance, 10.9 / 100);
}

TEST(Forward, WeighsBlocksOfATriangle) {
    // Blocks of 64 rows see 64 r keys and the triangle of their own.
    const double triangle = 64 * 65 / 2.0, square = 64 * 64;
    const double last = 3 * square + triangle, all = 6 * square + 4 * triangle;
    const Schedule schedule = schedule_of("layout=BNSD n=1 d=64 q=256 kv=256 mode=3 mask=compressed", 4);
    EXPECT_EQ(schedule.items, 4);
    EXPECT_DOUBLE_EQ(schedule.longest, last / (all / 4));
    EXPECT_DOUBLE_EQ(schedule.balance, all / 4 / last);
    // Longest first: the last one beside the three others, or two and two.
    EXPECT_DOUBLE_EQ(schedule_of("layout=BNSD n=1 d=64 q=256 kv=256 mode=3 mask=compressed", 2).makespan,
                     128 * (3 * square + 2 * triangle));
}

TEST(Forward, ReadsKeysForEachBlockOfRows) {
    const std::vector<WorkLoop> loops = loops_of("layout=BNSD dtype=bf16 n=2 d=32 dv=16 q=128 kv=300", 2);
    ASSERT_EQ(loops.size(), 1U);
    ASSERT_EQ(loops[0].items.size(), 4U);
    for (const WorkItem& item : loops[0].items) {
        EXPECT_EQ(item.multiply_adds, 64 * 300 * (32 + 16));
        // Keys and values, query and output, and of each row two statistics of eight floats.
        EXPECT_EQ(item.bytes, 300 * (32 + 16) * 2 + 64 * (32 + 16) * 2 + 64 * 2 * 32);
    }
    EXPECT_EQ(bytes_once(problem_of(parse_case("layout=BNSD dtype=bf16 n=2 d=32 dv=16 q=128 kv=300")), false),
              2 * (300 * (32 + 16) * 2 + 128 * (32 + 16) * 2 + 128 * 2 * 32));
    // A window shows 64 rows 64 + 99 keys.
    const WorkItem shown =
        loops_of("layout=BNSD n=1 d=32 q=640 kv=640 mode=4 pre=99 next=0 mask=compressed", 2)[0].items[0];
    EXPECT_EQ(shown.bytes, (163 + 64) * 64 * 4 + 64 * 2 * 32);
}

TEST(Decode, SharesChunksOfKeys) {
    const std::string text = "layout=BNSD dtype=fp32 n=8/2 d=64 q=1 kv=4096";
    const std::vector<WorkLoop> loops = loops_of(text, 8);
    ASSERT_EQ(loops.size(), 2U);
    ASSERT_EQ(loops[0].items.size(), 8U);  // four chunks of two heads of keys
    ASSERT_EQ(loops[1].items.size(), 2U);
    const double partial = 4 * (64 + 16) * 4;  // four rows
    for (const WorkItem& item : loops[0].items) {
        EXPECT_EQ(item.multiply_adds, 4 * 1024 * 128);
        EXPECT_EQ(item.bytes, 1024 * 128 * 4 + 4 * 64 * 4 + partial);
    }
    for (const WorkItem& item : loops[1].items) EXPECT_EQ(item.bytes, 4 * partial + 4 * (64 * 4 + 2 * 32));
    EXPECT_EQ(schedule_of(text, 8).longest, 1);
    EXPECT_GT(schedule_of(text, 8).balance, 0.98);  // what merging takes
}

TEST(Backward, SharesHeads) {
    const std::string text = "layout=BNSD n=8 d=64 q=512 kv=512 pass=backward";
    EXPECT_EQ(schedule_of(text, 8).items, 8);
    EXPECT_EQ(schedule_of(text, 8).balance, 1);
    EXPECT_EQ(schedule_of(text, 64).balance, 0.125);
}

TEST(Backward, SharesPartsOfAHead) {
    const std::string text = "layout=BNSD n=1 d=64 q=2048 kv=4096 pass=backward";
    const Schedule two = schedule_of(text, 2);
    EXPECT_EQ(two.items, 2);
    EXPECT_EQ(two.longest, 1);
    EXPECT_GT(two.later, 0);
    EXPECT_GT(two.balance, 0.95);
    EXPECT_LT(two.balance, 1);
    EXPECT_EQ(schedule_of(text, 1).items, 1);
    EXPECT_EQ(schedule_of(text, 1).later, 0);
    // Eight at most.
    EXPECT_EQ(schedule_of("layout=BNSD n=1 d=64 q=16 kv=65536 pass=backward", 64).items, 8);
}

TEST(Backward, ReadsKeysAgainWhereTheyDoNotStayInCache) {
    // Two blocks of 32 rows and 512 keys, of which each with value and sums has 4 * 64 * 4 bytes.
    const testing::Case c = parse_case("layout=BNSD dtype=fp32 n=1 d=64 q=64 kv=512 pass=backward");
    const double keys = 512, rows = 64, line = 64 * 4;
    auto bytes = [&](double l2) { return portable().work_of(problem_of(c), true, 1, l2)[0].items[0].bytes; };
    const double of_keys = keys * 2 * line + 2 * keys * 2 * line;  // read; sums read and written
    const double of_rows = rows * (4 * line + 2 * 32);             // query, dy, output, dq and two statistics
    const double sums = keys * 2 * line;
    const double of_part = 2 * sums + 4 * sums + sums + keys * 2 * line;  // cleared, added up, read, written
    EXPECT_EQ(bytes(keys * 4 * line), of_keys + of_rows + of_part);
    EXPECT_EQ(bytes(keys * 4 * line - 1), 2 * of_keys + of_rows + of_part);
}

TEST(Backward, CountsTheGradientOfABias) {
    const std::vector<WorkLoop> loops =
        loops_of("layout=BNSD n=2 d=64 q=64 kv=96 pse=1:full dpse=wanted pass=backward", 2);
    ASSERT_EQ(loops.size(), 2U);
    ASSERT_EQ(loops[1].items.size(), 4U);  // two blocks of 32 rows of each head
    EXPECT_EQ(loops[1].items[0].multiply_adds, 32 * 96 * 128);
}

TEST(Tables, PlanAlikeWhateverTheProcessorHas) {
    for (const flash_attention::TableInfo& info : flash_attention::all_tables()) {
        const PlannedTable table = table_named(info.name);
        const int64_t rows = info.table.forward[0].query_block;
        const testing::Case c = parse_case(fmt::format("layout=BNSD n=3 d=64 q={} kv=64", 4 * rows));
        EXPECT_EQ(table.work_of(problem_of(c), false, 64, kL2)[0].items.size(), 12U) << info.name;
    }
}

TEST(Problems, HaveThePairsThatTheReferenceSees) {
    for (const bool backward : {false, true}) {
        for (int64_t index = 0; index < testing::cell_count(); index++) {
            const testing::Case c = testing::random_case(kSeed, index, backward);
            const std::vector<WorkLoop> loops = portable().work_of(problem_of(c), backward, 8, kL2);
            double multiply_adds = 0;
            for (const WorkItem& item : loops[0].items) multiply_adds += item.multiply_adds;
            EXPECT_EQ(2 * multiply_adds, useful_flops(c)) << to_string(c) << ", seed " << kSeed;
        }
    }
}

// Many threads, without starting them.
class ManyThreads {
  public:
    ManyThreads() {
        opbase::set_parallel_driver([](int64_t items, int, opbase::ParallelBody body) {
            for (int64_t item = 0; item < items; item++) body(item, 0);
        });
    }
    ManyThreads(const ManyThreads&) = delete;
    ManyThreads& operator=(const ManyThreads&) = delete;
    ~ManyThreads() {
        opbase::set_thread_count(0);
        opbase::set_parallel_driver(nullptr);
    }
};

// What the plan needs: the interface gives room for any alignment of it.
template <class Prepared>
int64_t workspace_of(Prepared& call) {
    constexpr int64_t kAlignment = 64;
    EXPECT_EQ(call.phase_one(), ACL_SUCCESS) << testing::error_text();
    aclDestroyAclOpExecutor(call.executor());
    const auto bytes = static_cast<int64_t>(call.workspace_size());
    return bytes == 0 ? 0 : bytes - (kAlignment - 1);
}

// The workspace tells slots, chunks and partial results. Packed operands need no copies in it.
TEST(Problems, TakeTheWorkspaceOfTheOperators) {
    testing::stream();  // starts the runtime
    const ManyThreads many;
    int several = 0;
    for (int64_t index = 0; index < testing::cell_count(); index += 2) {
        for (const bool backward : {false, true}) {
            testing::Case c = testing::random_case(kSeed, testing::spread(index, testing::cell_count()), backward);
            c.views = {};
            c.given = testing::Given::kOperator;
            opbase::set_thread_count(index % 4 == 0 ? 3 : 192);
            const Problem problem = problem_of(c);
            if (backward) {
                testing::PreparedBackward call(testing::make_backward_call(c));
                const int64_t bytes =
                    problem.sequences.empty() ? 0 : (plan_backward(problem).workspace_bytes() + 63) / 64 * 64;
                EXPECT_EQ(workspace_of(call), bytes) << to_string(c) << ", seed " << kSeed;
            } else {
                testing::PreparedCall call(testing::make_call(c));
                const flash_attention::ForwardPlan plan = plan_forward(problem);
                EXPECT_EQ(workspace_of(call), plan.workspace_bytes()) << to_string(c) << ", seed " << kSeed;
                several += plan.slots > 3;
            }
        }
    }
    EXPECT_GT(several, testing::cell_count() / 16);
}

}  // namespace
}  // namespace fusion_bench
