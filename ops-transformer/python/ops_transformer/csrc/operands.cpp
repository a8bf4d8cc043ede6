#include "operands.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <map>
#include <mutex>
#include <vector>

namespace ops_transformer {
namespace {

constexpr int64_t kPrefixMode = 6;
constexpr int64_t kMaskSide = 2048;
constexpr int64_t kPrefixRows = 1024;  // below the triangle, half of them hidden

// Modes whose mask only stands for a pattern. Explicit masks belong to modes 0, 1 and 5.
bool has_compressed_mask(int64_t mode) {
    return mode == 2 || mode == 3 || mode == 4 || mode == kPrefixMode || mode == 7 || mode == 8;
}

// True where hidden. This project's operators read none of it, the NPU's do.
at::Tensor make_compressed_mask(int64_t mode, c10::Device device) {
    const auto options = at::TensorOptions().device(device);
    const at::Tensor places = at::arange(kMaskSide, options);
    const at::Tensor triangle = places.unsqueeze(0).gt(places.unsqueeze(1));
    if (mode != kPrefixMode) return triangle;
    at::Tensor mask = at::zeros({kMaskSide + kPrefixRows, kMaskSide}, options.dtype(at::kBool));
    mask.narrow(0, 0, kMaskSide).copy_(triangle);
    mask.narrow(0, kMaskSide, kPrefixRows).narrow(1, kMaskSide / 2, kMaskSide / 2).fill_(true);
    return mask;
}

// Made once for a device; never freed, because operators may be called until the process ends.
at::Tensor compressed_mask(int64_t mode, c10::Device device) {
    static auto& mutex = *new std::mutex;
    static auto& masks = *new std::map<std::pair<bool, c10::DeviceIndex>, at::Tensor>;
    const std::lock_guard lock(mutex);
    at::Tensor& mask = masks[{mode == kPrefixMode, device.index()}];
    if (!mask.defined()) mask = make_compressed_mask(mode, device);
    return mask;
}

// The ends of the sequences, from their running totals.
std::vector<int64_t> read_ends(const char* name, const at::Tensor& totals, int64_t tokens, const char* operand) {
    const at::Tensor host = totals.to(at::kCPU, at::kLong).contiguous();
    const int64_t* values = host.const_data_ptr<int64_t>();
    const int64_t count = host.numel();
    TORCH_CHECK_VALUE(count > 0 && values[0] == 0, name, " begins with ",
                      count > 0 ? std::to_string(values[0]) : "nothing", ": running totals of lengths begin with 0");
    for (int64_t i = 1; i < count; ++i) {
        TORCH_CHECK_VALUE(values[i] >= values[i - 1], name, "[", i, "] is ", values[i], ", less than ", values[i - 1],
                          " before it: running totals of lengths do not decrease");
    }
    TORCH_CHECK_VALUE(values[count - 1] <= tokens, name, " ends with ", values[count - 1], ", but ", operand, " has ",
                      tokens, " tokens");
    return {values + 1, values + count};
}

// The operator measures distances from the first query and key of each sequence, unlike causal and window.
void check_slopes(const Options& o, const std::vector<int64_t>& query_ends, const std::vector<int64_t>& key_ends) {
    if (!o.has_slopes()) return;
    int64_t query_begin = 0, key_begin = 0;
    for (size_t i = 0; i < query_ends.size(); ++i) {
        const int64_t queries = query_ends[i] - query_begin, keys = key_ends[i] - key_begin;
        TORCH_CHECK_VALUE(queries == keys, "alibi_slopes: sequence ", i, " has ", queries, " queries and ", keys,
                          " keys: the numbers have to be equal");
        query_begin = query_ends[i], key_begin = key_ends[i];
    }
}

}  // namespace

SharedArguments::SharedArguments(const at::Tensor& query, const at::Tensor& key, const Options& o)
    : pse(make_handle(o.pse)),
      sink(make_handle(o.sink)),
      prefix(make_handle(o.prefix)),
      is_packed(o.layout == "TND"),
      scale(o.scale),
      keep_prob(o.keep_prob),
      pre_tokens(o.pre_tokens.expect_int()),
      next_tokens(o.next_tokens.expect_int()),
      heads(query.size(o.layout == "BSND" ? 2 : 1)),
      sparse_mode(o.sparse_mode),
      pse_type(o.pse_type),
      seed(o.seed.has_value() ? o.seed->item<int64_t>() : 0),
      layout(o.layout) {
    static char same_as_input[] = "same_as_input";
    statistics_layout = is_packed ? same_as_input : nullptr;
    if (o.atten_mask.has_value()) {
        mask = make_handle(o.atten_mask);
    } else if (has_compressed_mask(sparse_mode)) {
        mask = make_handle(compressed_mask(sparse_mode, query.device()));
    }
    if (!is_packed) return;
    std::vector<int64_t> queries = read_ends("cu_seqlens_q", *o.cu_seqlens_q, query.size(0), "q");
    std::vector<int64_t> keys = read_ends("cu_seqlens_k", *o.cu_seqlens_k, key.size(0), "k");
    TORCH_CHECK_VALUE(queries.size() == keys.size(), "cu_seqlens_q has ", queries.size(), " sequences, cu_seqlens_k ",
                      keys.size(), ": both describe the same ones");
    check_slopes(o, queries, keys);
    if (queries.empty()) return;
    std::vector<int64_t> prefixes = o.prefix.vec();
    if (queries.back() < query.size(0) || keys.back() < key.size(0)) add_idle_sequence(queries, keys, prefixes, o);
    query_ends = make_handle(queries);
    key_ends = make_handle(keys);
    prefix = make_handle(prefixes);
}

// An end of 0 behind the others says that the tokens behind them are padding. It counts as a sequence without tokens.
void SharedArguments::add_idle_sequence(std::vector<int64_t>& queries, std::vector<int64_t>& keys,
                                        std::vector<int64_t>& prefixes, const Options& o) {
    queries.push_back(0);
    keys.push_back(0);
    if (!prefixes.empty()) prefixes.push_back(0);
    if (o.has_slopes() && o.pse->dim() == 2) {
        slopes = at::cat({*o.pse, at::zeros({1, o.pse->size(1)}, o.pse->options())});
        pse = make_handle(slopes);
    }
}

}  // namespace ops_transformer
