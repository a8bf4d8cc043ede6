// Variable-length attention with a sliding window through the aclnn interface, checked against plain loops in double.
//
// Four sequences of different lengths are packed into one call (layout "TND"). Eight query heads share two key/value
// heads. Every query sees the 64 keys that end at its own position, counted from the end of the sequence: sparse mode 4
// with preTokens = 63 and nextTokens = 0. The program uses nothing but the public interface, so it also compiles
// against the vendor's toolkit.
//
//   flash_attention_varlen [seed]        exit code 0: the result agrees with the double-precision computation

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_flash_attention_score.h"

namespace {

constexpr int64_t kHeads = 8;        // query heads
constexpr int64_t kKvHeads = 2;      // key/value heads; each serves kHeads / kKvHeads query heads
constexpr int64_t kDim = 64;         // elements of a head
constexpr int64_t kWindow = 64;      // keys that a query sees, itself included
constexpr int64_t kStatistics = 8;   // maximum and sum are stored eight times in a row
constexpr int64_t kMaskSide = 2048;  // the operator asks for a mask of this size in modes 2, 3 and 4
const double kScale = 1.0 / std::sqrt(static_cast<double>(kDim));

// Lengths of the sequences; the second has fewer queries than keys, as in generation with a cache.
const std::vector<int64_t> kQueryLengths = {5, 130, 1, 300};
const std::vector<int64_t> kKeyLengths = {5, 257, 90, 300};

// Turns a status code into an exception that carries the library's own explanation.
void check(int status, const char* call) {
    if (status == ACL_SUCCESS) return;
    const char* text = aclGetRecentErrMsg();
    throw std::runtime_error(std::string(call) + " failed with code " + std::to_string(status) +
                             (text != nullptr ? std::string(":\n  ") + text : std::string()));
}

// Device and stream of the program; released in reverse order.
struct Session {
    aclrtStream stream = nullptr;
    Session() {
        check(aclInit(nullptr), "aclInit");
        check(aclrtSetDevice(0), "aclrtSetDevice");
        check(aclrtCreateStream(&stream), "aclrtCreateStream");
    }
    ~Session() {
        aclrtDestroyStream(stream);
        aclrtResetDevice(0);
        aclFinalize();
    }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
};

// Bytes on the device.
struct DeviceMemory {
    void* address = nullptr;
    explicit DeviceMemory(size_t bytes) {
        if (bytes > 0) check(aclrtMalloc(&address, bytes, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
    }
    ~DeviceMemory() {
        if (address != nullptr) aclrtFree(address);
    }
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;
};

// A contiguous tensor on the device with the contents of `host`.
template <typename T>
struct DeviceTensor {
    DeviceMemory memory;
    aclTensor* handle = nullptr;

    DeviceTensor(const std::vector<T>& host, const std::vector<int64_t>& shape, aclDataType type)
        : memory(host.size() * sizeof(T)) {
        const size_t bytes = host.size() * sizeof(T);
        check(aclrtMemcpy(memory.address, bytes, host.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy");
        std::vector<int64_t> strides(shape.size(), 1);
        for (size_t i = shape.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * shape[i];
        handle = aclCreateTensor(shape.data(), shape.size(), type, strides.data(), 0, ACL_FORMAT_ND, shape.data(),
                                 shape.size(), memory.address);
        if (handle == nullptr) check(ACL_ERROR_INVALID_PARAM, "aclCreateTensor");
    }
    ~DeviceTensor() { aclDestroyTensor(handle); }
    DeviceTensor(const DeviceTensor&) = delete;
    DeviceTensor& operator=(const DeviceTensor&) = delete;

    std::vector<T> to_host(size_t count) const {
        std::vector<T> host(count);
        check(aclrtMemcpy(host.data(), count * sizeof(T), memory.address, count * sizeof(T), ACL_MEMCPY_DEVICE_TO_HOST),
              "aclrtMemcpy");
        return host;
    }
};

// The inputs as the operator gets them: half precision, [tokens, heads, dim].
struct Inputs {
    std::vector<aclFloat16> query, key, value;
};

// What the operator returns.
struct Outputs {
    std::vector<aclFloat16> attention;  // [query tokens, kHeads, kDim]
    std::vector<float> softmax_sum;     // for each sequence a block [kHeads, its queries, 8]
};

int64_t total(const std::vector<int64_t>& lengths) {
    int64_t sum = 0;
    for (int64_t length : lengths) sum += length;
    return sum;
}

// The operator takes the ends of the sequences: lengths 5, 130, 1 become 5, 135, 136.
std::vector<int64_t> ends(const std::vector<int64_t>& lengths) {
    std::vector<int64_t> result;
    for (int64_t length : lengths) result.push_back(length + (result.empty() ? 0 : result.back()));
    return result;
}

Inputs random_inputs(uint32_t seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    const auto fill = [&](int64_t count) {
        std::vector<aclFloat16> values(static_cast<size_t>(count));
        for (aclFloat16& value : values) value = aclFloatToFloat16(normal(generator));
        return values;
    };
    return {fill(total(kQueryLengths) * kHeads * kDim), fill(total(kKeyLengths) * kKvHeads * kDim),
            fill(total(kKeyLengths) * kKvHeads * kDim)};
}

// Both phases of the operator: ask for the workspace, then run on the stream and wait.
Outputs run_operator(const Inputs& inputs, aclrtStream stream) {
    const int64_t queries = total(kQueryLengths), keys = total(kKeyLengths);
    const size_t statistics = static_cast<size_t>(queries * kHeads * kStatistics);

    const DeviceTensor<aclFloat16> query(inputs.query, {queries, kHeads, kDim}, ACL_FLOAT16);
    const DeviceTensor<aclFloat16> key(inputs.key, {keys, kKvHeads, kDim}, ACL_FLOAT16);
    const DeviceTensor<aclFloat16> value(inputs.value, {keys, kKvHeads, kDim}, ACL_FLOAT16);
    const DeviceTensor<aclFloat16> attention(std::vector<aclFloat16>(inputs.query.size()), {queries, kHeads, kDim},
                                             ACL_FLOAT16);
    const DeviceTensor<float> maximum(std::vector<float>(statistics), {queries, kHeads, kStatistics}, ACL_FLOAT);
    const DeviceTensor<float> sum(std::vector<float>(statistics), {queries, kHeads, kStatistics}, ACL_FLOAT);

    // 1 = hidden: everything right of the diagonal. The window itself is in preTokens and nextTokens.
    std::vector<uint8_t> triangle(kMaskSide * kMaskSide);
    for (int64_t row = 0; row < kMaskSide; ++row) {
        for (int64_t column = row + 1; column < kMaskSide; ++column) triangle[row * kMaskSide + column] = 1;
    }
    const DeviceTensor<uint8_t> mask(triangle, {kMaskSide, kMaskSide}, ACL_UINT8);

    const std::vector<int64_t> query_ends = ends(kQueryLengths), key_ends = ends(kKeyLengths);
    aclIntArray* actual_query = aclCreateIntArray(query_ends.data(), query_ends.size());
    aclIntArray* actual_key = aclCreateIntArray(key_ends.data(), key_ends.size());
    char layout[] = "TND";
    uint64_t workspace_size = 0;
    aclOpExecutor* executor = nullptr;
    const int status = aclnnFlashAttentionVarLenScoreGetWorkspaceSize(
        query.handle, key.handle, value.handle, /*realShift=*/nullptr, /*dropMask=*/nullptr, /*paddingMask=*/nullptr,
        mask.handle, /*prefix=*/nullptr, actual_query, actual_key, kScale, /*keepProb=*/1.0,
        /*preTokens=*/kWindow - 1, /*nextTokens=*/0, kHeads, layout, /*innerPrecise=*/0, /*sparseMode=*/4,
        maximum.handle, sum.handle, /*softmaxOut=*/nullptr, attention.handle, &workspace_size, &executor);
    // The lists are captured by the first phase.
    aclDestroyIntArray(actual_query);
    aclDestroyIntArray(actual_key);
    check(status, "aclnnFlashAttentionVarLenScoreGetWorkspaceSize");

    const DeviceMemory workspace(workspace_size);
    check(aclnnFlashAttentionVarLenScore(workspace.address, workspace_size, executor, stream),
          "aclnnFlashAttentionVarLenScore");
    check(aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");
    return {attention.to_host(inputs.query.size()), sum.to_host(statistics)};
}

// One query row by the formula: softmax over the visible keys, then the weighted mean of their values.
struct Row {
    std::vector<double> attention = std::vector<double>(kDim);
    double softmax_sum = 0;
};

Row expected_row(const Inputs& inputs, size_t sequence, int64_t row, int64_t head) {
    const int64_t query_start = ends(kQueryLengths)[sequence] - kQueryLengths[sequence];
    const int64_t key_start = ends(kKeyLengths)[sequence] - kKeyLengths[sequence];
    const int64_t kv_head = head / (kHeads / kKvHeads);
    const aclFloat16* query = &inputs.query[((query_start + row) * kHeads + head) * kDim];
    const auto at = [&](const std::vector<aclFloat16>& tensor, int64_t key) {
        return &tensor[((key_start + key) * kKvHeads + kv_head) * kDim];
    };

    // The last query stands at the last key; its window reaches kWindow - 1 keys back.
    const int64_t last = row + kKeyLengths[sequence] - kQueryLengths[sequence];
    const int64_t first = std::max<int64_t>(0, last - (kWindow - 1));
    std::vector<double> scores;
    for (int64_t key = first; key <= last; ++key) {
        double dot = 0;
        for (int64_t d = 0; d < kDim; ++d) {
            dot += static_cast<double>(aclFloat16ToFloat(query[d])) * aclFloat16ToFloat(at(inputs.key, key)[d]);
        }
        scores.push_back(dot * kScale);
    }
    Row result;
    const double maximum = *std::max_element(scores.begin(), scores.end());
    for (int64_t key = first; key <= last; ++key) {
        const double weight = std::exp(scores[key - first] - maximum);
        result.softmax_sum += weight;
        for (int64_t d = 0; d < kDim; ++d) result.attention[d] += weight * aclFloat16ToFloat(at(inputs.value, key)[d]);
    }
    for (double& element : result.attention) element /= result.softmax_sum;
    return result;
}

// Compares every element, prints first, middle and last row of each sequence, returns whether all are within the
// bounds.
bool compare(const Inputs& inputs, const Outputs& outputs) {
    double largest_value = 0;
    for (aclFloat16 v : inputs.value) largest_value = std::max(largest_value, std::fabs(double(aclFloat16ToFloat(v))));
    // The output is rounded to half precision (2^-11 of it), and so may be the weights; sums are single precision.
    const double attention_bound = std::ldexp(largest_value, -10), sum_bound = 1e-4;

    double attention_error = 0, sum_error = 0;
    int64_t start = 0;
    std::printf("%8s %5s %5s  %22s  %22s\n", "", "", "", "attention[0]", "softmax sum");
    std::printf("%8s %5s %5s  %10s  %10s  %10s  %10s\n", "sequence", "query", "head", "operator", "double", "operator",
                "double");
    for (size_t sequence = 0; sequence < kQueryLengths.size(); ++sequence) {
        const int64_t length = kQueryLengths[sequence];
        for (int64_t row = 0; row < length; ++row) {
            for (int64_t head = 0; head < kHeads; ++head) {
                const Row expected = expected_row(inputs, sequence, row, head);
                const aclFloat16* attention = &outputs.attention[((start + row) * kHeads + head) * kDim];
                const float sum = outputs.softmax_sum[(start * kHeads + head * length + row) * kStatistics];
                for (int64_t d = 0; d < kDim; ++d) {
                    const double error = std::fabs(aclFloat16ToFloat(attention[d]) - expected.attention[d]);
                    attention_error = std::isnan(error) ? INFINITY : std::max(attention_error, error);
                }
                const double error = std::fabs(sum / expected.softmax_sum - 1);
                sum_error = std::isnan(error) ? INFINITY : std::max(sum_error, error);
                if (head == row % kHeads && (row == 0 || row == length / 2 || row == length - 1)) {
                    std::printf("%8zu %5lld %5lld  %10.6f  %10.6f  %10.6f  %10.6f\n", sequence, (long long)row,
                                (long long)head, aclFloat16ToFloat(attention[0]), expected.attention[0], sum,
                                expected.softmax_sum);
                }
            }
        }
        start += length;
    }
    std::printf("\nlargest error of attention    %.2e   (bound %.2e)\n", attention_error, attention_bound);
    std::printf("largest error of softmax sum  %.2e   (bound %.2e, relative)\n", sum_error, sum_bound);
    return attention_error <= attention_bound && sum_error <= sum_bound;
}

}  // namespace

int main(int argc, char** argv) try {
    const uint32_t seed = argc > 1 ? static_cast<uint32_t>(std::strtoul(argv[1], nullptr, 0)) : 20240607;
    const Session session;
    const Inputs inputs = random_inputs(seed);
    std::printf(
        "%zu sequences, %lld query tokens, %lld keys, %lld/%lld heads of %lld, window %lld, float16, seed %u\n\n",
        kQueryLengths.size(), (long long)total(kQueryLengths), (long long)total(kKeyLengths), (long long)kHeads,
        (long long)kKvHeads, (long long)kDim, (long long)kWindow, seed);
    const bool good = compare(inputs, run_operator(inputs, session.stream));
    std::printf("%s\n", good ? "The operator agrees with the double-precision computation."
                             : "The operator DISAGREES with the double-precision computation.");
    return good ? 0 : 1;
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
}
