#include "sketches.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <filesystem>

#include "clock.h"
#include "opbase/cpu_features.h"

namespace fusion_bench {
namespace {

namespace testing = flash_attention::testing;
namespace fs = std::filesystem;

class TemporaryFolder {
  public:
    TemporaryFolder() : path_(fs::temp_directory_path() / "attention_bench.XXXXXX") {
        if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make the folder " + path_);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    std::string file(const char* name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

void run_compiler(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), FUSION_CXX_COMPILER);
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_t child = 0;
    int status = 0;
    if (posix_spawnp(&child, argv[0], nullptr, nullptr, argv.data(), environ) != 0)
        throw std::runtime_error(fmt::format("cannot run the compiler {}", argv[0]));
    while (waitpid(child, &status, 0) == -1 && errno == EINTR) continue;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        throw std::runtime_error(fmt::format("{} could not compile them", argv[0]));
}

// The sketches' own tables: avx512 is compiled with the dot products too.
std::vector<std::string> flags_of(const std::string& table) {
    const opbase::CpuFeatures& has = opbase::cpu_features();
    if (table.substr(0, 6) == "avx512" && has.avx512_bf16)
        return {"-march=x86-64-v4", "-mavx512bf16", "-mprefer-vector-width=512", "-Wno-maybe-uninitialized"};
    if (table == "avx2" && has.avx2) return {"-march=x86-64-v3"};
    throw std::runtime_error(fmt::format("they have no kernels for {} on this processor", table));
}

constexpr int kFar = INT_MAX / 4;
constexpr size_t kCopies = 8;  // of a row's maximum and sum

}  // namespace

Sketches::Sketches(const std::string& folder, const std::string& table) : table_(table) {
    const std::string kernels = folder + "/kernels.cpp";
    if (!fs::exists(kernels)) throw std::runtime_error(kernels + " does not exist");
    const std::vector<std::string> flags = flags_of(table);
    const TemporaryFolder temporary;
    const std::string object = temporary.file("kernels.o"), library = temporary.file("libsketches.so");
    std::vector<std::string> compile = {"-std=c++17", "-O3", "-fPIC", "-c", kernels, "-o", object};
    compile.insert(compile.end(), flags.begin(), flags.end());
    run_compiler(compile);
    const std::string shim_folder = FUSION_BENCHMARKS_DIR;
    run_compiler({"-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-I" + folder, "-I" + shim_folder,
                  table == "avx2" ? "-DSKETCH_TABLE=avx2" : "-DSKETCH_TABLE=avx512", shim_folder + "/sketch_shim.cpp",
                  object, "-o", library});
    library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) throw std::runtime_error(dlerror());
    auto find = [this](const char* name) {
        void* const found = dlsym(library_, name);
        if (found == nullptr) throw std::runtime_error(dlerror());
        return reinterpret_cast<Pass>(found);
    };
    forward_ = find("fusion_sketch_forward");
    backward_ = find("fusion_sketch_backward");
}

Sketches::~Sketches() {
    dlclose(library_);
}

bool Sketches::can(const testing::Case& c) const {
    testing::Case plain;
    plain.layout = "BNSD";
    plain.dtype = c.dtype;
    plain.backward = c.backward;
    plain.batch = c.batch;
    plain.heads = c.heads;
    plain.kv_heads = c.kv_heads;
    plain.d = plain.dv = c.d;
    plain.q = c.q;
    plain.kv = c.kv;
    plain.scale = c.scale;
    plain.seed = c.seed;
    if (c.compressed() && (c.mode == 2 || ((c.mode == 3 || c.mode == 4) && c.q == c.kv))) {
        plain.mask = c.mask;
        plain.mode = c.mode;
        plain.pre = c.pre;
        plain.next = c.next;
    }
    const bool same_instructions = table_ != "avx512" || c.dtype != testing::DType::kBf16;
    // Of shared keys they would give a gradient for each query head.
    const bool own_gradients = !c.backward || c.heads == c.kv_heads;
    return c == plain && same_instructions && own_gradients;
}

SketchCase::SketchCase(const Sketches& sketches, const PreparedCase& prepared)
    : prepared_(prepared),
      pass_(sketches.pass(prepared.description().backward)),
      max_(prepared.memory(testing::kMax).bytes() / kCopies),
      sum_(max_.bytes()) {
    const testing::Case& c = prepared.description();
    const std::vector<testing::Argument> outputs =
        c.backward ? std::vector{testing::kDq, testing::kDk, testing::kDv} : std::vector{testing::kOut};
    for (const testing::Argument output : outputs)
        outputs_.emplace_back(output, DeviceMemory(prepared.memory(output).bytes()));
    if (c.backward) read_statistics();
    FusionSketchHead h{};
    h.type = static_cast<int>(c.dtype);
    h.q_len = static_cast<int>(c.q[0]);
    h.kv_len = static_cast<int>(c.kv[0]);
    h.head_dim = static_cast<int>(c.d);
    h.scale = static_cast<float>(c.scale);
    h.first = c.mode == 4 && c.masked() ? -static_cast<int>(std::min<int64_t>(c.pre, kFar)) : -kFar;
    h.last = !c.masked() ? kFar : c.mode == 4 ? static_cast<int>(std::min<int64_t>(c.next, kFar)) : 0;
    add_heads(h);
}

void SketchCase::add_heads(const FusionSketchHead& common) {
    const testing::Case& c = prepared_.description();
    const int64_t row_bytes = c.d * testing::element_bytes(c.dtype);
    auto memory_of = [this](testing::Argument argument) -> const DeviceMemory& {
        for (const auto& [output, memory] : outputs_) {
            if (output == argument) return memory;
        }
        return prepared_.memory(argument);
    };
    for (int64_t head = 0; head < c.batch * c.heads; head++) {
        const int64_t row = head * c.q[0], kv_row = head / (c.heads / c.kv_heads) * c.kv[0];
        auto at = [&](testing::Argument argument, int64_t first) {
            return static_cast<char*>(memory_of(argument).address()) + first * row_bytes;
        };
        FusionSketchHead h = common;
        h.query = at(testing::kQuery, row);
        h.key = at(testing::kKey, kv_row);
        h.value = at(testing::kValue, kv_row);
        h.out = at(testing::kOut, row);
        h.max = static_cast<float*>(max_.address()) + row;
        h.sum = static_cast<float*>(sum_.address()) + row;
        if (c.backward) {
            h.dy = at(testing::kDy, row);
            h.dq = at(testing::kDq, row);
            h.dk = at(testing::kDk, kv_row);
            h.dv = at(testing::kDv, kv_row);
        }
        heads_.push_back(h);
    }
}

// Of the operator's, which have every number several times.
void SketchCase::read_statistics() {
    auto read = [this](testing::Argument argument, const DeviceMemory& into) {
        const auto* from = static_cast<const float*>(prepared_.memory(argument).address());
        auto* const to = static_cast<float*>(into.address());
        for (size_t row = 0; row < into.bytes() / sizeof(float); row++) to[row] = from[row * kCopies];
    };
    read(testing::kMax, max_);
    read(testing::kSum, sum_);
}

double SketchCase::run() {
    const double begin = processor_time();
    for (const FusionSketchHead& head : heads_) pass_(&head);
    return processor_time() - begin;
}

double SketchCase::largest_difference() const {
    const testing::DType dtype = prepared_.description().dtype;
    double largest = 0;
    for (const auto& [argument, memory] : outputs_) {
        for (size_t at = 0; at < memory.bytes(); at += testing::element_bytes(dtype)) {
            auto element = [&](const DeviceMemory& of) {
                return testing::from_bits(dtype,
                                          testing::load_bits(dtype, static_cast<const char*>(of.address()) + at));
            };
            const double expected = element(prepared_.memory(argument));
            const double difference = std::fabs(element(memory) - expected) / std::max(1.0, std::fabs(expected));
            largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
        }
    }
    return largest;
}

}  // namespace fusion_bench
