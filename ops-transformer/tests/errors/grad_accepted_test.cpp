// Backward calls that are legal though they look odd: every element of every gradient is written, and nothing around
// them. What is written is the business of other tests, except zeros where nothing can be attended to.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "call.h"

namespace flash_attention::testing {
namespace {

Outcome expect_written(const Call& call) {
    Outcome outcome = run(call);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_EQ(outcome.text, "");
    EXPECT_EQ(outcome.unwritten, 0);
    EXPECT_FALSE(outcome.outputs_untouched);
    return outcome;
}

bool all_zero(const std::vector<float>& values) {
    return !values.empty() && std::all_of(values.begin(), values.end(), [](float x) { return x == 0.0F; });
}

// Positions in Outcome::gradients.
enum Gradient { kDq, kDk, kDv, kDqRope, kDkRope, kDpse, kDsink };

std::vector<Version> every_version() {
    std::vector<Version> versions = dense_grad_versions();
    for (const Version version : unpadding_grad_versions()) versions.push_back(version);
    return versions;
}

TEST(GradAccepted, EveryVersionAndDtype) {
    for (const Version version : every_version()) {
        for (const aclDataType dtype : {ACL_FLOAT, ACL_FLOAT16, ACL_BF16}) {
            Call call = backward_of(traits(version).dense ? dense_call() : varlen_call(), version);
            set_dtype(call, dtype);
            SCOPED_TRACE(::testing::Message() << call.name() << " dtype " << dtype);
            expect_written(call);
        }
    }
}

// 4.2, D != Dv
TEST(GradAccepted, EveryLayout) {
    for (const char* layout : {"BSH", "SBH", "BSND", "BNSD", "bsnd"}) {
        SCOPED_TRACE(layout);
        Call call = dense_call(std::strcmp(layout, "bsnd") == 0 ? "BSND" : layout, {.d = 8, .dv = 3});
        call.layout = layout;
        expect_written(backward_of(call));
    }
}

// 4.13: transposed and expanded inputs, outputs whose features do not lie side by side.
TEST(GradAccepted, Views) {
    Call call = backward_of(dense_call());
    call.dy->strides = {0, 0, 0, 0};  // the gradient of a sum
    call.out->strides = {1, 2, 8, 24};
    call.query->strides = {0, 24, 8, 1};
    call.max->strides = {0, 24, 8, 1};
    call.dq->strides = {1, 2, 8, 24};
    call.dk->strides = {160, 16, 32, 2};
    call.dv->offset = 5;
    EXPECT_GT(expect_written(call).workspace_size, 0U);  // packed copies
}

// 6.4, 6.8, and padding that the lists announce.
TEST(GradAccepted, Lists) {
    for (const Version version : tnd_grad_versions()) {
        SCOPED_TRACE(traits(version).name);
        expect_written(backward_of(varlen_call({0, 3, 4}, {0, 5, 4}), version));
        expect_written(backward_of(varlen_call({3, 0, 4}, {0, 2, 4}), version));
        Call call = backward_of(varlen_call({3, 4, 2}, {5, 4, 3}), version);
        call.q_ends->back() = call.kv_ends->back() = 0;
        expect_written(call);
        // Only one of the two has tokens that no sequence has.
        call = backward_of(varlen_call({3, 4, 2}, {5, 4, 3}), version);
        call.q_ends->back() = 8;
        expect_written(call);
        // One list that ends in 0 is enough.
        call.q_ends->back() = 0;
        call.kv_ends->back() = 11;
        expect_written(call);
    }
}

TEST(GradAccepted, LayoutsOfTheStatistics) {
    for (const Version version : only(tnd_grad_versions(), &VersionTraits::softmax_layout)) {
        for (const char* layout : {"", "same_as_input"}) {
            Call call = backward_of(varlen_call(), version);
            call.softmax_out_layout = layout;
            expect_written(call);
        }
    }
}

// 4.14: without keys or rows every gradient is zero; so are those of sequences without either.
TEST(GradAccepted, NothingToAttendTo) {
    for (const Version version : dense_grad_versions()) {
        SCOPED_TRACE(traits(version).name);
        Call call = backward_of(dense_call("BNSD", {.skv = 0}), version);
        Outcome outcome = expect_written(call);
        EXPECT_TRUE(all_zero(outcome.gradients[kDq]));
        EXPECT_EQ(outcome.workspace_size, 0U);
        outcome = expect_written(backward_of(dense_call("BNSD", {.sq = 0}), version));
        EXPECT_TRUE(all_zero(outcome.gradients[kDk]));
        EXPECT_TRUE(all_zero(outcome.gradients[kDv]));
        outcome = expect_written(backward_of(dense_call("BNSD", {.dv = 0}), version));
        EXPECT_TRUE(all_zero(outcome.gradients[kDq]));
        EXPECT_TRUE(all_zero(outcome.gradients[kDk]));
    }
    for (const Version version : tnd_grad_versions()) {
        SCOPED_TRACE(traits(version).name);
        const Outcome outcome = expect_written(backward_of(varlen_call({3, 0}, {0, 5}), version));
        for (const Gradient gradient : {kDq, kDk, kDv}) EXPECT_TRUE(all_zero(outcome.gradients[gradient]));
    }
}

// The bias gradient is wanted for every shape that has one.
TEST(GradAccepted, BiasGradient) {
    for (const std::vector<int64_t>& shape :
         {std::vector<int64_t>{2, 4, 3, 5}, {1, 4, 3, 5}, {2, 4, 1, 5}, {1, 4, 1, 5}}) {
        Call call = backward_of(dense_call());
        call.real_shift = call.dpse = TensorSpec{.shape = shape};
        expect_written(call);
        call.dpse->strides = {1, 2, 8, 24};
        expect_written(call);
        call.dpse.reset();
        expect_written(call);
        call.dpse = TensorSpec{.shape = {0}};
        expect_written(call);
    }
    // q 3, 0, 4 and kv 5, 2, 4: 31 pairs and 11 keys, for 4 heads.
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{124}, {44}, {4, 31}, {4, 11}, {44, 1}}) {
        Call call = backward_of(varlen_call());
        call.real_shift = call.dpse = TensorSpec{.shape = shape};
        expect_written(call);
    }
}

// Elements behind those that the bias needs, also where the gradient is packed before it is stored.
TEST(GradAccepted, BiasGradientWithMoreElements) {
    Call call = backward_of(varlen_call());
    call.real_shift = call.dpse = TensorSpec{.shape = {124, 2}};
    for (const int64_t step : {1, 3}) {
        call.dpse->strides = {2 * step, step};
        const std::vector<float> dpse = expect_written(call).gradients[kDpse];
        EXPECT_TRUE(all_zero({dpse.begin() + 124, dpse.end()}));
    }
}

// 7.6: zeros where the gradient is not computed.
TEST(GradAccepted, BiasGradientOfSlopesAndCompressedBias) {
    Call call = backward_of(dense_call("BNSD", {.sq = 5}), Version::kGradV2);
    call.pse_type = 2;
    call.real_shift = call.dpse = TensorSpec{.shape = {2, 4}};
    EXPECT_TRUE(all_zero(expect_written(call).gradients[kDpse]));
    set_dtype(call, ACL_BF16);
    EXPECT_TRUE(all_zero(expect_written(call).gradients[kDpse]));
    call.dpse->dtype = ACL_BF16;
    EXPECT_TRUE(all_zero(expect_written(call).gradients[kDpse]));

    call = dense_call("BNSD", {.b = 1, .n = 1, .nkv = 1, .sq = 1030, .skv = 1030, .d = 1, .dv = 1});
    call.mask = compressed_mask();
    call.sparse_mode = 2;
    call = backward_of(call);
    call.real_shift = call.dpse = TensorSpec{.shape = {1, 1, 1024, 1030}};
    EXPECT_TRUE(all_zero(expect_written(call).gradients[kDpse]));
}

// Outputs that belong to absent inputs.
TEST(GradAccepted, GradientsOfAbsentInputs) {
    Call call = backward_of(varlen_call(), Version::kUnpaddingGradV5);
    call.dpse = TensorSpec{.shape = {3, 2}, .dtype = ACL_FLOAT16, .strides = {4, 2}};
    call.dsink = TensorSpec{.shape = {4}};
    call.dq_rope = TensorSpec{.shape = {7, 4, 2}, .dtype = ACL_BF16};
    call.dk_rope = TensorSpec{.shape = {1}};
    const Outcome outcome = expect_written(call);
    for (const Gradient gradient : {kDpse, kDsink, kDqRope, kDkRope}) {
        EXPECT_TRUE(all_zero(outcome.gradients[gradient]));
    }
}

// 3.14: the NPU refuses a sink with a FLOAT query.
TEST(GradAccepted, SinkOfEveryDtype) {
    for (const Version version : only(every_version(), &VersionTraits::sink)) {
        for (const aclDataType dtype : {ACL_FLOAT, ACL_FLOAT16, ACL_BF16}) {
            Call call = traits(version).dense ? dense_call() : varlen_call();
            call.sink = TensorSpec{.shape = {4}};
            call = backward_of(call, version);
            set_dtype(call, dtype);
            expect_written(call);
            call.dsink->strides = {3};
            expect_written(call);
        }
    }
}

TEST(GradAccepted, Rope) {
    for (const Version version : only(tnd_grad_versions(), &VersionTraits::rope)) {
        Call call = varlen_call({3, 4}, {5, 4}, 4, 2, 32);
        set_dtype(call, ACL_BF16);
        call.query_rope = TensorSpec{.shape = {7, 4, 16}, .dtype = ACL_BF16};
        call.key_rope = TensorSpec{.shape = {9, 2, 16}, .dtype = ACL_BF16};
        call.mask = compressed_mask();
        call.sparse_mode = 3;
        call = backward_of(call, version);
        expect_written(call);
        call.dq_rope->strides = {1, 112, 7};
        expect_written(call);
    }
}

// Dropout: with a mask for any probability.
TEST(GradAccepted, DropMask) {
    for (const Version version : only(every_version(), &VersionTraits::dropout)) {
        for (const double keep_prob : {1.0, 0.5}) {
            Call call = backward_of(traits(version).dense ? dense_call() : varlen_call(), version);
            call.drop_mask = TensorSpec{.shape = {16}, .dtype = ACL_UINT8};
            call.keep_prob = keep_prob;
            expect_written(call);
        }
    }
}

// 6.11: the version for all layouts makes the bits of forward again.
TEST(GradAccepted, DropoutFromSeed) {
    for (const Call& forward : {dense_call(), varlen_call()}) {
        Call call = backward_of(forward, Version::kGradV4);
        const Outcome plain = expect_written(call);
        call.keep_prob = 0.5;
        call.seed = -3;
        EXPECT_EQ(expect_written(call).workspace_size, plain.workspace_size);
    }
}

// The bound holds for all lists with as many entries, and keepProb is not looked at.
TEST(GradAccepted, BoundOfTheWorkspace) {
    // Keys for one part and for many, heads that are few beside the threads and others.
    for (const int64_t tokens : {30, 6000}) {
        for (const int64_t heads : {1, 3, 5}) {
            const auto workspace = [heads](Version version, const std::vector<int64_t>& lengths, double keep_prob = 1) {
                Call call = backward_of(varlen_call(lengths, lengths, heads, heads, 1), version);
                call.keep_prob = keep_prob;
                const Outcome outcome = run(call, true);
                EXPECT_EQ(outcome.code, 0) << outcome.text;
                return outcome.workspace_size;
            };
            const int64_t third = tokens / 3;
            const uint64_t bound = workspace(Version::kUnpaddingGradV5Max, {third, third, third});
            EXPECT_EQ(workspace(Version::kUnpaddingGradV5Max, {tokens, 0, 0}), bound);
            EXPECT_EQ(workspace(Version::kUnpaddingGradV5Max, {1, tokens - 2, 1}, 0.5), bound);
            for (const auto& lengths : {std::vector<int64_t>{third, third, third},
                                        {tokens, 0, 0},
                                        {1, 1, tokens - 2},
                                        {tokens / 2, tokens / 2, 0}}) {
                EXPECT_LE(workspace(Version::kUnpaddingGradV5, lengths), bound);
            }
        }
    }
    expect_written(backward_of(varlen_call(), Version::kUnpaddingGradV5Max));
}

}  // namespace
}  // namespace flash_attention::testing
