// Strided views, their storage, and data addresses.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "call.h"

namespace flash_attention::testing {
namespace {

// BSND calls of B 2, Sq 3, Skv 5, N 4/2, D 8.
Call legal() {
    return dense_call("BSND");
}

// With everything that dense calls can have.
Call noisy() {
    Call call = legal();
    call.version = Version::kScoreV3;
    call.fill = Fill::kNoise;
    call.mask = TensorSpec{.shape = {2, 1, 3, 5}, .dtype = ACL_UINT8};
    call.hidden = [](int64_t i) { return i % 7 == 3; };
    call.real_shift = TensorSpec{.shape = {2, 4, 3, 5}};
    call.drop_mask = TensorSpec{.shape = {3, 5}, .dtype = ACL_UINT8};
    call.keep_prob = 0.75;
    call.sink = TensorSpec{.shape = {4}};
    return call;
}

// Sequences with rope parts and a sink, which go together with a mask only.
Call noisy_rope() {
    Call call = varlen_call({3, 4}, {5, 4}, 4, 2, 8);
    call.version = Version::kVarLenV5;
    call.fill = Fill::kNoise;
    set_dtype(call, ACL_BF16);
    call.query_rope = TensorSpec{.shape = {7, 4, 6}, .dtype = ACL_BF16};
    call.key_rope = TensorSpec{.shape = {9, 2, 6}, .dtype = ACL_BF16};
    call.mask = compressed_mask();
    call.sparse_mode = 3;
    call.sink = TensorSpec{.shape = {4}};
    return call;
}

// Row-major strides of the reversed shape, reversed: the first axis is the contiguous one.
void make_transposed(TensorSpec& tensor) {
    tensor.strides.clear();
    int64_t step = 1;
    for (const int64_t size : tensor.shape) {
        tensor.strides.push_back(step);
        step *= size;
    }
}

void make_padded(TensorSpec& tensor, int64_t last_stride) {
    tensor.strides.assign(tensor.shape.size(), 0);
    int64_t step = last_stride;
    for (size_t i = tensor.shape.size(); i-- > 0; step = step * tensor.shape[i] + 3) tensor.strides[i] = step;
    tensor.offset = 5;
}

// 4.13
TEST(Views, EveryArgumentAndEveryOrderGivesTheSameBits) {
    const Call packed = noisy();
    const std::array<Tensor Call::*, 10> arguments = {&Call::query,      &Call::key,       &Call::value, &Call::mask,
                                                      &Call::real_shift, &Call::drop_mask, &Call::sink,  &Call::max,
                                                      &Call::sum,        &Call::out};
    for (const aclDataType dtype : {ACL_FLOAT, ACL_FLOAT16, ACL_BF16}) {
        Call reference = packed;
        set_dtype(reference, dtype);
        reference.real_shift->dtype = dtype;
        Call all = reference;
        for (size_t i = 0; i < arguments.size(); i++) {
            SCOPED_TRACE(i);
            Call one = reference;
            make_transposed(*(one.*arguments[i]));
            expect_same_bits(one, reference);
            one = reference;
            make_padded(*(one.*arguments[i]), 2);
            expect_same_bits(one, reference);
            one = reference;
            make_padded(*(one.*arguments[i]), 1);
            expect_same_bits(one, reference);
            make_transposed(*(all.*arguments[i]));
        }
        expect_same_bits(all, reference);
    }
}

TEST(Views, BlockDiagonalMaskAndVarLenOutputs) {
    Call packed = varlen_call({3, 0, 4}, {5, 2, 4});
    packed.fill = Fill::kNoise;
    packed.mask = TensorSpec{.shape = {7, 11}, .dtype = ACL_BOOL};
    packed.hidden = [](int64_t i) { return i % 5 == 1; };
    Call strided = packed;
    for (Tensor* tensor : {&strided.query, &strided.mask, &strided.max, &strided.out}) make_transposed(**tensor);
    expect_same_bits(strided, packed);
}

TEST(Views, RopePartsAndSink) {
    const Call packed = noisy_rope();
    for (Tensor Call::*argument : {&Call::query_rope, &Call::key_rope, &Call::sink}) {
        Call strided = packed;
        make_transposed(*(strided.*argument));
        expect_same_bits(strided, packed);
        for (const int64_t last_stride : {1, 2}) {
            make_padded(*(strided.*argument), last_stride);
            expect_same_bits(strided, packed);
        }
    }
}

TEST(Views, FlatBiasAndSlopes) {
    for (const int64_t pse_type : {0, 2}) {
        for (const auto& shape : {std::vector<int64_t>{124}, {31, 4}, {4, 11}, {4}, {3, 4}}) {
            const bool slopes = shape == std::vector<int64_t>{4} || shape == std::vector<int64_t>{3, 4};
            if (slopes != (pse_type == 2)) continue;
            Call packed = varlen_call();
            packed.version = Version::kVarLenV2;
            packed.fill = Fill::kNoise;
            packed.pse_type = pse_type;
            packed.real_shift = TensorSpec{.shape = shape};
            Call strided = packed;
            make_transposed(*strided.real_shift);
            expect_same_bits(strided, packed);
            make_padded(*strided.real_shift, 2);
            expect_same_bits(strided, packed);
        }
    }
}

// A bias whose rows are all the same memory is the one-row form.
TEST(Views, ExpandedBias) {
    Call row = legal();
    row.fill = Fill::kNoise;
    row.real_shift = TensorSpec{.shape = {2, 4, 1, 5}};
    row.bias = [](int64_t i) { return static_cast<float>(i / 5 * 3 % 7 + i % 5); };
    Call expanded = row;
    expanded.real_shift = TensorSpec{.shape = {2, 4, 3, 5}, .strides = {20, 5, 0, 1}};
    expanded.bias = [](int64_t i) { return static_cast<float>(i / 15 * 3 % 7 + i % 5); };
    expect_same_bits(expanded, row);
    // Of one number for all keys nothing is left but rounding; here even that is exact.
    Call constant = legal();
    constant.scale = 1.0;
    constant.real_shift = TensorSpec{.shape = {2, 4, 3, 5}, .strides = {0, 0, 0, 0}};
    expect_counts(constant, {3, 3}, 4, [](auto...) { return 5; });
}

TEST(Views, ExpandedDropoutMaskAndSink) {
    Call call = legal();
    call.version = Version::kScoreV3;
    call.drop_mask = TensorSpec{.shape = {15}, .dtype = ACL_UINT8, .strides = {0}};
    call.keep_prob = 0.5;
    call.sink = TensorSpec{.shape = {4}, .strides = {0}};
    expect_counts(call, {3, 3}, 4, [](auto...) { return 5; });
}

TEST(Views, OnlyViewsWithGapsInTheLastAxisCostWorkspace) {
    const uint64_t packed = run(noisy(), true).workspace_size;
    Call rows = noisy();
    for (Tensor* tensor : {&rows.query, &rows.key, &rows.value, &rows.mask, &rows.real_shift, &rows.out}) {
        make_padded(**tensor, 1);
    }
    EXPECT_EQ(run(rows, true).workspace_size, packed);
    Call gaps = noisy();
    make_padded(*gaps.key, 2);
    EXPECT_EQ(run(gaps, true).workspace_size, packed + 2 * 5 * 2 * 8 * sizeof(float));
    // Axes that repeat are packed once.
    gaps.key->strides = {0, 0, 16, 2};
    gaps.key->offset = 0;
    EXPECT_EQ(run(gaps, true).workspace_size, packed + 2 * 8 * sizeof(float));
}

TEST(Views, ExpandedInputs) {
    for (const auto& strides : {std::vector<int64_t>{0, 32, 8, 1}, {96, 0, 0, 1}, {0, 0, 0, 0}, {32, 8, 1, 0}}) {
        Call call = legal();
        call.query->strides = call.key->strides = call.value->strides = strides;
        expect_counts(call, {3, 3}, 4, [](auto...) { return 5; });
    }
    Call call = legal();
    call.mask = TensorSpec{.shape = {2, 4, 3, 5}, .dtype = ACL_UINT8, .strides = {0, 0, 1, 0}};  // rows, not keys
    call.hidden = [](int64_t i) { return i / 5 % 3 == 1; };
    expect_counts(call, {3, 3}, 4, [](int64_t, int64_t, int64_t row) { return row == 1 ? 0 : 5; });
}

TEST(Views, AxesOfSizeOneMayHaveAnyStride) {
    constexpr int64_t kFar = int64_t{1} << 62;
    Call call = dense_call("BSND", {.b = 1, .n = 1, .nkv = 1, .sq = 1, .skv = 1, .d = 1, .dv = 1});
    const std::vector<int64_t> strides(4, kFar);
    for (Tensor* tensor : {&call.query, &call.key, &call.value, &call.out}) (*tensor)->strides = strides;
    call.max->strides = call.sum->strides = {kFar, kFar, kFar, 1};
    call.mask = TensorSpec{.shape = {1, 1, 1, 1}, .dtype = ACL_UINT8, .strides = strides};
    expect_counts(call, {1}, 1, [](auto...) { return 1; });
}

// 4.15
TEST(Views, StorageLimits) {
    Call call = legal();
    call.key->storage = {160};
    call.value->storage = {2, 5, 2, 8};
    call.out->storage = {1000};
    expect_counts(call, {3, 3}, 4, [](auto...) { return 5; });

    expect_all_refused(dense_versions(), legal,
                       {
                           {"4.15", [](Call& c) { c.key->storage = {159}; },
                            "key view exceeds its storage: needs element 159, storage has 159"},
                           {"4.15 empty storage", [](Call& c) { c.key->storage = {0}; },
                            "key view exceeds its storage: needs element 159, storage has 0"},
                           {"4.15 offset",
                            [](Call& c) {
                                c.query->storage = {2, 3, 4, 8};
                                c.query->offset = 1;
                            },
                            "query view exceeds its storage: needs element 192, storage has 192"},
                           {"4.15 strides",
                            [](Call& c) {
                                c.value->storage = {160};
                                c.value->strides = {160, 32, 16, 2};
                            },
                            "value view exceeds its storage: needs element 318, storage has 160"},
                           {"4.15 max", [](Call& c) { c.max->storage = {8}; },
                            "softmaxMaxOut view exceeds its storage: needs element 191, storage has 8"},
                           {"4.15 out", [](Call& c) { c.out->storage = {191}; },
                            "attentionOutOut view exceeds its storage: needs element 191, storage has 191"},
                           {"4.15 mask",
                            [](Call& c) {
                                c.mask = TensorSpec{.shape = {3, 5}, .dtype = ACL_BOOL, .storage = {14}};
                            },
                            "attenMaskOptional view exceeds its storage: needs element 14, storage has 14"},
                           {"far",
                            [](Call& c) {
                                c.key->strides = {int64_t{1} << 50, 16, 8, 1};
                            },
                            "key view needs element 1125899906842703: that is beyond any address space"},
                       });
}

// Of rope parts and sink.
TEST(Views, StorageAndDataOfOtherArguments) {
    for (const Version version : {Version::kVarLenV5, Version::kVarLenV5Max}) {
        Call call = noisy_rope();
        call.version = version;
        call.query_rope->storage = {100};
        expect_refused(call, 161002, "queryRope view exceeds its storage: needs element 167, storage has 100");
        call = noisy_rope();
        call.key_rope->storage = {107};
        expect_refused(call, 161002, "keyRope view exceeds its storage: needs element 107, storage has 107");
        call = noisy_rope();
        call.key_rope->without_data = true;
        expect_refused(call, 161002, "keyRope has shape [9, 2, 6], but its data address is nullptr");
        call = noisy_rope();
        call.sink->storage = {3};
        expect_refused(call, 161002, "sinkOptional view exceeds its storage: needs element 3, storage has 3");
        call = noisy_rope();
        call.sink->without_data = true;
        expect_refused(call, 161002, "sinkOptional has shape [4], but its data address is nullptr");
    }
    Call call = noisy_rope();
    call.version = Version::kScoreV4;
    call.query_rope->without_data = true;
    expect_refused(call, 161002, "queryRopeOptional has shape [7, 4, 6], but its data address is nullptr");
}

// GetMaxWorkspaceSize does not look at a dropout mask, so nothing can be wrong with it.
TEST(Views, DropoutMaskOfTheMaximum) {
    Call call = varlen_call();
    call.version = Version::kVarLenV5Max;
    call.drop_mask = TensorSpec{.shape = {16}, .dtype = ACL_UINT8, .storage = {1}, .without_data = true};
    EXPECT_EQ(run(call).code, 0);
}

TEST(Views, DataThatIsNeeded) {
    expect_all_refused(dense_versions(), legal,
                       {
                           {"query", [](Call& c) { c.query->without_data = true; },
                            "query has shape [2, 3, 4, 8], but its data address is nullptr"},
                           {"key", [](Call& c) { c.key->without_data = true; },
                            "key has shape [2, 5, 2, 8], but its data address is nullptr"},
                           {"value", [](Call& c) { c.value->without_data = true; },
                            "value has shape [2, 5, 2, 8], but its data address is nullptr"},
                           {"mask",
                            [](Call& c) {
                                c.mask = TensorSpec{.shape = {3, 5}, .dtype = ACL_BOOL, .without_data = true};
                            },
                            "attenMaskOptional has shape [3, 5], but its data address is nullptr"},
                           {"max", [](Call& c) { c.max->without_data = true; },
                            "softmaxMaxOut has shape [2, 4, 3, 8], but its data address is nullptr"},
                           {"sum", [](Call& c) { c.sum->without_data = true; },
                            "softmaxSumOut has shape [2, 4, 3, 8], but its data address is nullptr"},
                           {"out", [](Call& c) { c.out->without_data = true; },
                            "attentionOutOut has shape [2, 3, 4, 8], but its data address is nullptr"},
                       });
}

TEST(Views, OutputsThatOverlap) {
    expect_all_refused(dense_versions(), legal,
                       {
                           {"stride 0",
                            [](Call& c) {
                                c.out->strides = {0, 32, 8, 1};
                            },
                            "attentionOutOut view has overlapping elements, so it cannot be an output: shape [2, 3, 4, "
                            "8], strides [0, 32, 8, 1]"},
                           {"equal strides",
                            [](Call& c) {
                                c.out->strides = {96, 8, 8, 1};
                            },
                            "attentionOutOut view has overlapping elements, so it cannot be an output: shape [2, 3, 4, "
                            "8], strides [96, 8, 8, 1]"},
                           {"rows too close",
                            [](Call& c) {
                                c.out->strides = {96, 32, 7, 1};
                            },
                            "attentionOutOut view has overlapping elements, so it cannot be an output: shape [2, 3, 4, "
                            "8], strides [96, 32, 7, 1]"},
                           {"three axes",  // 12 = 8 + 4, though no two of the axes meet
                            [](Call& c) {
                                c.sum->strides = {12, 24, 8, 1};
                            },
                            "softmaxSumOut view has overlapping elements, so it cannot be an output: shape [2, 4, 3, "
                            "8], strides [12, 24, 8, 1]"},
                           {"statistics",
                            [](Call& c) {
                                c.sum->strides = {96, 24, 8, 0};
                            },
                            "softmaxSumOut view has overlapping elements, so it cannot be an output: shape [2, 4, 3, "
                            "8], strides [96, 24, 8, 0]"},
                       });
    // Interleaved axes whose elements are all different.
    Call call = legal();
    call.out->strides = {1, 2, 6, 24};
    expect_counts(call, {3, 3}, 4, [](auto...) { return 5; });
    call.out->strides = {200, 8, 25, 1};  // 8 * 25 = 25 * 8, but neither axis is that long
    expect_counts(call, {3, 3}, 4, [](auto...) { return 5; });
}

}  // namespace
}  // namespace flash_attention::testing
