#include "entry_points.h"

#include "entry_point_pieces.h"

namespace flash_attention::testing {
namespace {

constexpr VersionTraits kTraits[kVersionCount + kGradVersionCount] = {
    {.name = "aclnnFlashAttentionScore", .dense = true},
    {.name = "aclnnFlashAttentionScoreV2", .dense = true, .pse_type = true},
    {.name = "aclnnFlashAttentionScoreV3", .dense = true, .pse_type = true, .sink = true},
    {.name = "aclnnFlashAttentionScoreV4",
     .dense = true,
     .tnd = true,
     .pse_type = true,
     .sink = true,
     .rope = true,
     .softmax_layout = true,
     .everything = true},
    {.name = "aclnnFlashAttentionVarLenScore", .tnd = true},
    {.name = "aclnnFlashAttentionVarLenScoreV2", .tnd = true, .pse_type = true},
    {.name = "aclnnFlashAttentionVarLenScoreV3", .tnd = true, .pse_type = true, .rope = true},
    {.name = "aclnnFlashAttentionVarLenScoreV4", .tnd = true, .softmax_layout = true},
    {.name = "aclnnFlashAttentionVarLenScoreV5",
     .tnd = true,
     .pse_type = true,
     .sink = true,
     .rope = true,
     .softmax_layout = true},
    {.name = "aclnnFlashAttentionVarLenScoreV5",
     .tnd = true,
     .pse_type = true,
     .sink = true,
     .rope = true,
     .softmax_layout = true,
     .dropout = false},
    {.name = "aclnnFlashAttentionScoreGrad", .dense = true, .backward = true},
    {.name = "aclnnFlashAttentionScoreGradV2", .dense = true, .pse_type = true, .backward = true},
    {.name = "aclnnFlashAttentionScoreGradV3", .dense = true, .pse_type = true, .sink = true, .backward = true},
    {.name = "aclnnFlashAttentionScoreGradV4",
     .dense = true,
     .tnd = true,
     .pse_type = true,
     .sink = true,
     .rope = true,
     .softmax_layout = true,
     .everything = true,
     .backward = true},
    {.name = "aclnnFlashAttentionUnpaddingScoreGrad", .tnd = true, .backward = true},
    {.name = "aclnnFlashAttentionUnpaddingScoreGradV2", .tnd = true, .pse_type = true, .backward = true},
    {.name = "aclnnFlashAttentionUnpaddingScoreGradV3", .tnd = true, .pse_type = true, .rope = true, .backward = true},
    {.name = "aclnnFlashAttentionUnpaddingScoreGradV4", .tnd = true, .softmax_layout = true, .backward = true},
    {.name = "aclnnFlashAttentionUnpaddingScoreGradV5",
     .tnd = true,
     .pse_type = true,
     .sink = true,
     .rope = true,
     .softmax_layout = true,
     .backward = true},
    {.name = "aclnnFlashAttentionUnpaddingScoreGradV5",
     .tnd = true,
     .pse_type = true,
     .sink = true,
     .rope = true,
     .softmax_layout = true,
     .dropout = false,
     .backward = true},
};

std::vector<Version> versions_with(bool VersionTraits::*property, bool backward) {
    std::vector<Version> versions;
    for (int i = 0; i < kVersionCount + kGradVersionCount; i++) versions.push_back(static_cast<Version>(i));
    return only(only(std::move(versions), &VersionTraits::backward, backward), property);
}

}  // namespace

const VersionTraits& traits(Version version) {
    return kTraits[static_cast<int>(version)];
}

std::vector<Version> only(std::vector<Version> versions, bool VersionTraits::*property, bool has) {
    std::erase_if(versions, [&](Version version) { return traits(version).*property != has; });
    return versions;
}

std::vector<Version> dense_versions() {
    return versions_with(&VersionTraits::dense, false);
}

std::vector<Version> tnd_versions() {
    return versions_with(&VersionTraits::tnd, false);
}

std::vector<Version> varlen_versions() {
    return only(tnd_versions(), &VersionTraits::dense, false);
}

std::vector<Version> dense_grad_versions() {
    return versions_with(&VersionTraits::dense, true);
}

std::vector<Version> tnd_grad_versions() {
    return versions_with(&VersionTraits::tnd, true);
}

std::vector<Version> unpadding_grad_versions() {
    return only(tnd_grad_versions(), &VersionTraits::dense, false);
}

aclnnStatus phase_one(Version version, const ScoreArguments& a) {
    if (traits(version).backward) return grad_phase_one(version, a);
    // Groups that always come together, and single ones.
    const std::tuple modifiers{a.real_shift, a.drop_mask, a.padding_mask, a.atten_mask};
    const std::tuple scales{a.d_scale_q, a.d_scale_k, a.d_scale_v};
    const std::tuple ends{a.q_ends, a.kv_ends};
    const std::tuple starts{a.q_start, a.kv_start};
    const std::tuple numbers{a.scale, a.keep_prob, a.pre, a.next, a.head_num, a.layout, a.inner_precise, a.sparse_mode};
    const std::tuple random{a.seed, a.offset};
    const std::tuple results{a.max, a.sum, a.softmax_out, a.out, a.workspace_size, a.executor};
    const std::tuple query{a.query};
    const std::tuple query_rope{a.query_rope};
    const std::tuple key{a.key};
    const std::tuple key_rope{a.key_rope};
    const std::tuple value{a.value};
    const std::tuple sink{a.sink};
    const std::tuple prefix{a.prefix};
    const std::tuple out_dtype{a.out_dtype};
    const std::tuple pse_type{a.pse_type};
    const std::tuple softmax_layout{a.softmax_out_layout};
    switch (version) {
        case Version::kScore:
            return call(aclnnFlashAttentionScoreGetWorkspaceSize, query, key, value, modifiers, prefix, numbers,
                        results);
        case Version::kScoreV2:
            return call(aclnnFlashAttentionScoreV2GetWorkspaceSize, query, key, value, modifiers, prefix, starts,
                        numbers, pse_type, results);
        case Version::kScoreV3:
            return call(aclnnFlashAttentionScoreV3GetWorkspaceSize, query, key, value, modifiers, sink, prefix, starts,
                        numbers, pse_type, results);
        case Version::kScoreV4:
            return call(aclnnFlashAttentionScoreV4GetWorkspaceSize, query, key, value, modifiers, query_rope, key_rope,
                        scales, sink, prefix, ends, starts, numbers, out_dtype, pse_type, softmax_layout, random,
                        results);
        case Version::kVarLen:
            return call(aclnnFlashAttentionVarLenScoreGetWorkspaceSize, query, key, value, modifiers, prefix, ends,
                        numbers, results);
        case Version::kVarLenV2:
            return call(aclnnFlashAttentionVarLenScoreV2GetWorkspaceSize, query, key, value, modifiers, prefix, ends,
                        starts, numbers, pse_type, results);
        case Version::kVarLenV3:
            return call(aclnnFlashAttentionVarLenScoreV3GetWorkspaceSize, query, query_rope, key, key_rope, value,
                        modifiers, prefix, ends, starts, numbers, pse_type, results);
        case Version::kVarLenV4:
            return call(aclnnFlashAttentionVarLenScoreV4GetWorkspaceSize, query, key, value, modifiers, prefix, ends,
                        numbers, softmax_layout, results);
        case Version::kVarLenV5:
        case Version::kVarLenV5Max:
            return call(version == Version::kVarLenV5 ? aclnnFlashAttentionVarLenScoreV5GetWorkspaceSize
                                                      : aclnnFlashAttentionVarLenScoreV5GetMaxWorkspaceSize,
                        query, query_rope, key, key_rope, value, modifiers, sink, prefix, ends, starts, numbers,
                        pse_type, softmax_layout, results);
        default:
            return -1;
    }
}

aclnnStatus phase_two(Version version, void* workspace, uint64_t workspace_size, aclOpExecutor* executor,
                      aclrtStream stream) {
    constexpr decltype(&aclnnFlashAttentionScore) kRun[kVersionCount + kGradVersionCount] = {
        aclnnFlashAttentionScore,
        aclnnFlashAttentionScoreV2,
        aclnnFlashAttentionScoreV3,
        aclnnFlashAttentionScoreV4,
        aclnnFlashAttentionVarLenScore,
        aclnnFlashAttentionVarLenScoreV2,
        aclnnFlashAttentionVarLenScoreV3,
        aclnnFlashAttentionVarLenScoreV4,
        aclnnFlashAttentionVarLenScoreV5,
        aclnnFlashAttentionVarLenScoreV5,
        aclnnFlashAttentionScoreGrad,
        aclnnFlashAttentionScoreGradV2,
        aclnnFlashAttentionScoreGradV3,
        aclnnFlashAttentionScoreGradV4,
        aclnnFlashAttentionUnpaddingScoreGrad,
        aclnnFlashAttentionUnpaddingScoreGradV2,
        aclnnFlashAttentionUnpaddingScoreGradV3,
        aclnnFlashAttentionUnpaddingScoreGradV4,
        aclnnFlashAttentionUnpaddingScoreGradV5,
        aclnnFlashAttentionUnpaddingScoreGradV5,
    };
    return kRun[static_cast<int>(version)](workspace, workspace_size, executor, stream);
}

}  // namespace flash_attention::testing
