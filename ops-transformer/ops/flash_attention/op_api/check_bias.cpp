// The positional bias (realShift, pseShift): which shapes it may have, and what each type and shape demands of lengths
// and mask.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>

#include "ascendcl/log.h"
#include "engine/bias.h"
#include "op_api/checks.h"
#include "opbase/dtype.h"
#include "opbase/error.h"
#include "opbase/tensor.h"

namespace flash_attention {
namespace {

using opbase::ParameterError;
using opbase::to_string;

// [B, N, rows, columns] or [1, N, rows, columns].
bool is_matrix_of(const aclTensor& tensor, int64_t batch, int64_t heads, int64_t rows, int64_t columns) {
    return shape_is(tensor, {batch, heads, rows, columns}) || shape_is(tensor, {1, heads, rows, columns});
}

void check_slopes(const ScoreRequest& request, const ScoreSizes& sizes, const SequenceLengths& lengths) {
    const aclTensor& slopes = *request.bias;
    const auto batch = static_cast<int64_t>(lengths.sequences.size());
    if (shape_is(slopes, {sizes.query_heads}) || shape_is(slopes, {batch, sizes.query_heads})) return;
    throw ParameterError(fmt::format("{} shape {} is not supported for pseType {}: expected [{}] or [{}, {}]",
                                     request.names.bias, to_string(slopes.shape), request.pse_type, sizes.query_heads,
                                     batch, sizes.query_heads));
}

// Slopes measure distances from the diagonal, so the operator wants square matrices - of dense batches, and of the
// varlen mode whose sequences continue those of another call, where the first one's start says how far it is shifted.
void check_distances(const ScoreRequest& request, MaskForm mask, const SequenceLengths& lengths) {
    const std::vector<Sequence>& sequences = lengths.sequences;
    if (!request.varlen) {
        if (lengths.max_q == lengths.max_kv) return;
        throw ParameterError(fmt::format("pseType {} needs Sq = Skv: got Sq {}, Skv {}", request.pse_type,
                                         lengths.max_q, lengths.max_kv));
    }
    if (mask == MaskForm::kNone) return;
    if (request.sparse_mode == 7) {
        throw ParameterError(fmt::format("pseType {} is not supported by sparseMode 7", request.pse_type));
    }
    if (request.sparse_mode != 8) return;
    const BiasStart start = bias_start(request);
    const int64_t shift = sequences[0].q_len - sequences[0].kv_len + start.q - start.kv;
    if (shift != 0) {
        throw ParameterError(
            fmt::format("pseType {} with sparseMode 8 needs Sq - Skv + qStartIdx - kvStartIdx = 0 for batch 0: got {}",
                        request.pse_type, shift));
    }
    for (size_t b = 1; b < sequences.size(); b++) {
        if (sequences[b].q_len == sequences[b].kv_len) continue;
        throw ParameterError(fmt::format("pseType {} with sparseMode 8 needs Sq = Skv: batch {} has Sq {}, Skv {}",
                                         request.pse_type, b, sequences[b].q_len, sequences[b].kv_len));
    }
}

// A compressed bias has no entries right of the diagonal, so the mask must hide those pairs.
void check_compressed_mask(const ScoreRequest& request, MaskForm mask, const SequenceLengths& lengths) {
    const int64_t mode = request.sparse_mode;
    std::string modes = "sparseMode 0, 2 or 3";
    bool causal = mode == 0 || mode == 2 || mode == 3;
    if (request.varlen) {
        modes = fmt::format(
            "sparseMode 2, 3, 0 with preTokens >= {} and nextTokens 0, or 4 with preTokens >= {} and "
            "nextTokens 0",
            lengths.max_q, lengths.max_kv);
        const bool one_sided = request.next_tokens == 0;
        causal = mode == 2 || mode == 3 || (mode == 0 && one_sided && request.pre_tokens >= lengths.max_q) ||
                 (mode == 4 && one_sided && request.pre_tokens >= lengths.max_kv);
    }
    if (mask != MaskForm::kNone && causal) return;
    throw ParameterError(
        fmt::format("{} with {} rows needs a causal mask: attenMaskOptional with {}, got {}", request.names.bias,
                    kCompressedBiasRows, modes,
                    mask == MaskForm::kNone ? "no attenMaskOptional" : fmt::format("sparseMode {}", mode)));
}

BiasForm check_fixed(const ScoreRequest& request, const ScoreSizes& sizes, const SequenceLengths& lengths,
                     MaskForm mask) {
    const aclTensor& bias = *request.bias;
    const int64_t batch = sizes.batch, heads = sizes.query_heads, q_len = sizes.q_len, kv_len = sizes.kv_len;
    if (is_matrix_of(bias, batch, heads, q_len, kv_len) || is_matrix_of(bias, batch, heads, 1, kv_len)) {
        return BiasForm::kMatrix;
    }
    const bool may_be_compressed = q_len > kCompressedBiasRows;
    if (may_be_compressed && is_matrix_of(bias, batch, heads, kCompressedBiasRows, kv_len)) {
        if (q_len != kv_len) {
            throw ParameterError(fmt::format("{} with {} rows needs Sq = Skv: got Sq {}, Skv {}", request.names.bias,
                                             kCompressedBiasRows, q_len, kv_len));
        }
        check_compressed_mask(request, mask, lengths);
        return BiasForm::kCompressed;
    }
    const std::string compressed = fmt::format(", [{}, {}, {}, {}] or [1, {}, {}, {}]", batch, heads,
                                               kCompressedBiasRows, kv_len, heads, kCompressedBiasRows, kv_len);
    throw ParameterError(
        fmt::format("{} shape {} is not supported: expected [{}, {}, {}, {}], [1, {}, {}, {}], [{}, {}, "
                    "1, {}], [1, {}, "
                    "1, {}]{} (no broadcasting over heads)",
                    request.names.bias, to_string(bias.shape), batch, heads, q_len, kv_len, heads, q_len, kv_len, batch,
                    heads, kv_len, heads, kv_len, may_be_compressed ? compressed : ""));
}

BiasForm check_varlen(const ScoreRequest& request, const ScoreSizes& sizes, const SequenceLengths& lengths,
                      MaskForm mask) {
    const aclTensor& bias = *request.bias;
    const auto batch = static_cast<int64_t>(lengths.sequences.size());
    const int64_t heads = sizes.query_heads;
    const int64_t rows_count = saturating_product({heads, lengths.sum_kv});
    const int64_t full_count = pair_count(sizes, lengths);
    const int64_t first = bias.shape.front(), count = bias.count();
    // The operator looks at the first dimension only; what matters is that there are enough elements.
    if (first == rows_count && count >= rows_count) return BiasForm::kFlatRows;
    if (first == full_count && count >= full_count) return BiasForm::kFlatMatrix;
    // Where all sequences have the 1024 rows of the compressed form, both forms hold the same numbers, and this one has a
    // gradient.
    if (lengths.max_q == kCompressedBiasRows && count == full_count) return BiasForm::kFlatMatrix;
    if (is_matrix_of(bias, batch, heads, kCompressedBiasRows, lengths.max_kv)) {
        for (const Sequence& s : lengths.sequences) {
            if (s.q_len == s.kv_len) continue;
            throw ParameterError(fmt::format("{} with {} rows needs Sq = Skv: batch {} has Sq {}, Skv {}",
                                             request.names.bias, kCompressedBiasRows, &s - lengths.sequences.data(),
                                             s.q_len, s.kv_len));
        }
        check_compressed_mask(request, mask, lengths);
        return BiasForm::kCompressed;
    }
    if (count == rows_count) return BiasForm::kFlatRows;
    if (count == full_count) return BiasForm::kFlatMatrix;
    throw ParameterError(
        fmt::format("{} shape {} is not supported: expected {} elements (Nq * sum Sq*Skv), {} (Nq * sum "
                    "Skv), [{}, {}, {}, {}] or [1, {}, {}, {}]",
                    request.names.bias, to_string(bias.shape), full_count, rows_count, batch, heads,
                    kCompressedBiasRows, lengths.max_kv, heads, kCompressedBiasRows, lengths.max_kv));
}

// Far enough for any position, and small enough that distances can be counted.
void check_start(const char* name, const aclIntArray* list) {
    if (opbase::is_absent(list)) return;
    const int64_t start = list->values.front();
    if (start >= -kUnlimited && start <= kUnlimited) return;
    throw ParameterError(fmt::format("{}[0] is {}: expected an absolute value of at most {}", name, start, kUnlimited));
}

void check_starts(const ScoreRequest& request) {
    const bool q = !opbase::is_absent(request.q_start), kv = !opbase::is_absent(request.kv_start);
    if (q != kv) {
        ascendcl::warn_once("one start index",
                            fmt::format("{}Optional without {}Optional has no effect: both count as 0",
                                        q ? "qStartIdx" : "kvStartIdx", q ? "kvStartIdx" : "qStartIdx"));
        return;
    }
    check_start("qStartIdxOptional", request.q_start);
    check_start("kvStartIdxOptional", request.kv_start);
}

}  // namespace

BiasStart bias_start(const ScoreRequest& request) {
    if (opbase::is_absent(request.q_start) || opbase::is_absent(request.kv_start)) return {};
    return {request.q_start->values.front(), request.kv_start->values.front()};
}

void check_bias_dtype(const ScoreRequest& request) {
    if (opbase::is_absent(request.bias)) return;
    const aclTensor& bias = *request.bias;
    const int64_t type = request.pse_type;
    const bool slopes = type == 2 || type == 3;
    if (slopes && bias.dtype != ACL_FLOAT) {
        throw ParameterError(fmt::format("{} dtype {}: expected FLOAT for pseType {}", request.names.bias,
                                         opbase::dtype_name(bias.dtype), type));
    }
    if (!slopes && bias.dtype != request.query->dtype) {
        throw ParameterError(fmt::format("{} dtype {} must equal query dtype {} for pseType {}", request.names.bias,
                                         opbase::dtype_name(bias.dtype), opbase::dtype_name(request.query->dtype),
                                         type));
    }
    require_plain_format({request.names.bias, request.bias});
}

BiasForm check_bias(const ScoreRequest& request, const ScoreSizes& sizes, const SequenceLengths& lengths,
                    MaskForm mask) {
    const int64_t type = request.pse_type;
    if (type < 0 || type > 3) {
        throw ParameterError(fmt::format("pseType {} is not supported: expected 0, 1, 2 or 3", type));
    }
    if (opbase::is_absent(request.bias)) {
        if (type == 1) return BiasForm::kNone;
        throw ParameterError(fmt::format("{} cannot be nullptr when pseType is {}", request.names.bias, type));
    }
    if (type < 2) {
        return request.varlen ? check_varlen(request, sizes, lengths, mask)
                              : check_fixed(request, sizes, lengths, mask);
    }
    check_starts(request);
    check_slopes(request, sizes, lengths);
    check_distances(request, mask, lengths);
    return BiasForm::kSlopes;
}

}  // namespace flash_attention
