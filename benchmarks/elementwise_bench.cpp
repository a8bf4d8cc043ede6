// How fast the operators are that visit every element once: dropout masks, in bytes of random numbers a second, and the
// ring update, in bytes read and written a second, beside how fast a core reads the same memory.
//
//   elementwise_bench [--threads <n>] [--json <file>]
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>

#include "elementwise.h"
#include "measure.h"
#include "peak.h"
#include "prepared_case.h"

namespace fusion_bench {
namespace {

struct Line {
    std::string table, name;
    double gigabytes = 0, milliseconds = 0;  // a second, of the best run
};

Line best_of(const std::string& table, const std::string& name, double bytes, const std::function<double()>& run) {
    constexpr int kRuns = 9;
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kRuns; i++) best = std::min(best, run());
    const Line line{table, name, bytes / best * 1e-9, best * 1e3};
    fmt::print("{:12} {:40} {:8.2f} {:10.3f}\n", table, name, line.gigabytes, line.milliseconds);
    std::fflush(stdout);
    return line;
}

std::vector<Line> measure_tables(int threads) {
    const Session session;
    const Processors processors;
    processors.use(threads);
    const Clock clock = threads == 1 ? processor_time : wall_time;
    fmt::print("{:12} {:40} {:>8} {:>10}\n", "", fmt::format("{} thread(s)", threads), "GB/s", "ms");
    std::vector<Line> lines;
    for (const std::string& table : available_tables()) {
        setenv("ASCEND_CPU_ISA", table.c_str(), 1);
        for (const int shift : {20, 26}) {
            const MaskRun mask(int64_t{1} << shift);
            lines.push_back(best_of(table, fmt::format("random words of a mask of 2^{} bits", shift),
                                    mask.random_bytes(), [&] { return mask.run(clock); }));
        }
        struct Type {
            const char* name;
            aclDataType dtype;
        };
        for (const Type& type : {Type{"fp32", ACL_FLOAT}, Type{"fp16", ACL_FLOAT16}, Type{"bf16", ACL_BF16}}) {
            for (const int64_t dim : {64, 128}) {
                const RingRun ring(type.dtype, 4096, 8, dim);
                lines.push_back(best_of(table, fmt::format("ring, {}, S 4096, N 8, D {}", type.name, dim), ring.bytes(),
                                        [&] { return ring.run(clock); }));
            }
        }
    }
    unsetenv("ASCEND_CPU_ISA");
    constexpr size_t kBytes = size_t{64} << 20;
    const DeviceMemory memory(kBytes);
    const std::vector<uint8_t> piece(size_t{1} << 20, 1);
    memory.fill(piece.data(), piece.size());
    lines.push_back(
        best_of("", "reading 64 MiB, one thread", kBytes, [&] { return measure_reading(memory.address(), kBytes); }));
    return lines;
}

std::string json(int threads, const std::vector<Line>& lines) {
    std::string text = fmt::format("{{\n  \"threads\": {},\n  \"results\": [\n", threads);
    for (const Line& line : lines) {
        text += fmt::format("    {{\"table\": \"{}\", \"name\": \"{}\", \"gigabytes_per_second\": {:.3f}}}{}\n",
                            line.table, line.name, line.gigabytes, &line == &lines.back() ? "" : ",");
    }
    return text + "  ]\n}\n";
}

}  // namespace
}  // namespace fusion_bench

int main(int argc, char** argv) {
    int threads = 1;
    std::optional<std::string> file;
    for (int i = 1; i < argc; i++) {
        if (std::strcmp(argv[i], "--threads") == 0 && i + 1 < argc && std::atoi(argv[i + 1]) > 0) {
            threads = std::atoi(argv[++i]);
        } else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
            file = argv[++i];
        } else {
            fmt::print(stderr, "usage: elementwise_bench [--threads <n>] [--json <file>]\n");
            return 2;
        }
    }
    try {
        const auto lines = fusion_bench::measure_tables(threads);
        if (file && !(std::ofstream(*file) << fusion_bench::json(threads, lines)).flush())
            throw std::runtime_error("cannot write " + *file);
    } catch (const std::exception& error) {
        fmt::print(stderr, "elementwise_bench: {}\n", error.what());
        return 2;
    }
}
