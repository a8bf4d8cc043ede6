// The rope parts: features of query and key that the value does not have. The operator takes them in one setting only.
#include <fmt/format.h>

#include <string>

#include "op_api/checks.h"
#include "opbase/dtype.h"
#include "opbase/error.h"
#include "opbase/tensor.h"

namespace flash_attention {
namespace {

using opbase::ParameterError;
using opbase::Shape;
using opbase::to_string;

void check_type(const NamedTensor& part) {
    if (part.tensor->dtype != ACL_BF16) {
        throw ParameterError(fmt::format("{} dtype {} is not supported: expected BFLOAT16", part.name,
                                         opbase::dtype_name(part.tensor->dtype)));
    }
    require_plain_format(part);
}

void check_shapes(const NamedTensor& query, const NamedTensor& key, const ScoreSizes& sizes) {
    const Shape& q = query.tensor->shape;
    const bool fits = q.size() == 3 && q[0] == sizes.q_len && q[1] == sizes.query_heads;
    if (!fits || q[2] < 1 || q[2] > sizes.head_dim) {
        throw ParameterError(fmt::format("{} shape {}: expected [{}, {}, Drope] with 1 <= Drope <= {}", query.name,
                                         to_string(q), sizes.q_len, sizes.query_heads, sizes.head_dim));
    }
    const Shape expected{sizes.kv_len, sizes.kv_heads, q[2]};
    if (key.tensor->shape != expected) {
        throw ParameterError(
            fmt::format("{} shape {}: expected {}", key.name, to_string(key.tensor->shape), to_string(expected)));
    }
}

// The arguments that rope parts do not go together with, and the one that they need.
void check_company(const NamedTensor& query, const ScoreRequest& request) {
    if (request.sparse_mode == 6) throw ParameterError(fmt::format("{} is not supported by sparseMode 6", query.name));
    if (opbase::is_absent(request.atten_mask)) {
        throw ParameterError(fmt::format("{} needs attenMaskOptional", query.name));
    }
    if (!opbase::is_absent(request.bias)) {
        throw ParameterError(fmt::format("{} is not supported with {}", query.name, request.names.bias));
    }
    if (!opbase::is_absent(request.drop_mask)) {
        throw ParameterError(fmt::format("{} is not supported with dropMaskOptional", query.name));
    }
    if (static_cast<float>(request.keep_prob) < 1.0F) {
        throw ParameterError(fmt::format("{} is not supported with keepProb {}", query.name, request.keep_prob));
    }
}

}  // namespace

int64_t check_rope(const ScoreRequest& request, const ScoreSizes& sizes) {
    const NamedTensor query{request.names.query_rope, request.query_rope};
    const NamedTensor key{request.names.key_rope, request.key_rope};
    const bool with_query = !opbase::is_absent(query.tensor), with_key = !opbase::is_absent(key.tensor);
    if (!with_query && !with_key) return 0;
    if (!with_query || !with_key) {
        const NamedTensor& missing = with_query ? key : query;
        const NamedTensor& given = with_query ? query : key;
        throw ParameterError(fmt::format("{} cannot be nullptr when {} is given", missing.name, given.name));
    }
    check_type(query);
    check_type(key);
    if (request.query->dtype != ACL_BF16) {
        throw ParameterError(fmt::format("query dtype {} is not supported with {}: expected BFLOAT16",
                                         opbase::dtype_name(request.query->dtype), query.name));
    }
    if (sizes.layout != opbase::Layout::kTND) {
        throw ParameterError(
            fmt::format("{} needs inputLayout \"TND\": got \"{}\"", query.name, opbase::layout_name(sizes.layout)));
    }
    check_shapes(query, key, sizes);
    check_company(query, request);
    return query.tensor->shape.back();
}

}  // namespace flash_attention
