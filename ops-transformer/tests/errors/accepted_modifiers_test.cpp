// Bias, dropout, sink, rope parts and statistics layouts that are legal, in every version that has them. Queries are 0
// and values 1, and what the modifiers hold leaves the counts of visible keys readable (see Fill). Numbers name entries
// of the list of known mistakes.
#include <gtest/gtest.h>

#include <limits>

#include "call.h"

namespace flash_attention::testing {
namespace {

constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();

int64_t five(int64_t, int64_t, int64_t) {
    return 5;
}
int64_t keys_of_sequence(int64_t s, int64_t, int64_t) {
    return std::vector<int64_t>{5, 2, 4}[s];
}
int64_t causal(int64_t, int64_t, int64_t row) {
    return row + 1;
}

std::vector<Version> with_pse_type(std::vector<Version> versions) {
    return only(std::move(versions), &VersionTraits::pse_type);
}

TEST(AcceptedModifiers, DenseBiasShapes) {
    for (const char* layout : {"SBH", "BNSD"}) {
        for (const auto& shape : {std::vector<int64_t>{2, 4, 3, 5}, {1, 4, 3, 5}, {2, 4, 1, 5}, {1, 4, 1, 5}}) {
            Call call = dense_call(layout);
            call.real_shift = TensorSpec{.shape = shape};
            expect_counts_in(dense_versions(), call, {3, 3}, five);
            call.pse_type = 0;
            expect_counts_in(with_pse_type(dense_versions()), call, {3, 3}, five);
            set_dtype(call, ACL_FLOAT16);
            call.real_shift->dtype = ACL_FLOAT16;
            call.pse_type = 1;
            expect_counts(call, {3, 3}, 4, five);
        }
    }
}

TEST(AcceptedModifiers, TndBiasShapes) {
    Call call = varlen_call();
    // 124 = 4 * (3*5 + 0*2 + 4*4), 44 = 4 * (5 + 2 + 4)
    for (const auto& shape : {std::vector<int64_t>{124}, {124, 1}, {31, 4}, {1, 1, 124, 1}, {44}, {44, 1}, {4, 11}}) {
        call.real_shift = TensorSpec{.shape = shape};
        call.pse_type = 1;
        expect_counts_in(tnd_versions(), call, {3, 0, 4}, keys_of_sequence);
        call.pse_type = 0;
        expect_counts_in(with_pse_type(tnd_versions()), call, {3, 0, 4}, keys_of_sequence);
    }
}

TEST(AcceptedModifiers, CompressedBias) {
    Call call = dense_call("BSND", {.b = 2, .n = 2, .nkv = 1, .sq = 1025, .skv = 1025, .d = 1, .dv = 1});
    call.mask = compressed_mask();
    for (const int64_t batch : {1, 2}) {
        for (const int64_t mode : {2, 3}) {
            call.real_shift = TensorSpec{.shape = {batch, 2, 1024, 1025}};
            call.sparse_mode = mode;
            expect_counts(call, {1025, 1025}, 2, causal);
        }
    }
    call.sparse_mode = 0;
    call.mask = TensorSpec{.shape = {1025, 1025}, .dtype = ACL_BOOL};
    call.next = 0;
    expect_counts(call, {1025, 1025}, 2, causal);

    call = varlen_call({9, 0, 7}, {9, 0, 7}, 2, 1, 1);
    call.mask = compressed_mask();
    struct Window {
        int64_t mode, pre, next;
    };
    for (const Window& window :
         {Window{2, 0, 0}, {3, -4, -4}, {4, 9, 0}, {4, kHighest, 0}, {0, 9, 0}, {0, kHighest, 0}}) {
        call.sparse_mode = window.mode;
        call.pre = window.pre;
        call.next = window.next;
        if (window.mode == 0) call.mask = TensorSpec{.shape = {9, 9}, .dtype = ACL_UINT8};
        for (const int64_t batch : {1, 3}) {
            call.real_shift = TensorSpec{.shape = {batch, 2, 1024, 9}};
            expect_counts_in(tnd_versions(), call, {9, 0, 7}, causal);
        }
    }
}

TEST(AcceptedModifiers, Slopes) {
    for (const int64_t pse_type : {2, 3}) {
        Call call = dense_call("BNSD", {.sq = 5, .skv = 5});
        call.pse_type = pse_type;
        for (const auto& shape : {std::vector<int64_t>{4}, {2, 4}}) {
            for (const aclDataType dtype : {ACL_FLOAT, ACL_FLOAT16, ACL_BF16}) {
                set_dtype(call, dtype);
                call.real_shift = TensorSpec{.shape = shape};  // FLOAT for every dtype of query
                expect_counts_in(with_pse_type(dense_versions()), call, {5, 5}, five);
            }
        }
        // Sequences may have different lengths of rows and keys.
        call = varlen_call();
        call.pse_type = pse_type;
        for (const auto& shape : {std::vector<int64_t>{4}, {3, 4}}) {
            call.real_shift = TensorSpec{.shape = shape};
            expect_counts_in(with_pse_type(tnd_versions()), call, {3, 0, 4}, keys_of_sequence);
        }
    }
}

TEST(AcceptedModifiers, SlopesAndBiasOfSplitBatches) {
    Call call = varlen_call({3, 5}, {4, 5});
    call.mask = compressed_mask();
    call.sparse_mode = 8;
    call.pre = 4;
    call.next = 1;
    call.pse_type = 2;
    call.real_shift = TensorSpec{.shape = {4}};
    call.q_start = list({3});
    call.kv_start = list({2});
    const auto visible = [](int64_t s, int64_t, int64_t row) {
        return s == 0 ? std::min<int64_t>(row + 3, 4) : row + 1;
    };
    expect_counts_in(with_pse_type(tnd_versions()), call, {3, 5}, visible);
    // A given bias goes with modes 7 and 8.
    call = varlen_call({3, 2}, {3, 6});
    call.mask = compressed_mask();
    call.sparse_mode = 7;
    call.pre = 6;
    call.next = -2;
    call.real_shift = TensorSpec{.shape = {84}};
    expect_counts_in(tnd_versions(), call, {3, 2},
                     [](int64_t s, int64_t, int64_t row) { return s == 0 ? row + 1 : row + 3; });
}

// 6.17
TEST(AcceptedModifiers, StartIndices) {
    Call call = dense_call("BNSD", {.sq = 5, .skv = 5});
    call.real_shift = TensorSpec{.shape = {4}};
    call.pse_type = 2;

    const int64_t limit = int64_t{1} << 60;
    for (const auto& [q, kv] : {std::pair{List{}, list({7})},
                                {list({7}), List{}},
                                {list({0}), list({0})},
                                {list({-3, 9}), list({4, 9, 9})},
                                {list({limit}), list({limit})},
                                {list({-limit}), list({limit})}}) {
        call.q_start = q;
        call.kv_start = kv;
        expect_counts_in(with_pse_type(dense_versions()), call, {5, 5}, five);
    }
    // Of other types of bias they are not looked at.
    call.real_shift.reset();
    call.pse_type = 1;
    call.q_start = list({kHighest});
    call.kv_start = list({-kHighest});
    expect_counts_in(with_pse_type(dense_versions()), call, {5, 5}, five);
}

// 6.11; 120 and 124 pairs need 15 and 16 bytes.
TEST(AcceptedModifiers, DropoutMasks) {
    for (const double keep_prob : {0.5, 1.0}) {
        for (const auto& shape : {std::vector<int64_t>{16}, {17}, {2, 4, 3, 5}, {4, 4}}) {
            Call call = dense_call();
            call.keep_prob = keep_prob;
            call.drop_mask = TensorSpec{.shape = shape, .dtype = ACL_UINT8};
            expect_counts_in(dense_versions(), call, {3, 3}, five);
            call = varlen_call();
            call.keep_prob = keep_prob;
            call.drop_mask = TensorSpec{.shape = shape, .dtype = ACL_UINT8};
            expect_counts_in(only(tnd_versions(), &VersionTraits::dropout), call, {3, 0, 4}, keys_of_sequence);
        }
    }
    Call call = dense_call();
    call.keep_prob = 0.9;
    expect_counts_in(only(dense_versions(), &VersionTraits::everything, false), call, {3, 3}, five);
    call = varlen_call();
    call.keep_prob = 0.9;
    expect_counts_in(varlen_versions(), call, {3, 0, 4}, keys_of_sequence);
}

// 6.11: the version for all layouts makes the bits itself, without memory for them. Maximum and sum do not feel
// dropout.
TEST(AcceptedModifiers, DropoutFromSeed) {
    for (Call call : {dense_call(), varlen_call()}) {
        call.version = Version::kScoreV4;
        const Outcome plain = run(call);
        call.keep_prob = 0.5;
        call.seed = std::numeric_limits<int64_t>::min();
        call.offset = -1;
        const Outcome outcome = run(call);
        EXPECT_EQ(outcome.code, 0) << outcome.text;
        EXPECT_EQ(outcome.unwritten, 0);
        EXPECT_EQ(outcome.workspace_size, plain.workspace_size);
        EXPECT_EQ(outcome.max, plain.max);
        EXPECT_EQ(outcome.sum, plain.sum);
        EXPECT_NE(outcome.out, plain.out);
    }
}

// GetMaxWorkspaceSize does not look at what belongs to dropout.
TEST(AcceptedModifiers, MaximumWithoutDropout) {
    Call call = varlen_call();
    call.version = Version::kVarLenV5Max;
    for (const double keep_prob : {0.5, 0.0, 2.0}) {
        call.keep_prob = keep_prob;
        expect_counts(call, {3, 0, 4}, 4, keys_of_sequence);
        Call with_mask = call;
        with_mask.drop_mask = byte_tensor({1}, ACL_INT64);
        const Outcome outcome = run(with_mask, true);
        EXPECT_EQ(outcome.code, 0) << outcome.text;
    }
}

TEST(AcceptedModifiers, Sinks) {
    const auto dense = only(dense_versions(), &VersionTraits::sink), tnd = only(tnd_versions(), &VersionTraits::sink);
    for (const aclDataType dtype : {ACL_FLOAT, ACL_BF16}) {
        Call call = dense_call();
        set_dtype(call, dtype);
        call.sink = TensorSpec{.shape = {4}};
        expect_counts_in(dense, call, {3, 3}, five);
        call.mask = TensorSpec{.shape = {3, 5}, .dtype = ACL_BOOL};
        call.hidden = [](int64_t i) { return i / 5 == 1; };
        expect_counts_in(dense, call, {3, 3}, [](int64_t, int64_t, int64_t row) { return row == 1 ? 0 : 5; });
        call = varlen_call({3, 2, 4}, {5, 0, 4});
        set_dtype(call, dtype);
        call.sink = TensorSpec{.shape = {4}};
        expect_counts_in(tnd, call, {3, 2, 4},
                         [](int64_t s, auto...) { return s == 1 ? kNoKeys : keys_of_sequence(s, 0, 0); });
    }
}

TEST(AcceptedModifiers, RopeParts) {
    const auto versions = only(tnd_versions(), &VersionTraits::rope);
    for (const int64_t rope_dim : {1, 16, 32}) {
        Call call = varlen_call({3, 4}, {5, 4}, 4, 2, 32);
        set_dtype(call, ACL_BF16);
        call.query_rope = TensorSpec{.shape = {7, 4, rope_dim}, .dtype = ACL_BF16};
        call.key_rope = TensorSpec{.shape = {9, 2, rope_dim}, .dtype = ACL_BF16};
        call.mask = TensorSpec{.shape = {4, 5}, .dtype = ACL_BOOL};
        expect_counts_in(versions, call, {3, 4}, [](int64_t s, auto...) { return s == 0 ? 5 : 4; });
        call.mask = compressed_mask();
        call.next = 0;
        for (const int64_t mode : {2, 3, 4, 7, 8}) {
            call.sparse_mode = mode;
            expect_counts_in(versions, call, {3, 4}, [&](int64_t s, int64_t, int64_t row) {
                const bool left = mode == 2 || (mode == 8 && s == 1);
                return row + 1 + (s == 0 && !left ? 2 : 0);
            });
        }
        call.pse_type = 1;
        call.sparse_mode = 3;
        call.sink = TensorSpec{.shape = {4}};
        expect_counts_in(only(versions, &VersionTraits::sink), call, {3, 4},
                         [](int64_t s, int64_t, int64_t row) { return row + 1 + (s == 0 ? 2 : 0); });
    }
}

// 6.19; in the two layouts the entries of several heads lie differently.
TEST(AcceptedModifiers, StatisticsLayouts) {
    const auto versions = only(tnd_versions(), &VersionTraits::softmax_layout);
    Call call = varlen_call();
    call.mask = compressed_mask();
    call.sparse_mode = 3;
    const auto visible = [](int64_t s, int64_t, int64_t row) { return row + 1 + (s == 0 ? 2 : 0); };
    for (const char* layout : {static_cast<const char*>(nullptr), "", "same_as_input", "TND", "SAME_AS_INPUT", "ntd"}) {
        call.softmax_out_layout = layout;
        expect_counts_in(versions, call, {3, 0, 4}, visible);
    }
}

// Dense batches have one layout of statistics, and no lists.
TEST(AcceptedModifiers, ScoreV4IgnoresWhatBelongsToTnd) {
    Call call = dense_call("BSND");
    call.version = Version::kScoreV4;
    call.q_ends = list({7});
    call.kv_ends = list({-1, 3});
    call.seed = -5;
    call.offset = kHighest;
    expect_counts(call, {3, 3}, 4, five);
    const Call plain = call;
    call.fill = Fill::kNoise;
    call.softmax_out_layout = "same_as_input";
    Call without = plain;
    without.fill = Fill::kNoise;
    expect_same_bits(call, without);
}

}  // namespace
}  // namespace flash_attention::testing
