// How the work of a call is shared out on machines with many cores, and what it moves behind their L2 caches: the
// engine plans for them, and the plan's items are handed out on paper. Runs nothing, so that any machine will do.
// schedule_plan --help tells the rest.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "case_problem.h"
#include "hand_out.h"
#include "options.h"
#include "planned_tables.h"

namespace fusion_bench {
namespace {

using flash_attention::testing::Case;

constexpr const char* kHelp =
    "usage: schedule_plan [options] [\"<problem string>\"]...\n"
    "\n"
    "Plans calls for machines with many cores and hands the plan's items out on paper, each to the thread that is "
    "free\n"
    "first. Nothing is run. Problem strings are those of attention_bench.\n"
    "\n"
    "options:\n"
    "  --standard           the cases of docs/performance.md, before any others\n"
    "  --threads <N,N,...>  default 64,96,128,192\n"
    "  --table <name,...>   kernels that decide how large items are (default: all of this build, whether the\n"
    "                       processor has their instructions or not)\n"
    "  --l2 <KiB>           of a core; what backward can keep of it decides about its bytes (default 1024)\n"
    "  --byte <N>           a byte takes a core as long as N multiply-adds (default 2); counts for items that read\n"
    "                       more than they multiply, as those of few query rows\n"
    "  --json <file>        writes the results as JSON too\n"
    "  --same-as <file>     exit code 1 unless the JSON is the content of this file\n"
    "  --help\n"
    "\n"
    "columns:\n"
    "  items                of the main loop\n"
    "  longest              item, as a part of what each thread has on average: above 1 threads wait for it\n"
    "  balance              work of a thread on average over the time until the last one is done\n"
    "  later                the part of that time behind the main loop: merges of chunks, sums of dq\n"
    "  B/ma                 bytes that cores read and write beyond L2, for each useful multiply-add;\n"
    "                       counted, not measured; not shown of backward, which is estimated too roughly\n"
    "  once                 the same if every operand and result were moved once\n";

// Heads times batch from 1 to 64.
constexpr const char* kStandard[] = {
    "layout=BNSD dtype=fp32 n=1 d=128 q=2048 kv=2048",
    "layout=BNSD dtype=fp32 n=1 d=128 q=16384 kv=16384",
    "layout=BNSD dtype=fp32 n=8 d=128 q=2048 kv=2048",
    "layout=BNSD dtype=fp32 n=8 d=128 q=2048 kv=2048 mode=3 mask=compressed",
    "layout=BNSD dtype=fp32 n=8 d=128 q=16384 kv=16384 mode=3 mask=compressed",
    "layout=BNSD dtype=fp32 n=8 d=128 q=16384 kv=16384 mode=4 pre=511 next=0 mask=compressed",
    "layout=BNSD dtype=fp32 n=32/8 d=128 q=8192 kv=8192 mode=3 mask=compressed",
    "layout=BNSD dtype=fp32 b=2 n=32 d=128 q=4096 kv=4096 mode=3 mask=compressed",
    ("layout=TND dtype=fp32 n=8 d=128 q=16384,4096,2048,1024,512,512,256,256 "
     "kv=16384,4096,2048,1024,512,512,256,256 mode=3 mask=compressed"),
};
constexpr const char* kStandardDecode[] = {
    "layout=BNSD dtype=fp32 n=32/8 d=128 q=1 kv=4096",
    "layout=BNSD dtype=fp32 n=32/8 d=128 q=1 kv=131072",
    "layout=BNSD dtype=fp32 b=8 n=32/8 d=128 q=1 kv=4096",
    "layout=BNSD dtype=fp32 b=64 n=32/8 d=128 q=1 kv=4096",
    "layout=TND dtype=fp32 n=32/8 d=128 q=1,1,1,1,1,1,1,1 kv=65536,8192,4096,2048,1024,1024,512,512",
};

struct PlanOptions {
    std::vector<Case> cases;
    std::vector<int> threads{64, 96, 128, 192};
    std::vector<PlannedTable> tables = planned_tables();
    int l2_kib = 1024, multiply_adds_of_byte = 2;
    std::string json, same_as;
    bool help = false;
};

void add_standard(std::vector<Case>& cases) {
    std::vector<Case> standard;
    for (const char* text : kStandard) standard.push_back(legal_case(text));
    for (const char* text : kStandardDecode) standard.push_back(legal_case(text));
    for (const char* text : kStandard) standard.push_back(legal_case(std::string(text) + " pass=backward"));
    cases.insert(cases.begin(), standard.begin(), standard.end());
}

std::vector<std::string> split(std::string_view text) {
    std::vector<std::string> parts(1);
    for (const char c : text) {
        if (c == ',')
            parts.emplace_back();
        else
            parts.back() += c;
    }
    return parts;
}

std::vector<PlannedTable> tables_of(std::string_view option, std::string_view names) {
    std::vector<PlannedTable> chosen;
    std::string known;
    const std::vector<PlannedTable> all = planned_tables();
    for (const PlannedTable& table : all) known += fmt::format("{}{}", known.empty() ? "" : ", ", table.name);
    for (const std::string& name : split(names)) {
        const size_t before = chosen.size();
        for (const PlannedTable& table : all)
            if (table.name == name) chosen.push_back(table);
        if (chosen.size() == before)
            throw UsageError(fmt::format("{} {}: must be some of {}, separated by commas", option, names, known));
    }
    return chosen;
}

PlanOptions parse(int argc, char** argv) {
    PlanOptions options;
    constexpr int kMostThreads = 1024, kMostKib = 1 << 20, kMostOfByte = 1000;
    for (int i = 1; i < argc; i++) {
        const std::string_view argument = argv[i];
        auto value = [&]() -> std::string_view {
            if (i + 1 == argc) throw UsageError(fmt::format("{}: a value must follow", argument));
            return argv[++i];
        };
        if (argument == "--standard") {
            add_standard(options.cases);
        } else if (argument == "--threads") {
            options.threads.clear();
            for (const std::string& count : split(value()))
                options.threads.push_back(whole_number(argument, count, 1, kMostThreads));
        } else if (argument == "--table") {
            options.tables = tables_of(argument, value());
        } else if (argument == "--l2") {
            options.l2_kib = whole_number(argument, value(), 0, kMostKib);
        } else if (argument == "--byte") {
            options.multiply_adds_of_byte = whole_number(argument, value(), 0, kMostOfByte);
        } else if (argument == "--json") {
            options.json = value();
        } else if (argument == "--same-as") {
            options.same_as = value();
        } else if (argument == "--help" || argument == "-h") {
            options.help = true;
        } else if (argument.substr(0, 1) == "-") {
            throw UsageError(fmt::format("{}: there is no such option", argument));
        } else {
            options.cases.push_back(legal_case(argument));
        }
    }
    if (options.cases.empty() && !options.help)
        throw UsageError("nothing to plan: a problem string or --standard must be given");
    return options;
}

using Json = nlohmann::ordered_json;

double rounded(double value, double digits) {
    return std::stod(fmt::format("{:.{}g}", value, static_cast<int>(digits)));
}

// Bytes of backward are too rough an estimate to be shown: it only weighs the sums of dq against products.
Json json_of(const PlannedTable& table, int threads, const Schedule& schedule, double once, bool shows_bytes) {
    constexpr double kDigits = 4;
    Json plan = {{"table", table.name},
                 {"threads", threads},
                 {"items", schedule.items},
                 {"longest", rounded(schedule.longest, kDigits)},
                 {"balance", rounded(schedule.balance, kDigits)},
                 {"later", rounded(schedule.later / std::max(schedule.makespan, 1.0), kDigits)}};
    if (shows_bytes) plan["bytes_of_multiply_add"] = rounded(schedule.bytes_per_multiply_add(), kDigits);
    plan["once"] = rounded(once / std::max(schedule.multiply_adds, 1.0), kDigits);
    return plan;
}

std::string plan_all(const PlanOptions& options) {
    Json results = Json::array();
    fmt::print("{:>12} {:>7} {:>7} {:>8} {:>7} {:>6} {:>8} {:>8}\n", "table", "threads", "items", "longest", "balance",
               "later", "B/ma", "once");
    for (const Case& c : options.cases) {
        fmt::print("{}\n", to_string(c));
        const flash_attention::Problem problem = problem_of(c);
        const double once = bytes_once(problem, c.backward);
        Json plans = Json::array();
        for (const PlannedTable& table : options.tables) {
            for (const int threads : options.threads) {
                const Schedule schedule = hand_out(table.work_of(problem, c.backward, threads, options.l2_kib * 1024.0),
                                                   threads, options.multiply_adds_of_byte);
                const Json plan = json_of(table, threads, schedule, once, !c.backward);
                const std::string bytes = c.backward ? "-" : fmt::format("{:.4f}", schedule.bytes_per_multiply_add());
                fmt::print("{:>12} {:>7} {:>7} {:>8.3f} {:>7.3f} {:>6.3f} {:>8} {:>8.4f}\n", table.name, threads,
                           schedule.items, schedule.longest, schedule.balance, plan["later"].get<double>(), bytes,
                           plan["once"].get<double>());
                plans.push_back(plan);
            }
        }
        results.push_back({{"case", to_string(c)}, {"plans", plans}});
    }
    const Json all = {{"l2_kib", options.l2_kib},
                      {"multiply_adds_of_byte", options.multiply_adds_of_byte},
                      {"results", std::move(results)}};
    std::string text = all.dump(1) + "\n";
    return text;
}

std::string content_of(const std::string& name) {
    std::ifstream file(name);
    if (!file) throw UsageError(fmt::format("--same-as {}: must be a file that can be read", name));
    return {std::istreambuf_iterator<char>(file), {}};
}

int run(const PlanOptions& options) {
    const std::string before = options.same_as.empty() ? "" : content_of(options.same_as);
    const std::string json = plan_all(options);
    if (!options.json.empty()) {
        std::ofstream file(options.json);
        if (!(file << json).flush())
            throw UsageError(fmt::format("--json {}: must be a file that can be written", options.json));
    }
    if (options.same_as.empty() || before == json) return 0;
    fmt::print(stderr, "schedule_plan: plans differ from those in {}: look at them, and write them with --json\n",
               options.same_as);
    return 1;
}

}  // namespace
}  // namespace fusion_bench

int main(int argc, char** argv) {
    try {
        const fusion_bench::PlanOptions options = fusion_bench::parse(argc, argv);
        if (!options.help) return fusion_bench::run(options);
        fmt::print("{}", fusion_bench::kHelp);
        return 0;
    } catch (const fusion_bench::UsageError& error) {
        fmt::print(stderr, "schedule_plan: {}\nschedule_plan --help lists all arguments\n", error.what());
        return 2;
    }
}
