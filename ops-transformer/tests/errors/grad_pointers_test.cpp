// Null pointers of backward: 161001 with the argument's name for those that are always required, in the order of the
// interface.
#include <gtest/gtest.h>

#include "call.h"

namespace flash_attention::testing {
namespace {

struct Pointer {
    const char* name;
    void (*clear)(Call&);
};

// In the order in which they are reported.
const Pointer kRequired[] = {
    {"query", [](Call& c) { c.query.reset(); }},
    {"keyIn", [](Call& c) { c.key.reset(); }},
    {"value", [](Call& c) { c.value.reset(); }},
    {"dy", [](Call& c) { c.dy.reset(); }},
    {"attentionInOptional", [](Call& c) { c.out.reset(); }},
    {"dqOut", [](Call& c) { c.dq.reset(); }},
    {"dkOut", [](Call& c) { c.dk.reset(); }},
    {"dvOut", [](Call& c) { c.dv.reset(); }},
    {"workspaceSize", [](Call& c) { c.null_workspace_size = true; }},
    {"executor", [](Call& c) { c.null_executor = true; }},
    {"inputLayout", [](Call& c) { c.layout = nullptr; }},
    {"softmaxMaxOptional", [](Call& c) { c.max.reset(); }},
    {"softmaxSumOptional", [](Call& c) { c.sum.reset(); }},
};

Call make_call(Version version) {
    return backward_of(traits(version).dense ? dense_call() : varlen_call(), version);
}

class GradPointers : public ::testing::TestWithParam<Version> {};

// 3.1, 3.2, 7.1
TEST_P(GradPointers, EachRequiredOneIsNamed) {
    for (const Pointer& pointer : kRequired) {
        SCOPED_TRACE(pointer.name);
        Call call = make_call(GetParam());
        pointer.clear(call);
        expect_refused(call, 161001, std::string(pointer.name) + " cannot be nullptr");
    }
}

TEST_P(GradPointers, TheFirstOfSeveralIsNamed) {
    Call call = make_call(GetParam());
    for (size_t i = std::size(kRequired); i-- > 0;) {
        kRequired[i].clear(call);
        expect_refused(call, 161001, std::string(kRequired[i].name) + " cannot be nullptr");
    }
}

TEST_P(GradPointers, OptionalOnesMayBeNullOrEmpty) {
    Call call = make_call(GetParam());
    const Outcome without = run(call);  // all optional arguments are null here
    ASSERT_EQ(without.code, 0) << without.text;
    EXPECT_EQ(without.unwritten, 0);
    const TensorSpec empty{.shape = {0}, .without_data = true};
    const TensorSpec scalar{.shape = {}, .dtype = ACL_INT32};
    for (const TensorSpec& absent : {empty, scalar}) {
        call.real_shift = call.drop_mask = call.padding_mask = call.mask = call.softmax_out = call.dpse = absent;
        call.prefix.emplace();
        const VersionTraits& has = traits(call.version);
        if (has.pse_type) call.q_start = call.kv_start = list({});
        if (has.sink) call.sink = call.dsink = absent;
        if (has.rope) call.query_rope = call.key_rope = call.dq_rope = call.dk_rope = absent;
        if (has.softmax_layout) call.softmax_out_layout = "";
        if (has.everything) {
            call.d_scale_q = call.d_scale_k = call.d_scale_v = call.d_scale_dy = call.d_scale_o = absent;
            call.q_ends = call.kv_ends = list({});
        }
        const Outcome outcome = run(call, true);
        EXPECT_EQ(outcome.code, 0) << outcome.text;
        EXPECT_EQ(outcome.workspace_size, without.workspace_size);
    }
}

std::vector<Version> every_version() {
    std::vector<Version> versions = dense_grad_versions();
    for (const Version version : unpadding_grad_versions()) versions.push_back(version);
    return versions;
}

INSTANTIATE_TEST_SUITE_P(, GradPointers, ::testing::ValuesIn(every_version()), [](const auto& info) {
    const std::string name = traits(info.param).name + std::string("aclnnFlashAttention").size();
    return info.param == Version::kUnpaddingGradV5Max ? name + "Max" : name;
});

}  // namespace
}  // namespace flash_attention::testing
