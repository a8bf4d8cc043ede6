// The first-phase functions of attention, forward and backward, behind one: all arguments in one struct, of which each
// version passes those that it has.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_flash_attention_score.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"

namespace flash_attention::testing {

enum class Version {
    kScore,
    kScoreV2,
    kScoreV3,
    kScoreV4,
    kVarLen,
    kVarLenV2,
    kVarLenV3,
    kVarLenV4,
    kVarLenV5,
    kVarLenV5Max,  // ...V5GetMaxWorkspaceSize, whose executor runs in V5
    // Backward.
    kGrad,
    kGradV2,
    kGradV3,
    kGradV4,
    kUnpaddingGrad,
    kUnpaddingGradV2,
    kUnpaddingGradV3,
    kUnpaddingGradV4,
    kUnpaddingGradV5,
    kUnpaddingGradV5Max,
};
inline constexpr int kVersionCount = 10;      // of forward, which come first
inline constexpr int kGradVersionCount = 10;  // of backward

// What a version takes besides the arguments of all.
struct VersionTraits {
    const char* name = nullptr;  // of the second phase, with which every text begins
    bool dense = false;          // BSH, SBH, BSND, BNSD
    bool tnd = false;
    bool pse_type = false;  // and qStartIdx, kvStartIdx
    bool sink = false;
    bool rope = false;
    bool softmax_layout = false;
    bool dropout = true;      // false: dropMaskOptional and keepProb are not looked at
    bool everything = false;  // scales of quantised attention, outDtype, seed and offset
    bool backward = false;
};
const VersionTraits& traits(Version version);

std::vector<Version> dense_versions();       // those of forward that take dense layouts
std::vector<Version> tnd_versions();         // those that take TND, ScoreV4 among them
std::vector<Version> varlen_versions();      // those that take nothing but TND
std::vector<Version> dense_grad_versions();  // the same of backward
std::vector<Version> tnd_grad_versions();
std::vector<Version> unpadding_grad_versions();
// Those of `versions` that have a property, or have it not.
std::vector<Version> only(std::vector<Version> versions, bool VersionTraits::*property, bool has = true);

// In the order of the largest signatures of forward, then what only backward has; names as there, without "Optional".
// Backward gets the statistics, the output and the bias of forward under other names.
struct ScoreArguments {
    const aclTensor* query = nullptr;
    const aclTensor* query_rope = nullptr;
    const aclTensor* key = nullptr;
    const aclTensor* key_rope = nullptr;
    const aclTensor* value = nullptr;
    const aclTensor* real_shift = nullptr;
    const aclTensor* drop_mask = nullptr;
    const aclTensor* padding_mask = nullptr;
    const aclTensor* atten_mask = nullptr;
    const aclTensor* d_scale_q = nullptr;
    const aclTensor* d_scale_k = nullptr;
    const aclTensor* d_scale_v = nullptr;
    const aclTensor* sink = nullptr;
    const aclIntArray* prefix = nullptr;
    const aclIntArray* q_ends = nullptr;
    const aclIntArray* kv_ends = nullptr;
    const aclIntArray* q_start = nullptr;
    const aclIntArray* kv_start = nullptr;
    double scale = 1.0;
    double keep_prob = 1.0;
    int64_t pre = std::numeric_limits<int32_t>::max();
    int64_t next = std::numeric_limits<int32_t>::max();
    int64_t head_num = 0;
    char* layout = nullptr;
    int64_t inner_precise = 0;
    int64_t sparse_mode = 0;
    int64_t out_dtype = 0;
    int64_t pse_type = 1;
    char* softmax_out_layout = nullptr;
    int64_t seed = 0;
    int64_t offset = 0;
    const aclTensor* max = nullptr;
    const aclTensor* sum = nullptr;
    const aclTensor* softmax_out = nullptr;
    const aclTensor* out = nullptr;
    const aclTensor* dy = nullptr;
    const aclTensor* d_scale_dy = nullptr;
    const aclTensor* d_scale_o = nullptr;
    const aclTensor* dq = nullptr;
    const aclTensor* dk = nullptr;
    const aclTensor* dv = nullptr;
    const aclTensor* dq_rope = nullptr;
    const aclTensor* dk_rope = nullptr;
    const aclTensor* dpse = nullptr;
    const aclTensor* dsink = nullptr;
    uint64_t* workspace_size = nullptr;
    aclOpExecutor** executor = nullptr;
};

aclnnStatus phase_one(Version version, const ScoreArguments& arguments);
aclnnStatus phase_two(Version version, void* workspace, uint64_t workspace_size, aclOpExecutor* executor,
                      aclrtStream stream);

}  // namespace flash_attention::testing
