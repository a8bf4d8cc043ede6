// realShiftOptional, pseType and the start indices with one mistake: 161002 and the exact sentence. The legal calls
// have Sq 3, Skv 5 (dense, B 2) and the lengths q 3, 0, 4 and kv 5, 2, 4 (TND), N 4/2, D 8, float, without a bias.
// Numbers name entries of the list of known mistakes.
#include <gtest/gtest.h>

#include <limits>

#include "call.h"

namespace flash_attention::testing {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();

Call dense() {
    return dense_call();
}
Call tnd() {
    return varlen_call();
}
Call square() {
    return dense_call("BNSD", {.sq = 5, .skv = 5});
}

// Nothing is read before the refusal, so a bias needs no memory.
TensorSpec tensor(std::vector<int64_t> shape, aclDataType dtype = ACL_FLOAT) {
    return {.shape = std::move(shape), .dtype = dtype, .without_data = true};
}

std::vector<Version> with_pse_type(std::vector<Version> versions) {
    return only(std::move(versions), &VersionTraits::pse_type);
}

// Queries, keys and values of such sizes get no memory either.
void forget_data(Call& call) {
    for (Tensor* t : {&call.query, &call.key, &call.value, &call.out, &call.max, &call.sum}) (*t)->without_data = true;
}

void set_compressed(Call& call, int64_t sparse_mode, std::vector<int64_t> bias_shape) {
    call.real_shift = tensor(std::move(bias_shape));
    call.sparse_mode = sparse_mode;
    call.mask = compressed_mask();
    forget_data(call);
}

const std::initializer_list<Mistake> kTypes = {
    {"3.8",
     [](Call& c) {
         set_dtype(c, ACL_FLOAT16);
         c.real_shift = tensor({124});
     },
     "realShiftOptional dtype FLOAT must equal query dtype FLOAT16 for pseType 1"},
    {"3.8 16 bits",
     [](Call& c) {
         set_dtype(c, ACL_BF16);
         c.real_shift = tensor({124}, ACL_FLOAT16);
     },
     "realShiftOptional dtype FLOAT16 must equal query dtype BFLOAT16 for pseType 1"},
    {"3.8 bytes", [](Call& c) { c.real_shift = tensor({124}, ACL_UINT8); },
     "realShiftOptional dtype UINT8 must equal query dtype FLOAT for pseType 1"},
};

const std::initializer_list<Mistake> kTypesByNumber = {
    {"3.8 pseType 0",
     [](Call& c) {
         c.real_shift = tensor({124}, ACL_FLOAT16);
         c.pse_type = 0;
     },
     "realShiftOptional dtype FLOAT16 must equal query dtype FLOAT for pseType 0"},
    {"3.9",
     [](Call& c) {
         set_dtype(c, ACL_FLOAT16);
         c.real_shift = tensor({4}, ACL_FLOAT16);
         c.pse_type = 2;
     },
     "realShiftOptional dtype FLOAT16: expected FLOAT for pseType 2"},
    {"3.9 pseType 3",
     [](Call& c) {
         c.real_shift = tensor({4}, ACL_BF16);
         c.pse_type = 3;
     },
     "realShiftOptional dtype BFLOAT16: expected FLOAT for pseType 3"},
    {"3.10", [](Call& c) { c.pse_type = 2; }, "realShiftOptional cannot be nullptr when pseType is 2"},
    {"3.10 pseType 0", [](Call& c) { c.pse_type = 0; }, "realShiftOptional cannot be nullptr when pseType is 0"},
    {"3.10 pseType 3",
     [](Call& c) {
         c.pse_type = 3;
         c.real_shift = tensor({0});  // counts as absent
     },
     "realShiftOptional cannot be nullptr when pseType is 3"},
    {"6.16", [](Call& c) { c.pse_type = 4; }, "pseType 4 is not supported: expected 0, 1, 2 or 3"},
    {"6.16 negative", [](Call& c) { c.pse_type = -1; }, "pseType -1 is not supported: expected 0, 1, 2 or 3"},
    {"6.16 with a bias",
     [](Call& c) {
         c.pse_type = kHighest;
         c.real_shift = tensor({124});
     },
     "pseType 9223372036854775807 is not supported: expected 0, 1, 2 or 3"},
};

TEST(RefusalsBias, Types) {
    expect_all_refused(dense_versions(), dense, kTypes);
    expect_all_refused(tnd_versions(), tnd, kTypes);
    expect_all_refused(with_pse_type(dense_versions()), dense, kTypesByNumber);
    expect_all_refused(with_pse_type(tnd_versions()), tnd, kTypesByNumber);
}

// 6.14
TEST(RefusalsBias, DenseShapes) {
    expect_all_refused(dense_versions(), dense,
                       {
                           {"heads share it",
                            [](Call& c) {
                                c = dense_call("BNSD", {.n = 8, .nkv = 8, .sq = 64, .skv = 64});
                                c.real_shift = tensor({2, 1, 64, 64});
                            },
                            "realShiftOptional shape [2, 1, 64, 64] is not supported: expected [2, 8, 64, 64], [1, 8, "
                            "64, 64], [2, 8, 1, 64], [1, 8, 1, 64] (no broadcasting over heads)"},
                           {"3-D",
                            [](Call& c) {
                                c.real_shift = tensor({4, 3, 5});
                            },
                            "realShiftOptional shape [4, 3, 5] is not supported: expected [2, 4, 3, 5], [1, 4, 3, 5], "
                            "[2, 4, 1, 5], [1, 4, 1, 5] (no broadcasting over heads)"},
                           {"flat", [](Call& c) { c.real_shift = tensor({120}); },
                            "realShiftOptional shape [120] is not supported: expected [2, 4, 3, 5], [1, 4, 3, 5], [2, "
                            "4, 1, 5], [1, 4, 1, 5] (no broadcasting over heads)"},
                           {"other batch",
                            [](Call& c) {
                                c.real_shift = tensor({3, 4, 3, 5});
                            },
                            "realShiftOptional shape [3, 4, 3, 5] is not supported: expected [2, 4, 3, 5], [1, 4, 3, "
                            "5], [2, 4, 1, 5], [1, 4, 1, 5] (no broadcasting over heads)"},
                           {"one column",
                            [](Call& c) {
                                c.real_shift = tensor({2, 4, 3, 1});
                            },
                            "realShiftOptional shape [2, 4, 3, 1] is not supported: expected [2, 4, 3, 5], [1, 4, 3, "
                            "5], [2, 4, 1, 5], [1, 4, 1, 5] (no broadcasting over heads)"},
                           {"1024 rows for fewer",
                            [](Call& c) {
                                c.real_shift = tensor({2, 4, 1024, 5});
                            },
                            "realShiftOptional shape [2, 4, 1024, 5] is not supported: expected [2, 4, 3, 5], [1, 4, "
                            "3, 5], [2, 4, 1, 5], [1, 4, 1, 5] (no broadcasting over heads)"},
                           {"where 1024 rows are possible",
                            [](Call& c) {
                                c = dense_call("BSND", {.n = 8, .nkv = 1, .sq = 2048, .skv = 2048, .d = 1, .dv = 1});
                                set_compressed(c, 2, {2, 8, 1000, 2048});
                            },
                            "realShiftOptional shape [2, 8, 1000, 2048] is not supported: expected [2, 8, 2048, 2048], "
                            "[1, 8, 2048, 2048], [2, 8, 1, 2048], [1, 8, 1, 2048], [2, 8, 1024, 2048] or [1, 8, 1024, "
                            "2048] (no broadcasting over heads)"},
                       });
}

TEST(RefusalsBias, TndShapes) {
    expect_all_refused(tnd_versions(), tnd,
                       {
                           {"too few elements",
                            [](Call& c) {
                                c.real_shift = tensor({7, 3});
                            },
                            "realShiftOptional shape [7, 3] is not supported: expected 124 elements (Nq * sum Sq*Skv), "
                            "44 (Nq * sum Skv), [3, 4, 1024, 5] or [1, 4, 1024, 5]"},
                           {"one more", [](Call& c) { c.real_shift = tensor({125}); },
                            "realShiftOptional shape [125] is not supported: expected 124 elements (Nq * sum Sq*Skv), "
                            "44 (Nq * sum Skv), [3, 4, 1024, 5] or [1, 4, 1024, 5]"},
                           {"as for dense batches",
                            [](Call& c) {
                                c.real_shift = tensor({3, 4, 4, 5});
                            },
                            "realShiftOptional shape [3, 4, 4, 5] is not supported: expected 124 elements (Nq * sum "
                            "Sq*Skv), 44 (Nq * sum Skv), [3, 4, 1024, 5] or [1, 4, 1024, 5]"},
                           {"1024 rows for one head",
                            [](Call& c) {
                                c.real_shift = tensor({3, 1, 1024, 5});
                            },
                            "realShiftOptional shape [3, 1, 1024, 5] is not supported: expected 124 elements (Nq * sum "
                            "Sq*Skv), 44 (Nq * sum Skv), [3, 4, 1024, 5] or [1, 4, 1024, 5]"},
                       });
}

TEST(RefusalsBias, Slopes) {
    expect_all_refused(
        with_pse_type(dense_versions()), square,
        {
            {"other heads",
             [](Call& c) {
                 c = dense_call("BSH", {.n = 8, .nkv = 2, .sq = 5, .skv = 5});
                 c.pse_type = 2;
                 c.real_shift = tensor({3});
             },
             "realShiftOptional shape [3] is not supported for pseType 2: expected [8] or [2, 8]"},
            {"other batch",
             [](Call& c) {
                 c.pse_type = 3;
                 c.real_shift = tensor({1, 4});
             },
             "realShiftOptional shape [1, 4] is not supported for pseType 3: expected [4] or [2, 4]"},
            {"a full bias",
             [](Call& c) {
                 c.pse_type = 3;
                 c.real_shift = tensor({2, 4, 5, 5});
             },
             "realShiftOptional shape [2, 4, 5, 5] is not supported for pseType 3: expected [4] or [2, 4]"},
        });
    expect_all_refused(with_pse_type(tnd_versions()), tnd,
                       {
                           {"one head",
                            [](Call& c) {
                                c.pse_type = 2;
                                c.real_shift = tensor({1});
                            },
                            "realShiftOptional shape [1] is not supported for pseType 2: expected [4] or [3, 4]"},
                           {"other batch",
                            [](Call& c) {
                                c.pse_type = 3;
                                c.real_shift = tensor({2, 4});
                            },
                            "realShiftOptional shape [2, 4] is not supported for pseType 3: expected [4] or [3, 4]"},
                       });
}

// 6.15
TEST(RefusalsBias, CompressedDense) {
    expect_all_refused(dense_versions(), dense,
                       {
                           {"lengths",
                            [](Call& c) {
                                c = dense_call("BSND", {.n = 8, .nkv = 1, .sq = 2048, .skv = 1500, .d = 1, .dv = 1});
                                set_compressed(c, 2, {2, 8, 1024, 1500});
                            },
                            "realShiftOptional with 1024 rows needs Sq = Skv: got Sq 2048, Skv 1500"},
                           {"band",
                            [](Call& c) {
                                c = dense_call("BSND", {.n = 8, .nkv = 1, .sq = 2048, .skv = 2048, .d = 1, .dv = 1});
                                set_compressed(c, 4, {2, 8, 1024, 2048});
                                c.next = 0;
                            },
                            "realShiftOptional with 1024 rows needs a causal mask: attenMaskOptional with sparseMode "
                            "0, 2 or 3, got sparseMode 4"},
                           {"mask alone",
                            [](Call& c) {
                                c = dense_call("BSND", {.n = 8, .nkv = 1, .sq = 1025, .skv = 1025, .d = 1, .dv = 1});
                                set_compressed(c, 1, {1, 8, 1024, 1025});
                                c.mask = byte_tensor({1025, 1025});
                            },
                            "realShiftOptional with 1024 rows needs a causal mask: attenMaskOptional with sparseMode "
                            "0, 2 or 3, got sparseMode 1"},
                           {"no mask",
                            [](Call& c) {
                                c = dense_call("BNSD", {.n = 8, .nkv = 1, .sq = 2048, .skv = 2048, .d = 1, .dv = 1});
                                set_compressed(c, 3, {2, 8, 1024, 2048});
                                c.mask.reset();
                            },
                            "realShiftOptional with 1024 rows needs a causal mask: attenMaskOptional with sparseMode "
                            "0, 2 or 3, got no attenMaskOptional"},
                       });
}

TEST(RefusalsBias, CompressedTnd) {
    expect_all_refused(
        tnd_versions(), tnd,
        {
            {"lengths",
             [](Call& c) {
                 c = varlen_call({9, 7}, {9, 9});
                 set_compressed(c, 2, {1, 4, 1024, 9});
             },
             "realShiftOptional with 1024 rows needs Sq = Skv: batch 1 has Sq 7, Skv 9"},
            {"mask alone",
             [](Call& c) {
                 c = varlen_call({9, 7}, {9, 7});
                 set_compressed(c, 1, {2, 4, 1024, 9});
                 c.mask = byte_tensor({9, 9});
             },
             "realShiftOptional with 1024 rows needs a causal mask: attenMaskOptional with sparseMode 2, 3, 0 with "
             "preTokens >= 9 and nextTokens 0, or 4 with preTokens >= 9 and nextTokens 0, got sparseMode 1"},
            {"no mask",
             [](Call& c) {
                 c = varlen_call({9, 7}, {9, 7});
                 set_compressed(c, 2, {1, 4, 1024, 9});
                 c.mask.reset();
             },
             "realShiftOptional with 1024 rows needs a causal mask: attenMaskOptional with sparseMode 2, 3, 0 with "
             "preTokens >= 9 and nextTokens 0, or 4 with preTokens >= 9 and nextTokens 0, got no attenMaskOptional"},
        });
}

// Windows that are not causal: the mode alone would be legal.
TEST(RefusalsBias, CompressedTndWindows) {
    struct Window {
        int64_t mode, pre, next;
    };
    for (const Window& window : {Window{0, 8, 0}, {0, 9, 1}, {0, kHighest, kHighest}, {4, 8, 0}, {4, 9, 1}}) {
        Call call = varlen_call({9, 7}, {9, 7});
        set_compressed(call, window.mode, {1, 4, 1024, 9});
        if (window.mode == 0) call.mask = byte_tensor({9, 9});
        call.pre = window.pre;
        call.next = window.next;
        for (const Version version : tnd_versions()) {
            call.version = version;
            expect_refused(
                call, 161002,
                "realShiftOptional with 1024 rows needs a causal mask: attenMaskOptional with sparseMode 2, 3, 0 with "
                "preTokens >= 9 and nextTokens 0, or 4 with preTokens >= 9 and nextTokens 0, got sparseMode " +
                    std::to_string(window.mode));
        }
    }
}

void set_slopes(Call& call, int64_t pse_type) {
    call.pse_type = pse_type;
    call.real_shift = tensor({4});
}

TEST(RefusalsBias, SlopesNeedEqualLengths) {
    expect_all_refused(with_pse_type(dense_versions()), square,
                       {
                           {"pseType 2",
                            [](Call& c) {
                                c = dense_call("SBH", {.sq = 7, .skv = 9});
                                set_slopes(c, 2);
                            },
                            "pseType 2 needs Sq = Skv: got Sq 7, Skv 9"},
                           {"pseType 3",
                            [](Call& c) {
                                c = dense_call();
                                set_slopes(c, 3);
                            },
                            "pseType 3 needs Sq = Skv: got Sq 3, Skv 5"},
                       });
    expect_all_refused(
        with_pse_type(tnd_versions()), tnd,
        {
            {"mode 8, another sequence",
             [](Call& c) {
                 c = varlen_call({9, 7}, {9, 9});
                 set_compressed(c, 8, {});
                 set_slopes(c, 2);
             },
             "pseType 2 with sparseMode 8 needs Sq = Skv: batch 1 has Sq 7, Skv 9"},
            {"mode 8, first sequence",
             [](Call& c) {
                 c = varlen_call({7, 9}, {9, 9});
                 set_compressed(c, 8, {});
                 set_slopes(c, 3);
                 c.q_start = list({6});
                 c.kv_start = list({2});
             },
             "pseType 3 with sparseMode 8 needs Sq - Skv + qStartIdx - kvStartIdx = 0 for batch 0: got 2"},
            {"mode 8, first sequence, one list alone",
             [](Call& c) {
                 c = varlen_call({7, 9}, {9, 9});
                 set_compressed(c, 8, {});
                 set_slopes(c, 2);
                 c.q_start = list({2});  // would be right if it counted
             },
             "pseType 2 with sparseMode 8 needs Sq - Skv + qStartIdx - kvStartIdx = 0 for batch 0: got -2"},
            {"mode 7",
             [](Call& c) {
                 c = varlen_call({9, 9}, {9, 9});
                 set_compressed(c, 7, {});
                 c.next = 0;
                 set_slopes(c, 2);
             },
             "pseType 2 is not supported by sparseMode 7"},
        });
}

// 6.17: sums with indices up to here cannot overflow.
TEST(RefusalsBias, StartIndices) {
    expect_all_refused(
        with_pse_type(dense_versions()), square,
        {
            {"highest",
             [](Call& c) {
                 set_slopes(c, 2);
                 c.q_start = list({kHighest});
                 c.kv_start = list({0});
             },
             "qStartIdxOptional[0] is 9223372036854775807: expected an absolute value of at most 1152921504606846976"},
            {"lowest",
             [](Call& c) {
                 set_slopes(c, 3);
                 c.q_start = list({0});
                 c.kv_start = list({kLowest, 1});
             },
             "kvStartIdxOptional[0] is -9223372036854775808: expected an absolute value of at most "
             "1152921504606846976"},
            {"one too many",
             [](Call& c) {
                 set_slopes(c, 3);
                 c.q_start = list({0});
                 c.kv_start = {(int64_t{1} << 60) + 1};
             },
             "kvStartIdxOptional[0] is 1152921504606846977: expected an absolute value of at most 1152921504606846976"},
        });
    expect_all_refused(
        with_pse_type(tnd_versions()), tnd,
        {
            {"lowest",
             [](Call& c) {
                 set_slopes(c, 2);
                 c.q_start = list({kLowest});
                 c.kv_start = list({0});
             },
             "qStartIdxOptional[0] is -9223372036854775808: expected an absolute value of at most 1152921504606846976"},
        });
}

}  // namespace
}  // namespace flash_attention::testing
