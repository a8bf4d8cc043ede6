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
    forward_ = reinterpret_cast<decltype(forward_)>(dlsym(library_, "fusion_sketch_forward"));
    if (forward_ == nullptr) throw std::runtime_error(dlerror());
}

Sketches::~Sketches() {
    dlclose(library_);
}

bool Sketches::can(const testing::Case& c) const {
    testing::Case plain;
    plain.layout = "BNSD";
    plain.dtype = c.dtype;
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
    return c == plain && same_instructions;
}

SketchCase::SketchCase(const Sketches& sketches, const PreparedCase& prepared)
    : sketches_(sketches),
      prepared_(prepared),
      out_(prepared.memory(testing::kOut).bytes()),
      max_(prepared.memory(testing::kMax).bytes()),
      sum_(prepared.memory(testing::kSum).bytes()) {
    const testing::Case& c = prepared.description();
    const int64_t q_len = c.q[0], kv_len = c.kv[0], bytes = testing::element_bytes(c.dtype);
    FusionSketchHead h{};
    h.type = static_cast<int>(c.dtype);
    h.q_len = static_cast<int>(q_len);
    h.kv_len = static_cast<int>(kv_len);
    h.head_dim = static_cast<int>(c.d);
    h.scale = static_cast<float>(c.scale);
    h.first = c.mode == 4 && c.masked() ? -static_cast<int>(std::min<int64_t>(c.pre, kFar)) : -kFar;
    h.last = !c.masked() ? kFar : c.mode == 4 ? static_cast<int>(std::min<int64_t>(c.next, kFar)) : 0;
    auto rows = [](const DeviceMemory& memory, int64_t offset) {
        return static_cast<char*>(memory.address()) + offset;
    };
    for (int64_t head = 0; head < c.batch * c.heads; head++) {
        const int64_t kv_head = head / (c.heads / c.kv_heads);
        h.query = rows(prepared.memory(testing::kQuery), head * q_len * c.d * bytes);
        h.key = rows(prepared.memory(testing::kKey), kv_head * kv_len * c.d * bytes);
        h.value = rows(prepared.memory(testing::kValue), kv_head * kv_len * c.d * bytes);
        h.out = rows(out_, head * q_len * c.d * bytes);
        h.max = static_cast<float*>(max_.address()) + head * q_len;
        h.sum = static_cast<float*>(sum_.address()) + head * q_len;
        heads_.push_back(h);
    }
}

double SketchCase::run() {
    const double begin = processor_time();
    for (const FusionSketchHead& head : heads_) sketches_.forward(head);
    return processor_time() - begin;
}

double SketchCase::largest_difference() const {
    const testing::DType dtype = prepared_.description().dtype;
    const int64_t bytes = testing::element_bytes(dtype);
    double largest = 0;
    for (size_t at = 0; at < out_.bytes(); at += bytes) {
        auto element = [&](const DeviceMemory& memory) {
            return testing::from_bits(dtype,
                                      testing::load_bits(dtype, static_cast<const char*>(memory.address()) + at));
        };
        const double difference = std::fabs(element(out_) - element(prepared_.memory(testing::kOut)));
        largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
    }
    return largest;
}

}  // namespace fusion_bench
