// Dropout that attention makes from seed and offset, and dropout by the mask that the mask operators make from them:
// the same bits of every output, forward and backward.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "mask_call.h"
#include "metamorphic.h"
#include "testing/backward_judge.h"
#include "testing/reduced.h"

namespace flash_attention::testing {
namespace {

namespace masks = dropout_gen_mask::testing;

constexpr std::pair<int64_t, int64_t> kSeeds[] = {
    // and offsets: both count with all 64 bits
    {2, 0},
    {0, 12},
    {-1, (int64_t{1} << 32) + 5},
    {0x0123456789ABCDEF, std::numeric_limits<int64_t>::max()},
    {int64_t{1} << 32, -7},
};

// Layouts, lengths that are no multiples of 8 or 64, few rows, several chunks of keys, windows, masks, other modifiers;
// and shares near 0 and 1, where all or no keys are dropped.
const std::vector<std::string>& calls() {
    static const std::vector<std::string> all = {
        "layout=BSND b=2 n=4/2 d=40 q=70 kv=150 keep=0.9",
        fmt::format("layout=BSH n=2/1 d=16 q={0} kv={0} mode=2 mask=compressed keep=0.9", reduced(1000, 250)),
        "layout=SBH b=3 n=2 d=33 dv=9 q=65 kv=131 mode=1 mask=bn:rows keep=0.5 pse=1:full",
        "layout=BNSD n=2 d=64 q=200 kv=333 mode=4 pre=50 next=20 mask=compressed keep=0.5",
        "layout=BSND b=2 n=2 d=16 q=130 kv=201 mode=6 mask=compressed prefix=80,199 keep=0.7",
        "layout=BNSD b=2 n=3 d=64 q=1 kv=999 keep=0.5",
        "layout=BNSD n=4/2 d=24 q=3 kv=5001 keep=0.9 sink=normal",
        "layout=TND n=8/1 d=32 q=1,1,0,3 kv=100,4201,5,9 keep=0.5",
        "layout=TND n=4/2 d=40 q=65,0,130,7 kv=129,9,301,70 mode=3 mask=compressed keep=0.9 sink=normal "
        "stats=same_as_input",
        "layout=TND n=3 d=16 q=65,130,3 kv=65,130,3 pse=2:slopes keep=0.3",
        "layout=TND n=2 d=24 q=37,19 kv=61,80 slack=3/5 tail=1 mode=0 mask=total:blocks keep=0.5 values=hidden_nan",
        "layout=BSND n=2 d=8 q=33 kv=65 keep=0.01",
        "layout=BSND n=2 d=8 q=33 kv=65 keep=1e-30",
        "layout=BSND n=2 d=8 q=33 kv=65 keep=0.99999994",
        "layout=BSND n=2 d=8 q=33 kv=65 keep=1",
        // Shares that are ties of fp16 and of bf16 as floats, and above them as doubles.
        fmt::format("layout=BSND n=2 d=8 q=33 kv=650 keep={}", 1 - (307 * 0x1p-10 + 0x1p-13 + 0x3p-27)),
        fmt::format("layout=BSND n=2 d=8 q=33 kv=650 keep={}", 1 - (38 * 0x1p-7 + 0x1p-10 + 0x3p-27)),
    };
    return all;
}

std::vector<uint8_t> made_mask(const Case& c, masks::Version version) {
    const double share = 1.0F - static_cast<float>(c.keep);
    masks::MaskCall call = masks::call_of(score_count(c), share, c.drop_seed, c.drop_offset, acl_type(c.dtype));
    call.version = version;
    call.seed_in_tensor = c.drop_seed;
    if (version == masks::Version::kV2Tensor) call.offset = 0;
    call.offset_in_tensor = c.drop_offset;
    const masks::MaskResult result = masks::run(call);
    EXPECT_EQ(result.phase_one, 0) << result.text;
    EXPECT_EQ(result.phase_two, 0) << result.text;
    return result.bytes;
}

// The call with that mask, in the smallest version that takes one.
Case with_mask(Case c) {
    c.drop = DropShape::kRounded;
    c.drop_seed = c.drop_offset = 0;
    return c;
}
Call with_mask(Call call, const std::vector<uint8_t>& mask) {
    call.description = with_mask(call.description);
    call.arguments.drop_mask = mask;
    return call;
}
BackwardCall with_mask(BackwardCall call, const std::vector<uint8_t>& mask) {
    call.description = with_mask(call.description);
    call.arguments.forward.drop_mask = mask;
    return call;
}

class FromSeed : public Types {
  protected:
    Case drops(const std::string& text, size_t number) const {
        const auto& [seed, offset] = kSeeds[number % std::size(kSeeds)];
        return parse(text + " drop=from_seed drop_seed=" + std::to_string(seed) +
                     " drop_offset=" + std::to_string(offset));
    }
};

TEST_P(FromSeed, ForwardIsThatOfTheMask) {
    for (size_t i = 0; i < calls().size(); i++) {
        const Case c = drops(calls()[i], i);
        EXPECT_EQ(name_of(version_of(c)), "ScoreV4");
        const Call call = make_call(c);
        const Outputs outputs = outputs_of(call);
        const std::vector<uint8_t> mask = made_mask(c, i % 2 == 0 ? masks::Version::kV2 : masks::Version::kV2Tensor);
        EXPECT_TRUE(outputs_of(with_mask(call, mask)) == outputs) << rerun_hint(c);
        // The reference's bits come from plain loops.
        EXPECT_EQ(lines(judge(call, reference::score(call.arguments), outputs)), "") << rerun_hint(c);
        if (GetParam() == DType::kFp32) {
            EXPECT_EQ(made_mask(c, masks::Version::kV1), mask);
        }
    }
}

TEST_P(FromSeed, BackwardIsThatOfTheMask) {
    for (size_t i = 0; i < calls().size(); i++) {
        const std::string dpse = calls()[i].find("pse=1") != std::string::npos ? " dpse=wanted" : "";
        Case c = drops(calls()[i] + dpse + " pass=backward", i + 1);
        EXPECT_EQ(name_of(grad_version_of(c)), "ScoreGradV4");
        // Every second one gets what ScoreV4 has computed with the same seed and offset.
        if (i % 2 == 0) c.given = Given::kOperator;
        const BackwardCall call = make_backward_call(c);
        const Gradients gradients = gradients_of(call);
        const std::vector<uint8_t> mask = made_mask(c, masks::Version::kV2);
        EXPECT_TRUE(gradients_of(with_mask(call, mask)) == gradients) << rerun_hint(c);
        EXPECT_EQ(lines(judge(call, reference::score_grad(call.arguments), gradients)), "") << rerun_hint(c);
    }
}

// A mask that is given wins, and then seed and offset mean nothing.
TEST_P(FromSeed, AMaskWins) {
    const Case c = parse(
        "layout=BSND n=2 d=16 q=50 kv=70 keep=0.5 drop=exact version=ScoreV4 pass=backward "
        "grad=ScoreGradV4");
    const BackwardCall call = make_backward_call(c);
    BackwardCall seeded = call;
    seeded.description.drop_seed = 5;
    seeded.description.drop_offset = 8;
    EXPECT_TRUE(outputs_of(seeded.forward()) == outputs_of(call.forward()));
    EXPECT_TRUE(gradients_of(seeded) == gradients_of(call));
}

// Any bit of seed and offset counts, in all three kinds of rows: few, many, and packed.
TEST_P(FromSeed, OtherSeedsAndOffsetsAreOthers) {
    for (const char* text : {"layout=BSND n=2 d=16 q=130 kv=201 keep=0.5", "layout=BNSD n=2 d=16 q=2 kv=999 keep=0.5",
                             "layout=TND n=2 d=16 q=70,1 kv=90,999 keep=0.5"}) {
        const auto with = [&](int64_t seed, int64_t offset) {
            return parse(std::string(text) + " pass=backward drop=from_seed drop_seed=" + std::to_string(seed) +
                         " drop_offset=" + std::to_string(offset));
        };
        const BackwardCall call = make_backward_call(with(3, 4));
        std::vector<Outputs> outputs = {outputs_of(call.forward())};
        std::vector<Gradients> gradients = {gradients_of(call)};
        constexpr int64_t kHigh = int64_t{1} << 32, kHighest = std::numeric_limits<int64_t>::min();
        const std::pair<int64_t, int64_t> others[] = {
            {2, 4}, {3, 5}, {4, 3}, {3 + kHigh, 4}, {3, 4 + kHigh}, {kHighest, 4}, {3, kHighest + 4}, {3, 4}};
        for (const auto& [seed, offset] : others) {
            BackwardCall other = call;
            other.description = with(seed, offset);
            const bool same = seed == 3 && offset == 4;
            const Outputs out = outputs_of(other.forward());
            const Gradients gradient = gradients_of(other);
            EXPECT_EQ(std::count(outputs.begin(), outputs.end(), out), same ? 1 : 0) << rerun_hint(other.description);
            EXPECT_EQ(std::count(gradients.begin(), gradients.end(), gradient), same ? 1 : 0)
                << rerun_hint(other.description);
            // Dropout comes after the softmax.
            EXPECT_TRUE(out.max == outputs[0].max && out.sum == outputs[0].sum);
            outputs.push_back(out);
            gradients.push_back(gradient);
        }
    }
}

// Without dropout neither of them is looked at.
TEST_P(FromSeed, NothingIsDroppedAtOne) {
    const Case c = parse("layout=TND n=2 d=16 q=70,1 kv=90,999 keep=1 pass=backward");
    const BackwardCall call = make_backward_call(c);
    for (const double keep : {1.0, 1 - 0x1p-40}) {  // one as a float
        BackwardCall other = call;
        other.description = parse("layout=TND n=2 d=16 q=70,1 kv=90,999 pass=backward drop=from_seed drop_seed=7");
        other.arguments.forward.keep_prob = keep;
        EXPECT_TRUE(outputs_of(other.forward()) == outputs_of(call.forward())) << keep;
        EXPECT_TRUE(gradients_of(other) == gradients_of(call)) << keep;
    }
}

INSTANTIATE_TEST_SUITE_P(Types, FromSeed, kAllTypes, type_name);

}  // namespace
}  // namespace flash_attention::testing
