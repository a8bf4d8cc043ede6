// How fast attention is: beside what the core can do at most, beside other cases, and beside other kernels.
// attention_bench --help tells the rest.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>

#include "measure.h"
#include "opbase/cpu_features.h"
#include "options.h"
#include "prepared_case.h"
#include "report.h"
#include "sketches.h"
#include "work.h"

namespace fusion_bench {
namespace {

namespace testing = flash_attention::testing;

// One line on a terminal that says what is being measured; nothing elsewhere.
class Progress {
  public:
    explicit Progress(size_t count) : count_(count), shown_(isatty(STDERR_FILENO) != 0) {}
    void next(const std::string& text) {
        at_++;
        // One line of a terminal, so that it can be overwritten.
        if (shown_) fmt::print(stderr, "\r\033[K{:.79}", fmt::format("[{}/{}] {}", at_, count_, text));
    }
    void clear() const {
        if (shown_) fmt::print(stderr, "\r\033[K");
    }

  private:
    size_t at_ = 0, count_;
    bool shown_;
};

Result::Reading read_keys(const PreparedCase& prepared, const Effort& effort) {
    Result::Reading reading{.seconds = std::numeric_limits<double>::infinity()};
    for (int run = 0; run < effort.runs; run++) {
        double seconds = 0;
        reading.bytes = 0;
        for (const testing::Argument argument : {testing::kKey, testing::kValue}) {
            const DeviceMemory& memory = prepared.memory(argument);
            seconds += measure_reading(memory.address(), memory.bytes());
            reading.bytes += static_cast<double>(memory.bytes());
        }
        reading.seconds = std::min(reading.seconds, seconds);
    }
    return reading;
}

class Bench {
  public:
    explicit Bench(const Options& options) : options_(options), table_(choose_table()) {
        if (!options.sketches) return;
        try {
            sketches_ = std::make_unique<Sketches>(*options.sketches, table_);
        } catch (const std::runtime_error& error) {
            fmt::print(stderr, "attention_bench: goes on without the sketches: {}\n", error.what());
        }
    }

    const std::string& table() const { return table_; }
    bool has_sketches() const { return sketches_ != nullptr; }

    Result measure(const Entry& entry) {
        const int threads = threads_of(entry);
        processors_.use(threads);
        PreparedCase prepared(entry.description);
        std::unique_ptr<PreparedCase> other;
        if (entry.partner) other = std::make_unique<PreparedCase>(*entry.partner);
        std::unique_ptr<SketchCase> sketch;
        if (sketches_ && threads == 1 && sketches_->can(entry.description)) {
            sketch = std::make_unique<SketchCase>(*sketches_, prepared);
            check_sketch(prepared, *sketch);
        }

        // Times that are compared come from one clock.
        const Clock clock = threads > 1 ? wall_time : processor_time;
        auto on_threads = [this, clock](PreparedCase& c, int count) {
            return Contender{[this, clock, &c, count] {
                processors_.use(count);
                return c.run(clock);
            }};
        };
        std::vector<Contender> contenders{on_threads(prepared, threads)};
        if (other) contenders.push_back(on_threads(*other, threads));
        if (entry.against_one_thread) contenders.push_back(on_threads(prepared, 1));
        if (sketch) contenders.push_back({[&sketch] { return sketch->run(); }});
        const double peak = measure_by_turns(contenders, peak_loop(table_, entry.description.dtype), effort());

        Result result{.description = to_string(entry.description),
                      .threads = threads,
                      .seconds = contenders[0].best,
                      .flops = useful_flops(entry.description),
                      .peak = peak * threads};
        if (other || entry.against_one_thread) {
            const double partner_flops = useful_flops(entry.partner.value_or(entry.description));
            const double seconds = contenders[1].best;
            result.share = {.partner = to_string(other ? *entry.partner : entry.description),
                            .threads = other ? threads : 1,
                            .seconds = seconds,
                            .share = result.flops / result.seconds / (partner_flops / seconds),
                            .floor = entry.floor};
        }
        if (sketch) result.sketch = Result::Sketch{contenders.back().best};
        if (entry.reads_keys) result.reading = read_keys(prepared, effort());
        return result;
    }

    int threads_of(const Entry& entry) const {
        return entry.against_one_thread ? std::max(options_.threads, 2) : options_.threads;
    }

  private:
    Effort effort() const { return {options_.runs, options_.seconds}; }

    // Both must have computed the same thing, or the comparison means nothing.
    static void check_sketch(PreparedCase& prepared, SketchCase& sketch) {
        prepared.run(processor_time);
        sketch.run();
        // Outputs are averages of normal values; bf16 keeps three digits of each.
        constexpr double kClose = 0.05;
        const double difference = sketch.largest_difference();
        if (!(difference < kClose))
            throw std::runtime_error(
                fmt::format("sketch and operator differ by {} in {}", difference, to_string(prepared.description())));
    }

    const Options& options_;
    std::string table_;
    Processors processors_;
    std::unique_ptr<Sketches> sketches_;
};

void print_list(const Options& options) {
    for (const Entry& entry : options.entries) {
        fmt::print("{}\n", to_string(entry.description));
        if (entry.partner) fmt::print("    beside {}, floor {:.2f}\n", to_string(*entry.partner), entry.floor);
        if (entry.against_one_thread) fmt::print("    beside one thread, floor {:.2f}\n", entry.floor);
    }
}

std::string compiler() {
#if defined(__clang__)
    return "clang " __clang_version__;
#else
    return "g++ " __VERSION__;
#endif
}

void measure_all(const Options& options) {
    std::ofstream json;
    if (options.json) {
        json.open(*options.json);
        if (!json) throw UsageError(fmt::format("--json {}: must be a file that can be written", *options.json));
    }
    Bench bench(options);
    const std::string processor = opbase::cpu_features().model;
    const Machine machine{processor.empty() ? "unknown" : processor, bench.table(), compiler(), options.threads};
    Columns columns{.sketch = bench.has_sketches()};
    for (const Entry& entry : options.entries) {
        columns.share |= entry.partner.has_value() || entry.against_one_thread;
        columns.reading |= entry.reads_keys;
    }
    fmt::print("{}, kernels {}, {} thread{}\n{}\n", machine.processor, machine.table, machine.threads,
               machine.threads == 1 ? "" : "s", table_head(columns));
    Progress progress(options.entries.size());
    std::vector<Result> results;
    for (const Entry& entry : options.entries) {
        progress.next(to_string(entry.description));
        results.push_back(bench.measure(entry));
        progress.clear();
        fmt::print("{}\n", table_row(columns, results.back()));
        std::fflush(stdout);
    }
    if (options.json && !(json << to_json(machine, results)).flush())
        throw std::runtime_error("cannot write " + *options.json);
}

}  // namespace
}  // namespace fusion_bench

int main(int argc, char** argv) {
    try {
        const fusion_bench::Options options = fusion_bench::parse_options(argc, argv);
        if (options.help) {
            fmt::print("{}", fusion_bench::help_text());
        } else if (options.list) {
            fusion_bench::print_list(options);
        } else {
            fusion_bench::measure_all(options);
        }
        return 0;
    } catch (const fusion_bench::UsageError& error) {
        fmt::print(stderr, "attention_bench: {}\nattention_bench --help lists all arguments\n", error.what());
        return 2;
    } catch (const std::exception& error) {
        fmt::print(stderr, "attention_bench: {}\n", error.what());
        return 1;
    }
}
