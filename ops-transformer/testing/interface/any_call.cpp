#include "any_call.h"

#include <numeric>
#include <string>
#include <utility>

namespace flash_attention::testing {

Call dense_call(const char* layout, const Sizes& s) {
    const auto shape = [&](int64_t length, int64_t heads, int64_t dim) -> std::vector<int64_t> {
        const std::string letters = layout;
        if (letters == "BSH") return {s.b, length, heads * dim};
        if (letters == "SBH") return {length, s.b, heads * dim};
        if (letters == "BSND") return {s.b, length, heads, dim};
        return {s.b, heads, length, dim};
    };
    Call call;
    call.query = TensorSpec{.shape = shape(s.sq, s.n, s.d)};
    call.key = TensorSpec{.shape = shape(s.skv, s.nkv, s.d)};
    call.value = TensorSpec{.shape = shape(s.skv, s.nkv, s.dv)};
    call.out = TensorSpec{.shape = shape(s.sq, s.n, s.dv)};
    call.max = call.sum = TensorSpec{.shape = {s.b, s.n, s.sq, 8}};
    call.head_num = s.n;
    call.layout = layout;
    return call;
}

Call varlen_call(const std::vector<int64_t>& q_lengths, const std::vector<int64_t>& kv_lengths, int64_t n, int64_t nkv,
                 int64_t d) {
    Call call;
    call.version = Version::kVarLen;
    call.layout = "TND";
    call.head_num = n;
    call.q_ends.emplace(q_lengths.size());
    call.kv_ends.emplace(kv_lengths.size());
    std::partial_sum(q_lengths.begin(), q_lengths.end(), call.q_ends->begin());
    std::partial_sum(kv_lengths.begin(), kv_lengths.end(), call.kv_ends->begin());
    const int64_t tq = call.q_ends->empty() ? 0 : call.q_ends->back();
    const int64_t tkv = call.kv_ends->empty() ? 0 : call.kv_ends->back();
    call.query = call.out = TensorSpec{.shape = {tq, n, d}};
    call.key = call.value = TensorSpec{.shape = {tkv, nkv, d}};
    call.max = call.sum = TensorSpec{.shape = {tq, n, 8}};
    return call;
}

Call backward_of(Call forward, Version version) {
    Call call = std::move(forward);
    call.version = version;
    call.dy = call.out;
    call.dq = call.query;
    call.dk = call.key;
    call.dv = call.value;
    call.dq_rope = call.query_rope;
    call.dk_rope = call.key_rope;
    call.dsink = call.sink;
    return call;
}

Call backward_of(Call forward) {
    const bool dense = traits(forward.version).dense;
    return backward_of(std::move(forward), dense ? Version::kGrad : Version::kUnpaddingGrad);
}

void set_dtype(Call& call, aclDataType dtype) {
    for (Tensor* tensor : {&call.query, &call.key, &call.value, &call.out, &call.dy, &call.dq, &call.dk, &call.dv}) {
        if (tensor->has_value()) (*tensor)->dtype = dtype;
    }
}

}  // namespace flash_attention::testing
