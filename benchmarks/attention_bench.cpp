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
#include "testing/call_memory.h"
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

double bytes_of_keys(const PreparedCase& prepared) {
    return static_cast<double>(prepared.memory(testing::kKey).bytes() + prepared.memory(testing::kValue).bytes());
}

double read_keys(const PreparedCase& prepared) {
    double seconds = 0;
    for (const testing::Argument argument : {testing::kKey, testing::kValue}) {
        const DeviceMemory& memory = prepared.memory(argument);
        seconds += measure_reading(memory.address(), memory.bytes());
    }
    return seconds;
}

class Bench {
  public:
    explicit Bench(const Options& options) : options_(options), table_(choose_table()) {
        testing::stream();  // starts the runtime
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

        const Clock clock = clock_of(threads);
        auto on_threads = [this, clock](PreparedCase& c, int count) {
            return Contender{.run =
                                 [this, clock, &c, count] {
                                     processors_.use(count);
                                     return c.run(clock);
                                 },
                             .work = useful_flops(c.description())};
        };
        std::vector<Contender> contenders{on_threads(prepared, threads)};
        const double flops = contenders[0].work;
        // All are in one list, so that it takes a place in it to find one again.
        auto add = [&contenders](Contender contender) {
            contenders.push_back(std::move(contender));
            return contenders.size() - 1;
        };
        size_t partner_at = 0, sketch_at = 0, reading_at = 0;
        if (other) partner_at = add(on_threads(*other, threads));
        if (entry.against_one_thread) partner_at = add(on_threads(prepared, 1));
        if (sketch) sketch_at = add({.run = [&sketch] { return sketch->run(); }, .work = flops});
        // Its work is that of the operator, so that speeds compare as the bytes of both do.
        if (entry.reads_keys) reading_at = add({.run = [&prepared] { return read_keys(prepared); }, .work = flops});
        const double peak =
            measure_by_turns(contenders, peak_loop(table_, entry.description.dtype), effort(contenders.size() > 1));

        Result result{.description = to_string(entry.description),
                      .threads = threads,
                      .seconds = contenders[0].best(),
                      .flops = flops,
                      .peak = peak * threads};
        auto share_of = [&contenders](size_t at) { return median_ratio(contenders[0], contenders[at]); };
        if (partner_at != 0) {
            const Contender& partner = contenders[partner_at];
            result.share = {.partner = to_string(other ? *entry.partner : entry.description),
                            .threads = other ? threads : 1,
                            .seconds = partner.best(),
                            .flops = partner.work,
                            .share = share_of(partner_at),
                            .floor = entry.floor};
        }
        if (sketch_at != 0) result.sketch = {contenders[sketch_at].best(), share_of(sketch_at)};
        if (reading_at != 0) result.reading = {bytes_of_keys(prepared), share_of(reading_at)};
        return result;
    }

    ElementwiseResult measure(const ElementwiseCase& c) {
        processors_.use(options_.threads);
        if (const auto* ring = std::get_if<RingCase>(&c)) return measure_ring(c, RingRun(*ring));
        const auto& dropout = std::get<DropoutCase>(c);
        const DropoutRun run(dropout.bits);
        const Clock clock = clock_of(options_.threads);
        std::vector<Contender> contenders{{.run = [&] { return run.run(clock); }, .work = run.random_bytes()}};
        measure_by_turns(contenders, nullptr, effort(false));
        return {.description = to_string(c),
                .threads = options_.threads,
                .seconds = contenders[0].best(),
                .bytes = run.random_bytes(),
                .floor = dropout.floor};
    }

    int threads_of(const Entry& entry) const {
        return entry.against_one_thread ? std::max(options_.threads, 2) : options_.threads;
    }

  private:
    // Times that are compared come from one clock.
    static Clock clock_of(int threads) { return threads > 1 ? wall_time : processor_time; }

    // A median needs more rounds than a best time, which any quiet moment gives.
    Effort effort(bool compares) const { return {options_.runs.value_or(compares ? 9 : 5), options_.seconds}; }

    ElementwiseResult measure_ring(const ElementwiseCase& c, const RingRun& ring) const {
        const SumRun sum(ring.bytes());
        const Clock clock = clock_of(options_.threads);
        std::vector<Contender> contenders{{.run = [&] { return ring.run(clock); }, .work = ring.bytes()},
                                          {.run = [&] { return sum.run(clock); }, .work = sum.bytes()}};
        measure_by_turns(contenders, nullptr, effort(true));
        return {.description = to_string(c),
                .threads = options_.threads,
                .seconds = contenders[0].best(),
                .bytes = ring.bytes(),
                .sum = ElementwiseResult::Sum{sum.bytes() / contenders[1].best(),
                                              median_ratio(contenders[0], contenders[1])}};
    }

    // Both must have computed the same thing, or the comparison means nothing.
    static void check_sketch(PreparedCase& prepared, SketchCase& sketch) {
        prepared.run(processor_time);
        sketch.run();
        // Outputs are averages of normal values, gradients some times as large; bf16 keeps three digits of each.
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

std::string text_of(const Entry& entry) {
    return to_string(entry.description);
}
std::string text_of(const ElementwiseCase& c) {
    return to_string(c);
}

void print_list(const Options& options) {
    for (const Entry& entry : options.entries) {
        fmt::print("{}\n", to_string(entry.description));
        if (entry.partner) fmt::print("    beside {}, floor {:.2f}\n", to_string(*entry.partner), entry.floor);
        if (entry.against_one_thread) fmt::print("    beside one thread, floor {:.2f}\n", entry.floor);
    }
    for (const ElementwiseCase& c : options.elementwise) fmt::print("{}\n", to_string(c));
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
    fmt::print("{}, kernels {}, {} thread{}\n", machine.processor, machine.table, machine.threads,
               machine.threads == 1 ? "" : "s");
    Progress progress(options.entries.size() + options.elementwise.size());
    auto measure_each = [&](const auto& cases, const std::string& head, auto row) {
        std::vector<decltype(bench.measure(cases[0]))> results;
        if (!cases.empty()) fmt::print("{}\n", head);
        for (const auto& c : cases) {
            progress.next(text_of(c));
            results.push_back(bench.measure(c));
            progress.clear();
            fmt::print("{}\n", row(results.back()));
            std::fflush(stdout);
        }
        return results;
    };
    Columns columns{.sketch = bench.has_sketches()};
    for (const Entry& entry : options.entries) {
        columns.share |= entry.partner.has_value() || entry.against_one_thread;
        columns.reading |= entry.reads_keys;
    }
    const auto results = measure_each(options.entries, table_head(columns),
                                      [&columns](const Result& r) { return table_row(columns, r); });
    const auto elementwise = measure_each(options.elementwise, elementwise_head(), elementwise_row);
    if (options.json && !(json << to_json(machine, results, elementwise)).flush())
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
