#include "entry_point_pieces.h"

namespace flash_attention::testing {

aclnnStatus grad_phase_one(Version version, const ScoreArguments& a) {
    // Groups that always come together, and single ones.
    const std::tuple modifiers{a.real_shift, a.drop_mask, a.padding_mask, a.atten_mask};
    const std::tuple results{a.max, a.sum, a.softmax_out, a.out};
    const std::tuple scales{a.d_scale_q, a.d_scale_k, a.d_scale_v, a.d_scale_dy, a.d_scale_o};
    const std::tuple ends{a.q_ends, a.kv_ends};
    const std::tuple starts{a.q_start, a.kv_start};
    const std::tuple numbers{a.scale, a.keep_prob, a.pre, a.next, a.head_num, a.layout};
    const std::tuple modes{a.inner_precise, a.sparse_mode};
    const std::tuple random{a.seed, a.offset, a.out_dtype};
    const std::tuple gradients{a.dq, a.dk, a.dv, a.dpse};
    const std::tuple plan{a.workspace_size, a.executor};
    const std::tuple query{a.query};
    const std::tuple query_rope{a.query_rope};
    const std::tuple key{a.key};
    const std::tuple key_rope{a.key_rope};
    const std::tuple value_dy{a.value, a.dy};
    const std::tuple sink{a.sink};
    const std::tuple prefix{a.prefix};
    const std::tuple pse_type{a.pse_type};
    const std::tuple softmax_layout{a.softmax_out_layout};
    const std::tuple all_gradients{a.dq, a.dq_rope, a.dk, a.dk_rope, a.dv, a.dpse};
    const std::tuple dsink{a.dsink};
    switch (version) {
        case Version::kGrad:
            return call(aclnnFlashAttentionScoreGradGetWorkspaceSize, query, key, value_dy, modifiers, results, prefix,
                        numbers, modes, gradients, plan);
        case Version::kGradV2:
            return call(aclnnFlashAttentionScoreGradV2GetWorkspaceSize, query, key, value_dy, modifiers, results,
                        prefix, starts, numbers, modes, pse_type, gradients, plan);
        case Version::kGradV3:
            return call(aclnnFlashAttentionScoreGradV3GetWorkspaceSize, query, key, value_dy, modifiers, results, sink,
                        prefix, starts, numbers, modes, pse_type, gradients, dsink, plan);
        case Version::kGradV4:
            return call(aclnnFlashAttentionScoreGradV4GetWorkspaceSize, query, key, value_dy, modifiers, results, sink,
                        query_rope, key_rope, scales, prefix, ends, starts, numbers, softmax_layout, modes, pse_type,
                        random, std::tuple{a.dq, a.dk, a.dv, a.dq_rope, a.dk_rope, a.dpse}, dsink, plan);
        case Version::kUnpaddingGrad:
            return call(aclnnFlashAttentionUnpaddingScoreGradGetWorkspaceSize, query, key, value_dy, modifiers, results,
                        prefix, ends, numbers, modes, gradients, plan);
        case Version::kUnpaddingGradV2:
            return call(aclnnFlashAttentionUnpaddingScoreGradV2GetWorkspaceSize, query, key, value_dy, modifiers,
                        results, prefix, ends, starts, numbers, modes, pse_type, gradients, plan);
        case Version::kUnpaddingGradV3:
            return call(aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize, query, query_rope, key, key_rope,
                        value_dy, modifiers, results, prefix, ends, starts, numbers, modes, pse_type, all_gradients,
                        plan);
        case Version::kUnpaddingGradV4:
            return call(aclnnFlashAttentionUnpaddingScoreGradV4GetWorkspaceSize, query, key, value_dy, modifiers,
                        results, prefix, ends, numbers, modes, gradients, softmax_layout, plan);
        case Version::kUnpaddingGradV5:
        case Version::kUnpaddingGradV5Max:
            return call(version == Version::kUnpaddingGradV5
                            ? aclnnFlashAttentionUnpaddingScoreGradV5GetWorkspaceSize
                            : aclnnFlashAttentionUnpaddingScoreGradV5GetMaxWorkspaceSize,
                        query, query_rope, key, key_rope, value_dy, modifiers, results, sink, prefix, ends, starts,
                        numbers, modes, pse_type, softmax_layout, all_gradients, dsink, plan);
        default:
            return -1;
    }
}

}  // namespace flash_attention::testing
