// attenMask: which shapes are legal for which sparse mode. Only sizes; visibility itself is the engine's.
#include <fmt/format.h>

#include <array>
#include <string>

#include "ascendcl/log.h"
#include "op_api/checks.h"
#include "opbase/dtype.h"
#include "opbase/error.h"
#include "opbase/tensor.h"

namespace flash_attention {
namespace {

using opbase::ParameterError;
using opbase::to_string;

constexpr int64_t kCompressedSize = 2048;
constexpr int64_t kCompressedPrefixRows = 3072;  // for the mode with prefixes: the triangle, then half open rows

// A mask shape as four sizes; two-dimensional shapes have 1, 1 in front, which also says how they are shared.
using MaskShape = std::array<int64_t, 4>;

MaskShape with_batch_and_heads(const opbase::Shape& shape) {
    if (shape.size() == 2) return {1, 1, shape[0], shape[1]};
    return {shape[0], shape[1], shape[2], shape[3]};
}

void warn_about_missing_mask(const ScoreRequest& request, const SequenceLengths& lengths) {
    if (request.sparse_mode != 0) {
        ascendcl::warn_once(
            "sparseMode without attenMaskOptional",
            fmt::format("sparseMode {} has no effect because attenMaskOptional is nullptr", request.sparse_mode));
    } else if (request.pre_tokens < lengths.max_q || request.next_tokens < lengths.max_kv) {
        ascendcl::warn_once("preTokens without attenMaskOptional",
                            "preTokens/nextTokens have no effect because attenMaskOptional is nullptr");
    }
}

void check_mode(const ScoreRequest& request) {
    const int64_t mode = request.sparse_mode;
    const bool known = request.varlen ? mode >= 0 && mode <= 8 && mode != 5 : mode >= 0 && mode <= 6;
    if (!known) {
        throw ParameterError(fmt::format("sparseMode {} is not supported: expected {}", mode,
                                         request.varlen ? "0, 1, 2, 3, 4, 6, 7 or 8" : "0..6"));
    }
}

MaskForm check_compressed(const ScoreRequest& request, const MaskShape& shape) {
    const int64_t rows = request.sparse_mode == 6 ? kCompressedPrefixRows : kCompressedSize;
    if (shape == MaskShape{1, 1, rows, kCompressedSize}) return MaskForm::kCompressed;
    throw ParameterError(
        fmt::format("sparseMode {} needs a compressed attenMaskOptional of shape [{}, {}]: got {}. Use sparseMode 0 or "
                    "1 for a full mask",
                    request.sparse_mode, rows, kCompressedSize, to_string(request.atten_mask->shape)));
}

// True for [B, N, q, kv], [B, 1, q, kv], [1, 1, q, kv] and [q, kv].
bool is_shared_mask(const MaskShape& shape, int64_t batch, int64_t heads, int64_t q_len, int64_t kv_len) {
    if (shape[2] != q_len || shape[3] != kv_len) return false;
    return (shape[0] == batch && (shape[1] == heads || shape[1] == 1)) || (shape[0] == 1 && shape[1] == 1);
}

MaskForm check_full_fixed(const ScoreRequest& request, const ScoreSizes& sizes, const MaskShape& shape) {
    const bool fits = is_shared_mask(shape, sizes.batch, sizes.query_heads, sizes.q_len, sizes.kv_len);
    // Prefixes differ between batch entries, and so does their mask.
    const bool per_batch = request.atten_mask->rank() == 4 && shape[0] == sizes.batch;
    const bool prefix = request.sparse_mode == 5;
    if (fits && (!prefix || per_batch || sizes.batch == 1)) return MaskForm::kFull;
    if (prefix) {
        throw ParameterError(
            fmt::format("attenMaskOptional shape {} is not supported by sparseMode 5: expected [{}, N, Sq, Skv] or "
                        "[{}, 1, Sq, Skv] "
                        "with N={}, Sq={}, Skv={}",
                        to_string(request.atten_mask->shape), sizes.batch, sizes.batch, sizes.query_heads, sizes.q_len,
                        sizes.kv_len));
    }
    throw ParameterError(fmt::format(
        "attenMaskOptional shape {} is not supported: expected [{}, N, Sq, Skv], [{}, 1, Sq, Skv], [1, 1, Sq, Skv] or "
        "[Sq, Skv] with N={}, Sq={}, Skv={}. Expand the mask over the query axis",
        to_string(request.atten_mask->shape), sizes.batch, sizes.batch, sizes.query_heads, sizes.q_len, sizes.kv_len));
}

MaskForm check_full_varlen(const ScoreRequest& request, const ScoreSizes& sizes, const SequenceLengths& lengths,
                           const MaskShape& shape) {
    const int64_t batch = static_cast<int64_t>(lengths.sequences.size());
    if (is_shared_mask(shape, batch, sizes.query_heads, lengths.max_q, lengths.max_kv)) return MaskForm::kFull;
    if (request.atten_mask->rank() == 2 && shape[2] == lengths.sum_q && shape[3] == lengths.sum_kv) {
        return MaskForm::kBlockDiagonal;
    }
    throw ParameterError(
        fmt::format("attenMaskOptional shape {} is not supported: expected [maxSq, maxSkv] = [{}, {}], [sumSq, sumSkv] "
                    "= [{}, {}], or "
                    "[1, 1, maxSq, maxSkv], [B, 1, maxSq, maxSkv], [B, N, maxSq, maxSkv] with B={}, N={}",
                    to_string(request.atten_mask->shape), lengths.max_q, lengths.max_kv, lengths.sum_q, lengths.sum_kv,
                    batch, sizes.query_heads));
}

}  // namespace

MaskForm check_mask(const ScoreRequest& request, const ScoreSizes& sizes, const SequenceLengths& lengths) {
    if (opbase::is_absent(request.atten_mask)) {
        warn_about_missing_mask(request, lengths);
        return MaskForm::kNone;
    }
    const aclTensor& mask = *request.atten_mask;
    if (mask.dtype != ACL_BOOL && mask.dtype != ACL_UINT8) {
        throw ParameterError(
            fmt::format("attenMaskOptional dtype {} is not supported: expected BOOL or UINT8 (1 = position is masked "
                        "out). An additive "
                        "float mask belongs into {}",
                        opbase::dtype_name(mask.dtype), request.names.bias));
    }
    require_plain_format({"attenMaskOptional", &mask});
    check_mode(request);
    if (mask.rank() != 2 && mask.rank() != 4) {
        throw ParameterError(fmt::format("attenMaskOptional must have 2 or 4 dimensions: got {}", mask.rank()));
    }
    const MaskShape shape = with_batch_and_heads(mask.shape);
    const bool full = request.sparse_mode <= 1 || request.sparse_mode == 5;
    if (!full) return check_compressed(request, shape);
    return request.varlen ? check_full_varlen(request, sizes, lengths, shape) : check_full_fixed(request, sizes, shape);
}

}  // namespace flash_attention
