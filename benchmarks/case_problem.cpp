#include "case_problem.h"

#include <algorithm>
#include <functional>

#include "testing/call.h"
#include "work.h"

namespace fusion_bench {
namespace {

namespace testing = flash_attention::testing;
namespace reference = flash_attention::reference;
using flash_attention::Sequence;

flash_attention::ElementType type_of(testing::DType dtype) {
    switch (dtype) {
        case testing::DType::kFp16:
            return flash_attention::ElementType::kF16;
        case testing::DType::kBf16:
            return flash_attention::ElementType::kBf16;
        default:
            return flash_attention::ElementType::kF32;
    }
}

flash_attention::SparseMode mode_of(const testing::Case& c, const reference::Sequence& s) {
    using flash_attention::SparseMode;
    switch (c.mode) {
        case 5:
            return s.prefix == reference::Sequence::kNoPrefix ? SparseMode::kAll : SparseMode::kPrefix;
        case 6:
            return SparseMode::kPrefix;
        case 7:
            return s.last_with_rows ? SparseMode::kBand : SparseMode::kRightDownCausal;
        case 8:
            return s.first_with_rows ? SparseMode::kBand : SparseMode::kLeftUpCausal;
        default:
            return static_cast<SparseMode>(c.mode);
    }
}

// Where the gradient of the bias of a sequence is, as far as plans ask: whether it is one row, and with whom it is
// shared.
flash_attention::SequenceBias dbias_of(const testing::Case& c, const reference::Sequence& s) {
    using testing::PseShape;
    const bool one_row = c.pse == PseShape::kRow || c.pse == PseShape::kRow1 || c.pse == PseShape::kRowAny;
    const bool shared = c.pse == PseShape::kRow1 || c.pse == PseShape::kFull1;
    flash_attention::SequenceBias bias;
    bias.origin = shared ? 0 : s.index;
    bias.strides.row = one_row ? 0 : 1;
    return bias;
}

// Positions of a packed tensor that belong to no sequence.
int64_t remaining(const std::vector<int64_t>& shape, int64_t used) {
    return shape.front() - used;
}

}  // namespace

flash_attention::Problem problem_of(const testing::Case& c) {
    flash_attention::Problem problem;
    problem.type = type_of(c.dtype);
    problem.query_heads = c.heads;
    problem.kv_heads = c.kv_heads;
    problem.head_dim = c.d;
    problem.value_dim = c.dv;
    problem.rope_dim = c.rope;
    problem.has_sink = c.sink != testing::Sink::kNone;

    testing::Case without_mask = c;  // whose content says nothing about lengths, and may be large
    without_mask.mask = testing::MaskShape::kNone;
    int64_t rows = 0, keys = 0;
    for (const reference::Sequence& s : reference::sequences_of(visibility_of(without_mask))) {
        Sequence sequence;
        sequence.q_len = s.q_len;
        sequence.kv_len = s.kv_len;
        if (c.masked() && sequence.has_pairs())
            sequence.band = flash_attention::make_band(mode_of(c, s), c.pre, c.next, std::max<int64_t>(s.prefix, 0),
                                                       s.q_len, s.kv_len);
        sequence.dbias = dbias_of(c, s);
        problem.sequences.push_back(sequence);
        rows += s.q_len;
        keys += s.kv_len;
    }
    if (c.varlen()) {
        const int64_t more_rows = remaining(testing::query_shape(c), rows);
        const int64_t more_keys = remaining(testing::key_shape(c, c.d), keys);
        if (more_rows > 0) problem.sequences.emplace_back().q_len = more_rows;
        if (more_keys > 0 && c.backward) problem.sequences.emplace_back().kv_len = more_keys;
    }
    const bool any = std::any_of(problem.sequences.begin(), problem.sequences.end(), std::mem_fn(&Sequence::has_pairs));
    if (!any && c.backward) problem.sequences.clear();
    if (!any)
        for (Sequence& s : problem.sequences) s.kv_len = 0;
    problem.wants_dbias = any && c.backward && c.dpse == testing::Dpse::kWanted && c.biased() && !c.slopes();
    return problem;
}

}  // namespace fusion_bench
