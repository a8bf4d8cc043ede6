// Null pointers: 161001 with the argument's name for those that are always required, in the order of the interface.
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
    {"key", [](Call& c) { c.key.reset(); }},
    {"value", [](Call& c) { c.value.reset(); }},
    {"inputLayout", [](Call& c) { c.layout = nullptr; }},
    {"executor", [](Call& c) { c.null_executor = true; }},
    {"workspaceSize", [](Call& c) { c.null_workspace_size = true; }},
    {"softmaxMaxOut", [](Call& c) { c.max.reset(); }},
    {"softmaxSumOut", [](Call& c) { c.sum.reset(); }},
    {"attentionOutOut", [](Call& c) { c.out.reset(); }},
};

Call make_call(Version version) {
    Call call = traits(version).dense ? dense_call() : varlen_call();
    call.version = version;
    return call;
}

class Pointers : public ::testing::TestWithParam<Version> {};

// 3.1, 3.2
TEST_P(Pointers, EachRequiredOneIsNamed) {
    for (const Pointer& pointer : kRequired) {
        SCOPED_TRACE(pointer.name);
        Call call = make_call(GetParam());
        pointer.clear(call);
        expect_refused(call, 161001, std::string(pointer.name) + " cannot be nullptr");
    }
}

TEST_P(Pointers, TheFirstOfSeveralIsNamed) {
    Call call = make_call(GetParam());
    for (size_t i = std::size(kRequired); i-- > 0;) {
        kRequired[i].clear(call);
        expect_refused(call, 161001, std::string(kRequired[i].name) + " cannot be nullptr");
    }
}

TEST_P(Pointers, OptionalOnesMayBeNullOrEmpty) {
    Call call = make_call(GetParam());
    ASSERT_EQ(run(call).code, 0);  // all optional arguments are null here
    const TensorSpec empty{.shape = {0}, .without_data = true};
    const TensorSpec scalar{.shape = {}, .dtype = ACL_INT32};
    for (const TensorSpec& absent : {empty, scalar}) {
        call.real_shift = call.drop_mask = call.padding_mask = call.mask = call.softmax_out = absent;
        call.prefix.emplace();
        const VersionTraits& has = traits(call.version);
        if (has.pse_type) call.q_start = call.kv_start = list({});
        if (has.sink) call.sink = absent;
        if (has.rope) call.query_rope = call.key_rope = absent;
        if (has.softmax_layout) call.softmax_out_layout = "";
        if (has.everything) {
            call.d_scale_q = call.d_scale_k = call.d_scale_v = absent;
            call.q_ends = call.kv_ends = list({});
        }
        const Outcome outcome = run(call);
        EXPECT_EQ(outcome.code, 0) << outcome.text;
    }
}

// A tensor that could not be created is a null pointer here, whatever the caller meant.
TEST_P(Pointers, SizesThatNoTensorCanHave) {
    const int64_t huge = int64_t{1} << 40;
    for (const std::vector<int64_t>& shape :
         {std::vector<int64_t>{huge, huge, 8, 8}, {2, 4, -1, 8}, std::vector<int64_t>(17, 1)}) {
        Call call = make_call(GetParam());
        call.query->shape = shape;
        expect_refused(call, 161001, "query cannot be nullptr");
    }
}

std::vector<Version> every_version() {
    std::vector<Version> versions = dense_versions();
    for (const Version version : varlen_versions()) versions.push_back(version);
    return versions;
}

INSTANTIATE_TEST_SUITE_P(, Pointers, ::testing::ValuesIn(every_version()), [](const auto& info) {
    const std::string name = traits(info.param).name + std::string("aclnnFlashAttention").size();
    return info.param == Version::kVarLenV5Max ? name + "Max" : name;
});

}  // namespace
}  // namespace flash_attention::testing
