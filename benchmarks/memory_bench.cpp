// How much memory a long problem takes: B 1, N 8, S 32768, D 64, float16. All tensors of the problem exist and are
// filled; the table shows the largest resident set that the whole process had so far, as the system counted it.
//
//   memory_bench [--full] [--json <file>]
//
// The full square of scores takes minutes on a few cores, so that by default calls compute parts of it that have all
// that could take memory: every head and row with a window, one head with all causal pairs, the last rows of every head
// with all keys. --full computes everything. Exit code 1: over the limit, a workspace that grows with S, or a wrong
// result.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <span>

#include "device.h"

namespace fusion_bench {
namespace {

constexpr int64_t kHeads = 8, kLength = 32768, kDim = 64, kCopies = 8, kMaskSide = 2048;
constexpr int64_t kNoLimit = 2147483647;
constexpr int64_t kLimit = int64_t{1} << 30;

constexpr double mib(int64_t bytes) {
    return static_cast<double>(bytes) / (1024.0 * 1024.0);
}

int64_t peak_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.rfind("VmHWM:", 0) == 0) return std::stoll(line.substr(6)) * 1024;
    }
    throw std::runtime_error("/proc/self/status does not tell the peak memory");
}

// A call on the whole problem or on a part of it: some heads, the last rows, and the first keys.
struct Call {
    std::string name = {};
    int64_t heads = kHeads, rows = kLength, keys = kLength;
    int64_t mode = 0;  // 0: without a mask
    int64_t pre = kNoLimit, next = kNoLimit;
    bool long_run = false;  // only with --full

    // Pairs of a row and a key that it sees.
    double pairs() const {
        const double r = static_cast<double>(rows), k = static_cast<double>(keys);
        const double window = static_cast<double>(pre) + 1;
        double seen = r * k;
        if (mode == 3) seen = r * (k - r) + r * (r + 1) / 2;
        if (mode == 4) seen = window * r - window * (window - 1) / 2;  // of a square
        return seen * static_cast<double>(heads);
    }
};

std::vector<Call> all_calls() {
    return {
        {.name = "window of 2048 tokens", .mode = 4, .pre = 2047, .next = 0},
        {.name = "causal, 1 head", .heads = 1, .mode = 3},
        {.name = "no mask, 2048 rows", .rows = 2048},
        {.name = "causal", .mode = 3, .long_run = true},
        {.name = "no mask", .long_run = true},
    };
}

// The tensors of the problem. Values are 1, so that every output has to be 1; queries and keys are random.
class Problem {
  public:
    Problem() {
        std::mt19937 random(1);
        std::normal_distribution<float> normal;
        std::vector<aclFloat16> piece(size_t{1} << 19);
        for (aclFloat16& element : piece) element = aclFloatToFloat16(normal(random));
        query_.fill(piece.data(), piece.size() * sizeof(aclFloat16));
        key_.fill(piece.data(), piece.size() * sizeof(aclFloat16));
        std::fill(piece.begin(), piece.end(), aclFloatToFloat16(1));
        value_.fill(piece.data(), piece.size() * sizeof(aclFloat16));
        const std::vector<uint8_t> zeros(kMaskSide * kMaskSide);
        mask_.fill(zeros.data(), zeros.size());
        forget_results();
    }

    // Outputs become NaN.
    void forget_results() {
        const std::vector<uint8_t> ones(size_t{1} << 20, 0xFF);
        for (const DeviceMemory* memory : {&out_, &max_, &sum_}) memory->fill(ones.data(), ones.size());
    }

    int64_t bytes() const {
        size_t sum = 0;
        for (const DeviceMemory* m : {&query_, &key_, &value_, &out_, &max_, &sum_, &mask_}) sum += m->bytes();
        return static_cast<int64_t>(sum);
    }

    // Phase one.
    Plan plan(const Call& c) const {
        const TensorView query = part(query_, c.heads, c.rows), out = part(out_, c.heads, c.rows);
        const TensorView key = part(key_, c.heads, c.keys), value = part(value_, c.heads, c.keys);
        const TensorView max = statistics(max_, c), sum = statistics(sum_, c);
        const TensorView mask(mask_, ACL_UINT8, {kMaskSide, kMaskSide}, {kMaskSide, 1}, 0, kMaskSide * kMaskSide);
        char layout[] = "BNSD";
        Plan plan;
        check(aclnnFlashAttentionScoreGetWorkspaceSize(
                  query.get(), key.get(), value.get(), nullptr, nullptr, nullptr, c.mode == 0 ? nullptr : mask.get(),
                  nullptr, 1 / std::sqrt(static_cast<double>(kDim)), 1.0, c.pre, c.next, c.heads, layout, 0, c.mode,
                  max.get(), sum.get(), nullptr, out.get(), &plan.workspace_size, &plan.executor),
              "aclnnFlashAttentionScoreGetWorkspaceSize");
        return plan;
    }

    // The largest distance of an output of the call to 1; infinite where one is not a number.
    double largest_error(const Call& c) const {
        double largest = 0;
        std::vector<aclFloat16> rows(static_cast<size_t>(c.rows * kDim));
        const size_t bytes = rows.size() * sizeof(aclFloat16);
        for (int64_t head = 0; head < c.heads; head++) {
            const aclFloat16* from = static_cast<const aclFloat16*>(out_.address()) + head * kLength * kDim;
            check(aclrtMemcpy(rows.data(), bytes, from, bytes, ACL_MEMCPY_DEVICE_TO_HOST), "aclrtMemcpy");
            for (const aclFloat16 element : rows) {
                const double error = std::fabs(aclFloat16ToFloat(element) - 1.0);
                largest = std::isnan(error) ? INFINITY : std::max(largest, error);
            }
        }
        return largest;
    }

  private:
    static TensorView part(const DeviceMemory& memory, int64_t heads, int64_t rows) {
        return {memory, ACL_FLOAT16, {1, heads, rows, kDim}, {0, kLength * kDim, kDim, 1}, 0, kHeads * kLength * kDim};
    }
    static TensorView statistics(const DeviceMemory& memory, const Call& c) {
        const Shape shape = {1, c.heads, c.rows, kCopies};
        return {memory, ACL_FLOAT, shape, packed_strides(shape), 0, kHeads * kLength * kCopies};
    }

    static constexpr size_t kElements = kHeads * kLength * kDim;
    DeviceMemory query_{kElements * 2}, key_{kElements * 2}, value_{kElements * 2}, out_{kElements * 2};
    DeviceMemory max_{kHeads * kLength * kCopies * 4}, sum_{kHeads * kLength * kCopies * 4};
    DeviceMemory mask_{kMaskSide * kMaskSide};
};

struct Measured {
    std::string name;
    double seconds = 0, gflops = 0, error = 0;
    uint64_t workspace = 0;
    int64_t peak = 0;
};

Measured run(const Session& session, Problem& problem, const Call& call) {
    problem.forget_results();
    const auto begin = std::chrono::steady_clock::now();
    const Plan plan = problem.plan(call);
    {
        const DeviceMemory workspace(plan.workspace_size);
        check(aclnnFlashAttentionScore(workspace.address(), plan.workspace_size, plan.executor, session.stream()),
              "aclnnFlashAttentionScore");
        check(aclrtSynchronizeStream(session.stream()), "aclrtSynchronizeStream");
    }
    Measured m{.name = call.name, .workspace = plan.workspace_size};
    m.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    m.gflops = call.pairs() * 4 * kDim / m.seconds * 1e-9;
    m.error = problem.largest_error(call);
    m.peak = peak_bytes();
    return m;
}

// Workspace of the plans alone, for S from 2048 to the full length; without a mask, and causal.
struct WorkspaceSize {
    int64_t length = 0;
    std::array<uint64_t, 2> bytes{};
};

std::vector<WorkspaceSize> workspace_sizes(const Problem& problem) {
    std::vector<WorkspaceSize> sizes;
    for (int64_t length = 2048; length <= kLength; length *= 2) {
        WorkspaceSize size{.length = length};
        for (int causal = 0; causal < 2; causal++) {
            const Plan plan = problem.plan({.rows = length, .keys = length, .mode = causal ? 3 : 0});
            size.bytes[causal] = plan.workspace_size;
            check(aclDestroyAclOpExecutor(plan.executor), "aclDestroyAclOpExecutor");
        }
        sizes.push_back(size);
    }
    return sizes;
}

std::string json(int64_t tensors, int64_t peak, std::span<const Measured> calls, std::span<const WorkspaceSize> sizes) {
    std::string text =
        fmt::format("{{\n  \"limit_bytes\": {},\n  \"peak_bytes\": {},\n  \"tensor_bytes\": {},\n  \"calls\": [\n",
                    kLimit, peak, tensors);
    for (const Measured& m : calls) {
        text += fmt::format(
            "    {{\"name\": \"{}\", \"seconds\": {:.3f}, \"gflops\": {:.2f}, \"workspace_bytes\": {}, "
            "\"peak_bytes\": {}}}{}\n",
            m.name, m.seconds, m.gflops, m.workspace, m.peak, &m == &calls.back() ? "" : ",");
    }
    text += "  ],\n  \"workspace\": [\n";
    for (const WorkspaceSize& s : sizes) {
        text += fmt::format("    {{\"length\": {}, \"bytes\": {}, \"causal_bytes\": {}}}{}\n", s.length, s.bytes[0],
                            s.bytes[1], &s == &sizes.back() ? "" : ",");
    }
    return text + "  ]\n}\n";
}

// What is wrong with the figures; empty when nothing is.
std::string verdict(std::span<const Measured> calls, std::span<const WorkspaceSize> sizes) {
    std::string wrong;
    if (peak_bytes() >= kLimit) wrong += fmt::format("the peak is not below {:.0f} MiB\n", mib(kLimit));
    for (const WorkspaceSize& s : sizes) {
        if (s.bytes != sizes.front().bytes) wrong += fmt::format("S {} needs another workspace\n", s.length);
    }
    for (const Measured& m : calls) {
        // Weights may be rounded to float16 before they meet the values; the sum of weights is not.
        if (!(m.error <= 0x1p-10)) wrong += fmt::format("{}: outputs are off by {}\n", m.name, m.error);
    }
    return wrong;
}

int measure(bool full, const std::optional<std::string>& file) {
    const Session session;
    const int64_t before = peak_bytes();
    Problem problem;
    fmt::print("B 1, N {}, S {}, D {}, float16: tensors {:.1f} MiB\n\n{:24} {:>9} {:>9} {:>14} {:>10}\n", kHeads,
               kLength, kDim, mib(problem.bytes()), "", "seconds", "GFLOP/s", "workspace MiB", "peak MiB");
    fmt::print("{:24} {:>9} {:>9} {:>14} {:>10.1f}\n", "libraries and device", "", "", "", mib(before));
    fmt::print("{:24} {:>9} {:>9} {:>14} {:>10.1f}\n", "and tensors", "", "", "", mib(peak_bytes()));
    std::vector<Measured> measured;
    for (const Call& call : all_calls()) {
        if (call.long_run && !full) continue;
        const Measured& m = measured.emplace_back(run(session, problem, call));
        fmt::print("{:24} {:>9.2f} {:>9.1f} {:>14.3f} {:>10.1f}\n", m.name, m.seconds, m.gflops,
                   mib(static_cast<int64_t>(m.workspace)), mib(m.peak));
        std::fflush(stdout);
    }

    const std::vector<WorkspaceSize> sizes = workspace_sizes(problem);
    fmt::print("\n{:>24} {:>19} {:>14}\n", "S", "workspace bytes", "causal");
    for (const WorkspaceSize& s : sizes) fmt::print("{:>24} {:>19} {:>14}\n", s.length, s.bytes[0], s.bytes[1]);

    const std::string wrong = verdict(measured, sizes);
    fmt::print("\npeak of the whole process: {:.1f} MiB of {:.0f} MiB\n{}", mib(peak_bytes()), mib(kLimit), wrong);
    if (file && !(std::ofstream(*file) << json(problem.bytes(), peak_bytes(), measured, sizes)).flush()) {
        throw std::runtime_error("cannot write " + *file);
    }
    return wrong.empty() ? 0 : 1;
}

}  // namespace
}  // namespace fusion_bench

int main(int argc, char** argv) {
    bool full = false;
    std::optional<std::string> file;
    for (int i = 1; i < argc; i++) {
        if (std::strcmp(argv[i], "--full") == 0) {
            full = true;
        } else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
            file = argv[++i];
        } else {
            fmt::print(stderr, "usage: memory_bench [--full] [--json <file>]\n");
            return 2;
        }
    }
    try {
        return fusion_bench::measure(full, file);
    } catch (const std::exception& error) {
        fmt::print(stderr, "memory_bench: {}\n", error.what());
        return 2;
    }
}
