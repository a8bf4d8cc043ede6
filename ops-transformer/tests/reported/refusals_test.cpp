// Calls that have to be refused, or else computed right: never wrong numbers, no crash, and no sentence that says
// something untrue. Each text names the numbers that do not fit.
#include <gtest/gtest.h>

#include "call.h"

namespace flash_attention::testing {
namespace {

// A call, and what the sentence about it has to mention.
struct Refusal {
    const char* id;
    Call call;
    std::vector<std::string> mentions;
};

Call changed(Call call, const std::function<void(Call&)>& change) {
    change(call);
    return call;
}

Call with_mask(Call call, int64_t mode, TensorSpec mask) {
    call.sparse_mode = mode;
    call.mask = std::move(mask);
    return call;
}

void expect_clear_refusals(const std::vector<Refusal>& refusals) {
    for (const Refusal& refusal : refusals) {
        const Outcome outcome = run(refusal.call);
        EXPECT_EQ(outcome.code, 161002) << refusal.id << ": " << outcome.text;
        EXPECT_TRUE(outcome.outputs_untouched) << refusal.id;
        EXPECT_TRUE(outcome.executor_is_null) << refusal.id;
        EXPECT_EQ(outcome.workspace_size, 0U) << refusal.id;
        for (const std::string& mention : refusal.mentions) {
            EXPECT_NE(outcome.text.find(mention), std::string::npos)
                << refusal.id << ": no \"" << mention << "\" in: " << outcome.text;
        }
    }
}

TensorSpec bools(std::vector<int64_t> shape) {
    return byte_tensor(std::move(shape), ACL_BOOL);
}

TEST(ReportedRefusals, Heads) {
    const Sizes square{.b = 1, .n = 32, .nkv = 20, .sq = 16, .skv = 16, .d = 64, .dv = 64};
    expect_clear_refusals({
        // A ratio that is not whole must not be rounded down.
        {"ASC-23", dense_call("BNSD", square), {"32", "20"}},
        {"ASC-23", dense_call("BSND", square), {"32", "20"}},
        {"ASC-23", varlen_call({16}, {16}, 32, 20), {"32", "20"}},
        // Value wider than query and key.
        {"PT-29", dense_call("BNSD", {.b = 1, .n = 2, .nkv = 2, .sq = 4, .skv = 4, .d = 8, .dv = 16}), {"8", "16"}},
        {"PT-29",
         changed(varlen_call({4}, {4}, 2, 2, 8),
                 [](Call& c) {
                     c.value = TensorSpec{.shape = {4, 2, 16}};
                     c.out = TensorSpec{.shape = {4, 2, 16}};
                 }),
         {"8", "16"}},
    });
}

// Keys without heads are keys that nobody has: no division by their number, and zeros, as without keys.
TEST(ReportedRefusals, PT_14_KeysWithoutHeads) {
    Sizes sizes{.b = 2, .n = 4, .nkv = 0, .sq = 8, .skv = 8, .d = 16, .dv = 16};
    for (const char* layout : {"BNSD", "BSND", "BSH", "SBH"}) {
        for (const bool masked : {false, true}) {
            Call call = dense_call(layout, sizes);
            if (masked) call = with_mask(call, 3, compressed_mask());
            const Outcome outcome = run(call);
            ASSERT_EQ(outcome.code, 0) << layout << ": " << outcome.text;
            for (const std::vector<float>* values : {&outcome.out, &outcome.max, &outcome.sum}) {
                EXPECT_FALSE(values->empty());
                for (const float value : *values) ASSERT_EQ(value, 0) << layout;
            }
        }
    }
}

// Masks: what is broadcast elsewhere is named with its shape and with the shapes that are legal.
TEST(ReportedRefusals, MaskShapes) {
    const Sizes padded{.b = 2, .n = 8, .nkv = 8, .sq = 100, .skv = 100, .d = 64, .dv = 64};
    const Sizes heads_as_batch{.b = 4, .n = 4, .nkv = 4, .sq = 8, .skv = 8, .d = 8, .dv = 8};
    const Sizes rectangle{.b = 2, .n = 4, .nkv = 4, .sq = 8, .skv = 33, .d = 16, .dv = 16};
    const Sizes quarter{.b = 1, .n = 4, .nkv = 4, .sq = 16, .skv = 16, .d = 32, .dv = 32};
    const std::vector<std::string> legal = {"N, Sq, Skv]", "1, Sq, Skv]", "[1, 1, Sq, Skv]", "[Sq, Skv]"};
    std::vector<Refusal> refusals = {
        {"ASC-12", with_mask(dense_call("BSND", padded), 0, bools({2, 1, 1, 100})), {"[2, 1, 1, 100]"}},
        {"ASC-14",
         with_mask(dense_call("BSND", {.b = 2, .n = 2, .nkv = 2, .sq = 64, .skv = 64, .d = 32, .dv = 32}), 0,
                   bools({2, 64})),
         {"[2, 64]"}},
        // The mask of the whole instead of the block's.
        {"ASC-46", with_mask(dense_call("SBH", quarter), 1, bools({1, 1, 32, 32})), {"[1, 1, 32, 32]", "16"}},
        {"ASC-46", with_mask(dense_call("SBH", quarter), 1, bools({1, 1, 16, 32})), {"[1, 1, 16, 32]", "16"}},
    };
    for (const std::vector<int64_t>& shape :
         {std::vector<int64_t>{2, 4, 1, 33}, {2, 1, 1, 33}, {1, 33}, {2, 4, 8, 1}, {8, 1}, {1, 1}, {1, 1, 1, 1}}) {
        refusals.push_back({"PT-08", with_mask(dense_call("BNSD", rectangle), 1, bools(shape)), {"attenMaskOptional"}});
    }
    for (Refusal& refusal : refusals) refusal.mentions.insert(refusal.mentions.end(), legal.begin(), legal.end());
    // Three dimensions could mean heads or batch entries: B equals N, so that a guess could not be seen.
    refusals.push_back(
        {"CPU-03", with_mask(dense_call("BNSD", heads_as_batch), 1, bools({4, 8, 8})), {"2 or 4 dimensions", "3"}});
    expect_clear_refusals(refusals);
}

// Floats are never taken for truth values.
TEST(ReportedRefusals, ASC_09_MasksOfFloats) {
    for (const aclDataType dtype : {ACL_BF16, ACL_FLOAT16, ACL_FLOAT}) {
        const TensorSpec mask{.shape = {1, 1, 8, 4}, .dtype = dtype};
        const Sizes sizes{.b = 1, .n = 4, .nkv = 4, .sq = 8, .skv = 4, .d = 32, .dv = 32};
        for (const int64_t mode : {0, 1}) {
            expect_clear_refusals({{"ASC-09",
                                    with_mask(dense_call("BNSD", sizes), mode, mask),
                                    {"attenMaskOptional", "BOOL", "UINT8", "realShiftOptional"}}});
        }
    }
}

TEST(ReportedRefusals, Lists) {
    std::vector<int64_t> sixteen(16), nine(9);
    for (int64_t b = 0; b < 16; b++) sixteen[b] = b + 1;
    for (int64_t b = 0; b < 9; b++) nine[b] = 10 * (b + 1);
    const Call sixteen_sequences = with_mask(
        varlen_call(std::vector<int64_t>(16, 1), std::vector<int64_t>(16, 6), 4, 4, 64), 3, compressed_mask());
    const Call small = varlen_call({9}, {9}, 4, 4, 64);
    expect_clear_refusals({
        {"ASC-20",
         changed(sixteen_sequences,
                 [&](Call& c) {
                     c.q_ends = sixteen;
                     c.kv_ends = nine;
                 }),
         {"16", "9"}},
        // Ends that decrease, but not to trailing zeros.
        {"ASC-18",
         changed(small,
                 [](Call& c) {
                     c.q_ends = c.kv_ends = list({5, 3, 9});
                 }),
         {"5", "3"}},
        // More than there is.
        {"ASC-18",
         changed(small,
                 [](Call& c) {
                     c.q_ends = c.kv_ends = list({5, 10});
                 }),
         {"10", "9"}},
        // Prefixes in front of the causal part and behind the last key.
        {"PREFIX-02",
         changed(with_mask(dense_call("BNSD", {.sq = 4, .skv = 6}), 6, compressed_mask({3072, 2048})),
                 [](Call& c) {
                     c.prefix = list({2, 1});
                 }),
         {"prefix", "1", "2", "6"}},
        {"PREFIX-02",
         changed(with_mask(dense_call("BNSD", {.sq = 6, .skv = 4}), 6, compressed_mask({3072, 2048})),
                 [](Call& c) {
                     c.prefix = list({0, 5});
                 }),
         {"prefix", "5", "0", "4"}},
        {"PREFIX-02",
         changed(with_mask(dense_call("BNSD", {.sq = 6, .skv = 4}), 6, compressed_mask({3072, 2048})),
                 [](Call& c) {
                     c.prefix = list({-1, 4});
                 }),
         {"prefix", "-1"}},
    });
}

// -1 is a bound like any other, and two of them leave nothing to see.
TEST(ReportedRefusals, RING_08_BothBoundsNegative) {
    const Sizes sizes{.b = 1, .n = 2, .nkv = 2, .sq = 16, .skv = 16, .d = 64, .dv = 64};
    for (const int64_t mode : {0, 4}) {
        const TensorSpec mask = mode == 0 ? bools({16, 16}) : compressed_mask();
        expect_clear_refusals(
            {{"RING-08",
              changed(with_mask(dense_call("BNSD", sizes), mode, mask), [](Call& c) { c.pre = c.next = -1; }),
              {"preTokens", "nextTokens", "-1"}}});
    }
    expect_clear_refusals({{"RING-08",
                            changed(with_mask(varlen_call({16}, {16}, 2, 2, 64), 4, compressed_mask()),
                                    [](Call& c) { c.pre = c.next = -1; }),
                            {"preTokens", "-1"}}});
}

// A sink has one float for each query head.
TEST(ReportedRefusals, SINK_06_ShapeAndType) {
    Call call = with_mask(varlen_call({128}, {128}, 64, 8, 64), 4, compressed_mask());
    call.version = Version::kVarLenV5;
    set_dtype(call, ACL_BF16);
    expect_clear_refusals({
        {"SINK-06", changed(call, [](Call& c) { c.sink = TensorSpec{.shape = {8}}; }), {"sink", "[8]", "64"}},
        {"SINK-06",
         changed(call, [](Call& c) { c.sink = TensorSpec{.shape = {64}, .dtype = ACL_BF16}; }),
         {"sink", "BFLOAT16", "FLOAT"}},
        {"SINK-06",
         changed(call,
                 [](Call& c) {
                     c.sink = TensorSpec{.shape = {64, 1}};
                 }),
         {"sink", "[64, 1]"}},
    });
}

// Limits are told with the true numbers, also with those that do not fit in 32 bits.
TEST(ReportedRefusals, ASC_38_TrueNumbers) {
    constexpr int64_t kHuge = 5'000'000'000;
    auto huge = [](std::vector<int64_t> shape) { return TensorSpec{.shape = std::move(shape), .without_data = true}; };
    expect_clear_refusals({
        {"ASC-38", dense_call("BNSD", {.d = 1000, .dv = 8}), {"1000", "768"}},
        {"ASC-38",
         changed(dense_call("BNSD"),
                 [&](Call& c) {
                     c.key = huge({kHuge, 2, 5, 8});
                 }),
         {"5000000000"}},
        {"ASC-38",
         changed(varlen_call({4}, {4}, 1, 1, 16), [&](Call& c) { c.q_ends = list({kHuge}); }),
         {"5000000000", "4"}},
    });
}

}  // namespace
}  // namespace flash_attention::testing
