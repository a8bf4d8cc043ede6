// A call of an attention operator as data, legal or not: what the entry points get, with each tensor as its
// description.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "entry_points.h"
#include "tensor_spec.h"

namespace flash_attention::testing {

// What the inputs hold. kCounting: query 0 and value 1, bias, sink and rope parts 0, all keys kept by dropout; so every
// row with visible keys has maximum 0, sum = number of visible keys (one more with a sink), and output 1 (less the
// share of the sink, times 1 / keepProb with a dropout mask). kNoise: numbers that depend on the argument and the
// element's index alone, not on its place.
enum class Fill { kCounting, kNoise };

struct Call {
    Version version = Version::kScore;
    Tensor query, key, value, query_rope, key_rope, real_shift, drop_mask, padding_mask, mask;
    Tensor d_scale_q, d_scale_k, d_scale_v, sink;
    List prefix, q_ends, kv_ends, q_start, kv_start;
    double scale = 0.5, keep_prob = 1.0;
    int64_t pre = std::numeric_limits<int32_t>::max(), next = std::numeric_limits<int32_t>::max();
    int64_t head_num = 0;
    const char* layout = nullptr;
    int64_t inner_precise = 0, sparse_mode = 0, out_dtype = 0, pse_type = 1;
    const char* softmax_out_layout = nullptr;
    int64_t seed = 0, offset = 0;
    Tensor max, sum, softmax_out, out;
    // Of backward, where max, sum, softmax_out and out are the inputs that forward has written.
    Tensor dy, d_scale_dy, d_scale_o, dq, dk, dv, dq_rope, dk_rope, dpse, dsink;
    bool null_workspace_size = false, null_executor = false;
    Fill fill = Fill::kCounting;
    // Which bytes of the mask are 1, by their index in row-major order of the mask's shape.
    std::function<bool(int64_t)> hidden = [](int64_t) { return false; };
    std::function<float(int64_t)> bias = {};  // what realShift holds, likewise; empty: what `fill` says

    const char* name() const { return traits(version).name; }
    bool backward() const { return traits(version).backward; }
};

struct Sizes {
    int64_t b = 2, n = 4, nkv = 2, sq = 3, skv = 5, d = 8, dv = 8;
};

// Legal float calls without optional arguments, of the first versions.
Call dense_call(const char* layout = "BNSD", const Sizes& sizes = {});
Call varlen_call(const std::vector<int64_t>& q_lengths = {3, 0, 4}, const std::vector<int64_t>& kv_lengths = {5, 2, 4},
                 int64_t n = 4, int64_t nkv = 2, int64_t d = 8);

// The backward call of a forward call: first version of its kind, or the one that is given. dq, dk, dv, and the
// gradients of rope parts and sink where they are; no dpse.
Call backward_of(Call forward);
Call backward_of(Call forward, Version version);

// Sets the element type of query, key, value, attentionOut and, of a backward call, of what has the same.
void set_dtype(Call& call, aclDataType dtype);

// Tensors without memory, for calls that are refused before anything is read and for compressed masks.
inline TensorSpec byte_tensor(std::vector<int64_t> shape, aclDataType dtype = ACL_UINT8) {
    return {.shape = std::move(shape), .dtype = dtype, .without_data = true};
}
inline TensorSpec compressed_mask(std::vector<int64_t> shape = {2048, 2048}) {
    return byte_tensor(std::move(shape), ACL_BOOL);
}

}  // namespace flash_attention::testing
