// Cases as text: reading and writing are inverse, and what is not understood is refused with a sentence.
#include "testing/case.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "testing/call.h"
#include "testing/random_cases.h"
#include "testing/view.h"

namespace flash_attention::testing {
namespace {

std::string refusal(const std::string& text) {
    try {
        parse_case(text);
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "accepted";
}

TEST(Case, ReadsEveryKey) {
    const Case c = parse_case(
        "layout=TND dtype=bf16 n=8/2 d=128 dv=96 q=1,0,513 kv=7,9,513 tail=2 slack=3/1 mode=4 pre=100 next=-1 "
        "mask=compressed:random mask_dtype=uint8 scale=-0.25 values=large strides=q:offset,sum:every2 seed=77");
    EXPECT_EQ(c.layout, "TND");
    EXPECT_EQ(c.dtype, DType::kBf16);
    EXPECT_EQ(c.heads, 8);
    EXPECT_EQ(c.kv_heads, 2);
    EXPECT_EQ(c.d, 128);
    EXPECT_EQ(c.dv, 96);
    EXPECT_EQ(c.q, (std::vector<int64_t>{1, 0, 513}));
    EXPECT_EQ(c.kv, (std::vector<int64_t>{7, 9, 513}));
    EXPECT_EQ(c.sequences(), 5);
    EXPECT_EQ(c.slack_q, 3);
    EXPECT_EQ(c.slack_kv, 1);
    EXPECT_EQ(c.mode, 4);
    EXPECT_EQ(c.pre, 100);
    EXPECT_EQ(c.next, -1);
    EXPECT_EQ(c.mask, MaskShape::kCompressed);
    EXPECT_EQ(c.hides, MaskContent::kRandom);
    EXPECT_TRUE(c.byte_mask);
    EXPECT_EQ(c.scale, -0.25);
    EXPECT_EQ(c.values, Values::kLarge);
    EXPECT_EQ(c.views[kQuery], View::kOffset);
    EXPECT_EQ(c.views[kSum], View::kEvery2);
    EXPECT_EQ(c.views[kKey], View::kPacked);
    EXPECT_EQ(c.seed, 77U);
}

TEST(Case, ReadsEveryKeyOfTheModifiers) {
    const Case c = parse_case(
        "layout=TND version=ScoreV4 d=128 rope=64 q=1,3 kv=7,3 prefix=6,-2 pse=0:row_any:minus_inf q_start=5,6 "
        "kv_start=-7 keep=0.9 drop=longer:zeros sink=large stats=same_as_input "
        "strides=q_rope:offset,k_rope:padded,pse:every2,drop:swapped,sink:expand");
    EXPECT_EQ(name_of(version_of(c)), "ScoreV4");
    EXPECT_EQ(c.rope, 64);
    EXPECT_EQ(c.prefix, (std::vector<int64_t>{6, -2}));
    EXPECT_EQ(c.pse_type, 0);
    EXPECT_EQ(c.pse, PseShape::kRowAny);
    EXPECT_EQ(c.pse_values, PseValues::kMinusInf);
    EXPECT_EQ(c.q_start, (std::vector<int64_t>{5, 6}));
    EXPECT_EQ(c.kv_start, (std::vector<int64_t>{-7}));
    EXPECT_EQ(c.keep, 0.9);
    EXPECT_EQ(c.drop, DropShape::kLonger);
    EXPECT_EQ(c.drop_bits, DropBits::kZeros);
    EXPECT_EQ(c.sink, Sink::kLarge);
    EXPECT_EQ(c.stats, "same_as_input");
    EXPECT_EQ(c.views[kQueryRope], View::kOffset);
    EXPECT_EQ(c.views[kKeyRope], View::kPadded);
    EXPECT_EQ(c.views[kPse], View::kEvery2);
    EXPECT_EQ(c.views[kDrop], View::kSwapped);
    EXPECT_EQ(c.views[kSink], View::kExpand);
}

TEST(Case, FillsInDefaults) {
    const Case c = parse_case("d=16 n=3");
    EXPECT_EQ(c.dv, 16);
    EXPECT_EQ(c.scale, 0.25);
    EXPECT_EQ(c.kv_heads, 3);
    EXPECT_EQ(to_string(c), "layout=BSND dtype=fp32 n=3 d=16 q=64 kv=64");
}

TEST(Case, TextAndCaseAreInverse) {
    for (const char* text : {
             "layout=BSND dtype=fp32 n=1 d=64 q=64 kv=64",
             "layout=SBH dtype=fp16 b=3 n=4/1 d=33 dv=7 q=17 kv=513 mode=1 pre=-9223372036854775808 "
             "next=9223372036854775807 "
             "mask=bn:rows mask_dtype=uint8 scale=0 values=hidden_nan strides=q:transposed,k:expand,out:swapped seed=5",
             "layout=TND dtype=bf16 n=2 d=72 q=0,4 kv=3,5 tail=1 slack=0/2 mask=total:blocks",
             "layout=BNSD dtype=fp32 n=1 d=3 q=1 kv=1 mode=3 mask=compressed4 scale=0.08838834764831845",
             "layout=BSND dtype=fp32 version=ScoreV2 n=1 d=3 q=1 kv=1 pse=2:slopes1:large q_start=3 keep=0.5 drop=odd",
             "layout=TND dtype=bf16 version=VarLenScoreV5 n=2 d=8 rope=8 q=1 kv=1 mode=6 mask=compressed prefix=0 "
             "sink=minus_inf stats=same_as_input strides=drop:expand",
             "layout=TND dtype=bf16 n=2 d=8 q=1 kv=1 pse=0:none",
             "layout=BNSD dtype=fp16 version=ScoreV4 n=1 d=8 q=3 kv=4 keep=0.5 drop=from_seed drop_seed=-7 "
             "drop_offset=4294967296",
         }) {
        EXPECT_EQ(to_string(parse_case(text)), text);
    }
    for (int64_t i = 0; i < 2000; i++) {
        const Case c = random_case(11, i);
        EXPECT_TRUE(parse_case(to_string(c)) == c) << to_string(c);
        const Case m = modifier_case(11, i);
        EXPECT_TRUE(parse_case(to_string(m)) == m) << to_string(m);
    }
}

TEST(Case, RefusesWhatItDoesNotUnderstand) {
    EXPECT_EQ(refusal("layout=BSND colour=red"), "colour=red: there is no such key");
    EXPECT_EQ(refusal("layout=BNS"), "layout=BNS: expected BSH, SBH, BSND, BNSD or TND");
    EXPECT_EQ(refusal("dtype=fp64"), "dtype=fp64: expected one of fp32, fp16, bf16");
    EXPECT_EQ(refusal("d"), "\"d\" is not of the form key=value");
    EXPECT_EQ(refusal("d=8 d=9"), "d is given twice");
    EXPECT_EQ(refusal("d=8x"), "d=8x: \"8x\" is not a number of its kind");
    EXPECT_EQ(refusal("d=-1"), "d=-1: must be at least 0");
    EXPECT_EQ(refusal("d=8 dv=9"), "dv=9: must not exceed d=8");
    EXPECT_EQ(refusal("n=8/3"), "n=8/3: the first must be a multiple of the second");
    EXPECT_EQ(refusal("n=8/2/1"), "n=8/2/1: expected one or two numbers");
    EXPECT_EQ(refusal("layout=TND q=1,2 kv=3"), "q has 2 lengths and kv has 1");
    EXPECT_EQ(refusal("layout=TND b=2"), "b=2: layout TND takes its batch from q and kv");
    EXPECT_EQ(refusal("layout=BSH q=1,2 kv=3,4"), "layout BSH takes one length for q and one for kv");
    EXPECT_EQ(refusal("layout=BSH tail=1"), "layout BSH has neither tail nor slack");
    EXPECT_EQ(refusal("layout=BSH mask=total"), "mask=total needs layout=TND, not BSH");
    EXPECT_EQ(refusal("strides=q"), "strides=q: expected <tensor>:<view>, got \"q\"");
    EXPECT_EQ(
        refusal("strides=x:packed"),
        "strides=x: expected one of q, k, v, mask, out, max, sum, q_rope, k_rope, pse, drop, sink, dy, dq, dk, dv, "
        "dq_rope, dk_rope, dpse, dsink");
    EXPECT_EQ(refusal("pse=full"), "pse=full: expected <type>:<shape> or <type>:<shape>:<values>");
    EXPECT_EQ(refusal("pse=1:full_any"), "pse=full_any needs layout=TND, not BSND");
    EXPECT_EQ(refusal("layout=TND pse=1:row1"), "pse=row1 needs another layout than TND");
    EXPECT_EQ(refusal("keep=0.5 drop=from_seed:ones"),
              "drop=from_seed takes no bits, and drop_seed and drop_offset need it");
    EXPECT_EQ(refusal("keep=0.5 drop=exact drop_offset=12"),
              "drop=from_seed takes no bits, and drop_seed and drop_offset need it");
    EXPECT_EQ(refusal("version=ScoreV3 drop=from_seed"),
              "version=ScoreV3 does not have all arguments of the case, but ScoreV4 has");
    EXPECT_EQ(refusal("rope=3"), "rope=3 needs layout=TND, not BSND");
    EXPECT_EQ(refusal("version=V9"),
              "version=V9: expected one of Score, ScoreV2, ScoreV3, VarLenScore, VarLenScoreV2, VarLenScoreV3, "
              "VarLenScoreV4, VarLenScoreV5, ScoreV4");
    EXPECT_EQ(refusal("version=ScoreV2 sink=normal"),
              "version=ScoreV2 does not have all arguments of the case, but ScoreV3 has");
    EXPECT_EQ(refusal("version=VarLenScore"),
              "version=VarLenScore does not have all arguments of the case, but Score has");
    EXPECT_EQ(refusal("mask=2d:random:rows"), "mask=2d:random:rows: expected <shape> or <shape>:<content>");
}

TEST(Case, KnowsWhichWindowsTheOperatorsRefuse) {
    auto legal = [](const std::string& text) { return why_illegal(parse_case(text)).empty(); };
    EXPECT_TRUE(legal("q=13 kv=10 pre=9 next=-3 mask=2d:window"));
    EXPECT_TRUE(legal("q=13 kv=10 pre=-3 next=7 mask=2d:window"));
    EXPECT_FALSE(legal("q=13 kv=10 pre=-3 next=2 mask=2d"));
    EXPECT_FALSE(legal("q=13 kv=10 pre=-1 next=-1 mask=2d"));
    EXPECT_FALSE(legal("q=13 kv=10 pre=-10 next=20 mask=2d"));
    EXPECT_TRUE(legal("q=13 kv=10 pre=-10 next=-20"));  // without a mask nothing is looked at
    EXPECT_TRUE(legal("q=6 kv=4 mode=3 mask=compressed"));
    EXPECT_FALSE(legal("layout=TND q=6 kv=4 mode=3 mask=compressed"));
    EXPECT_TRUE(legal("q=4 kv=6 mode=4 pre=-1 next=2 mask=compressed"));
    EXPECT_FALSE(legal("layout=TND q=4 kv=6 mode=4 pre=-1 next=2 mask=compressed"));
    EXPECT_FALSE(legal("layout=TND q=6 kv=4 mode=4 pre=3 next=1 mask=compressed"));
    EXPECT_FALSE(legal("mode=2 mask=2d"));
    EXPECT_FALSE(legal("mode=0 mask=compressed"));
    EXPECT_FALSE(legal("strides=out:expand"));
}

TEST(Case, KnowsWhichModesTakeWhichMasks) {
    auto legal = [](const std::string& text) { return why_illegal(parse_case(text)).empty(); };
    EXPECT_TRUE(legal("mode=5 mask=2d"));
    EXPECT_TRUE(legal("b=2 mode=5 mask=b1 prefix=7"));  // an invalid list is no list
    EXPECT_FALSE(legal("b=2 mode=5 mask=2d"));
    EXPECT_FALSE(legal("mode=5 mask=compressed"));
    EXPECT_FALSE(legal("layout=TND mode=5 mask=2d"));
    EXPECT_TRUE(legal("layout=TND mode=5"));  // without a mask nothing is looked at
    EXPECT_TRUE(legal("q=4 kv=6 mode=6 mask=compressed prefix=2"));
    EXPECT_TRUE(legal("q=4 kv=6 mode=6 mask=compressed4 prefix=6"));
    EXPECT_FALSE(legal("q=4 kv=6 mode=6 mask=compressed prefix=1"));
    EXPECT_FALSE(legal("q=4 kv=6 mode=6 mask=compressed prefix=7"));
    EXPECT_FALSE(legal("q=4 kv=6 mode=6 mask=compressed"));
    EXPECT_FALSE(legal("b=2 q=4 kv=6 mode=6 mask=compressed prefix=3"));
    EXPECT_TRUE(legal("layout=TND q=4,6 kv=6,4 tail=1 mode=6 mask=compressed prefix=2,0,0"));
    EXPECT_TRUE(legal("layout=TND q=3,2 kv=3,6 mode=7 pre=6 next=-2 mask=compressed"));
    EXPECT_FALSE(legal("layout=TND q=3,2 kv=3,6 mode=7 pre=5 next=-2 mask=compressed"));
    EXPECT_FALSE(legal("layout=TND q=3,2 kv=3,6 mode=7 pre=6 next=1 mask=compressed"));
    EXPECT_FALSE(legal("layout=TND q=3,2 kv=3,6 mode=7 pre=6 next=-5 mask=compressed"));
    EXPECT_FALSE(legal("layout=TND q=3,2 kv=2,6 mode=7 pre=6 next=0 mask=compressed"));
    EXPECT_TRUE(legal("layout=TND q=0,3,5 kv=9,4,5 mode=8 pre=4 next=1 mask=compressed"));
    EXPECT_FALSE(legal("layout=TND q=0,3,5 kv=9,4,5 mode=8 pre=3 next=1 mask=compressed"));
    EXPECT_FALSE(legal("mode=7 next=0 mask=compressed"));
    EXPECT_FALSE(legal("layout=TND mode=9 mask=compressed"));
}

TEST(Case, KnowsWhichModifiersTheOperatorsRefuse) {
    auto legal = [](const std::string& text) { return why_illegal(parse_case(text)).empty(); };
    EXPECT_TRUE(legal("pse=1:full"));
    EXPECT_FALSE(legal("pse=0:none"));
    EXPECT_FALSE(legal("pse=4:full"));
    EXPECT_FALSE(legal("pse=2:full"));
    EXPECT_FALSE(legal("pse=1:slopes"));
    EXPECT_TRUE(legal("pse=2:slopes"));
    EXPECT_FALSE(legal("q=4 kv=5 pse=2:slopes"));
    EXPECT_TRUE(legal("layout=TND q=4 kv=5 pse=2:slopes"));
    EXPECT_FALSE(legal("layout=TND mode=7 next=0 mask=compressed pse=2:slopes"));
    EXPECT_TRUE(legal("layout=TND mode=7 next=0 mask=compressed pse=1:full"));
    EXPECT_TRUE(legal("layout=TND q=4,5 kv=6,5 mode=8 mask=compressed pse=2:slopes q_start=2 kv_start=0"));
    EXPECT_FALSE(legal("layout=TND q=4,5 kv=6,5 mode=8 mask=compressed pse=2:slopes q_start=2"));
    EXPECT_FALSE(legal("layout=TND q=4,5 kv=6,6 mode=8 mask=compressed pse=2:slopes q_start=2 kv_start=0"));
    EXPECT_TRUE(legal("q=1025 kv=1025 mode=3 mask=compressed pse=1:compressed"));
    EXPECT_FALSE(legal("q=1024 kv=1024 mode=3 mask=compressed pse=1:compressed"));
    EXPECT_FALSE(legal("q=1025 kv=1026 mode=3 mask=compressed pse=1:compressed"));
    EXPECT_FALSE(legal("q=1025 kv=1025 mode=4 next=0 mask=compressed pse=1:compressed"));
    EXPECT_FALSE(legal("q=1025 kv=1025 pse=1:compressed"));
    EXPECT_TRUE(legal("layout=TND q=4,5 kv=4,5 mode=4 next=0 mask=compressed pse=1:compressed"));
    EXPECT_FALSE(legal("layout=TND q=4,5 kv=4,5 mode=4 pre=4 next=0 mask=compressed pse=1:compressed"));
    EXPECT_FALSE(legal("layout=TND q=4,5 kv=4,6 mode=3 mask=compressed pse=1:compressed"));
    EXPECT_TRUE(legal("keep=0.5"));
    EXPECT_FALSE(legal("keep=0.5 version=ScoreV4"));
    EXPECT_TRUE(legal("keep=0.5 version=ScoreV4 drop=exact"));
    EXPECT_TRUE(legal("keep=0.5 drop=from_seed drop_seed=-3"));
    EXPECT_FALSE(legal("keep=0"));
    EXPECT_FALSE(legal("keep=1.5"));
    const std::string rope = "layout=TND dtype=bf16 rope=64 mode=3 mask=compressed";
    EXPECT_TRUE(legal(rope));
    EXPECT_TRUE(legal(rope + " sink=normal"));
    EXPECT_FALSE(legal(rope + " d=32"));
    EXPECT_FALSE(legal(rope + " pse=1:full"));
    EXPECT_FALSE(legal(rope + " drop=exact"));
    EXPECT_FALSE(legal("layout=TND dtype=fp16 rope=64 mode=3 mask=compressed"));
    EXPECT_FALSE(legal("layout=TND dtype=bf16 rope=64"));
    EXPECT_FALSE(legal("layout=TND dtype=bf16 rope=64 mode=6 mask=compressed prefix=64"));
}

TEST(Case, KnowsTheSmallestVersion) {
    auto smallest = [](const std::string& text) { return name_of(version_of(parse_case(text))); };
    EXPECT_EQ(smallest(""), "Score");
    EXPECT_EQ(smallest("pse=1:full drop=exact prefix=3"), "Score");
    EXPECT_EQ(smallest("pse=0:full"), "ScoreV2");
    EXPECT_EQ(smallest("q_start=3"), "ScoreV2");
    EXPECT_EQ(smallest("sink=normal"), "ScoreV3");
    EXPECT_EQ(smallest("stats=same_as_input"), "ScoreV4");
    EXPECT_EQ(smallest("layout=TND drop=from_seed"), "ScoreV4");
    EXPECT_EQ(smallest("layout=TND"), "VarLenScore");
    EXPECT_EQ(smallest("layout=TND pse=2:slopes"), "VarLenScoreV2");
    EXPECT_EQ(smallest("layout=TND rope=3"), "VarLenScoreV3");
    EXPECT_EQ(smallest("layout=TND stats=same_as_input"), "VarLenScoreV4");
    EXPECT_EQ(smallest("layout=TND pse=2:slopes stats=same_as_input"), "VarLenScoreV5");
    EXPECT_EQ(smallest("layout=TND sink=normal"), "VarLenScoreV5");
}

// The data of a modifier do not depend on the others, so that cases differ in what they name alone.
TEST(Call, TensorsStayWhenOthersJoin) {
    const std::string text = "layout=TND dtype=bf16 n=2 d=16 q=5,7 kv=9,3 mode=1 mask=2d:random seed=9 ";
    const reference::ScoreArguments plain = make_call(parse_case(text)).arguments;
    const reference::ScoreArguments all =
        make_call(parse_case(text + "pse=1:full drop=exact sink=normal rope=3")).arguments;
    EXPECT_EQ(plain.query.values, all.query.values);
    EXPECT_EQ(plain.key.values, all.key.values);
    EXPECT_EQ(plain.value.values, all.value.values);
    EXPECT_EQ(plain.atten_mask->values, all.atten_mask->values);
    EXPECT_EQ(all.real_shift->values, make_call(parse_case(text + "pse=1:full")).arguments.real_shift->values);
    EXPECT_EQ(*all.drop_mask, *make_call(parse_case(text + "drop=exact")).arguments.drop_mask);
    EXPECT_NE(*all.drop_mask, *make_call(parse_case(text + "drop=from_seed keep=0.5")).arguments.drop_mask);
    EXPECT_FALSE(make_call(parse_case(text + "drop=from_seed")).arguments.drop_mask);
    EXPECT_EQ(all.sink, make_call(parse_case(text + "sink=normal")).arguments.sink);
}

TEST(Call, ModifiersHaveTheirShapes) {
    auto bias = [](const std::string& text) { return make_call(parse_case(text)).arguments.real_shift->shape; };
    using Shape = std::vector<int64_t>;
    EXPECT_EQ(bias("b=2 n=3 q=5 kv=7 pse=1:full"), (Shape{2, 3, 5, 7}));
    EXPECT_EQ(bias("b=2 n=3 q=5 kv=7 pse=1:full1"), (Shape{1, 3, 5, 7}));
    EXPECT_EQ(bias("b=2 n=3 q=5 kv=7 pse=1:row"), (Shape{2, 3, 1, 7}));
    EXPECT_EQ(bias("b=2 n=3 q=5 kv=7 pse=1:row1"), (Shape{1, 3, 1, 7}));
    EXPECT_EQ(bias("b=2 n=3 q=5 kv=5 pse=2:slopes"), (Shape{2, 3}));
    EXPECT_EQ(bias("b=2 n=3 q=5 kv=5 pse=2:slopes1"), (Shape{3}));
    EXPECT_EQ(bias("b=2 n=3 q=1025 kv=1025 pse=1:compressed"), (Shape{2, 3, 1024, 1025}));
    EXPECT_EQ(bias("layout=TND n=3 q=5,0,2 kv=7,4,3 pse=1:full"), (Shape{3 * (5 * 7 + 2 * 3)}));
    EXPECT_EQ(bias("layout=TND n=3 q=5,0,2 kv=7,4,3 pse=1:full_any"), (Shape{1, 3, 5 * 7 + 2 * 3}));
    EXPECT_EQ(bias("layout=TND n=3 q=5,0,2 kv=7,4,3 pse=1:row"), (Shape{3 * 14}));
    EXPECT_EQ(bias("layout=TND n=3 q=5,0,2 kv=7,4,3 tail=2 pse=1:compressed"), (Shape{5, 3, 1024, 7}));
    EXPECT_EQ(bias("layout=TND n=3 q=5,0,2 kv=7,4,3 tail=2 pse=2:slopes"), (Shape{5, 3}));
    auto drop = [](const std::string& text) { return drop_mask_shape(parse_case("b=2 n=3 q=5 kv=7 " + text)); };
    EXPECT_EQ(drop("drop=exact"), (Shape{27}));  // 210 bits
    EXPECT_EQ(drop("drop=rounded"), (Shape{32}));
    EXPECT_EQ(drop("drop=longer"), (Shape{64}));
    EXPECT_EQ(drop("drop=odd"), (Shape{3, 1, 9}));
}

TEST(Element, RoundsToNearestEven) {
    EXPECT_EQ(to_bits(DType::kFp32, 1.0), 0x3F800000U);
    EXPECT_EQ(to_bits(DType::kFp32, 0.1), 0x3DCCCCCDU);
    EXPECT_EQ(to_bits(DType::kFp32, 1e-45), 1U);
    EXPECT_EQ(to_bits(DType::kFp16, 0x1p-24), 0x0001U);
    EXPECT_EQ(to_bits(DType::kFp16, 65504.0), 0x7BFFU);
    EXPECT_EQ(to_bits(DType::kFp16, 65520.0), 0x7C00U);
    EXPECT_EQ(to_bits(DType::kFp16, 1.0 + 0x1p-11), 0x3C00U);
    EXPECT_EQ(to_bits(DType::kFp16, 1.0 + 0x1.8p-10), 0x3C02U);
    EXPECT_EQ(to_bits(DType::kFp16, 0x1.ffep-15), 0x0400U);  // rounds up into the normal numbers
    EXPECT_EQ(to_bits(DType::kBf16, 3.0), 0x4040U);
    EXPECT_EQ(to_bits(DType::kBf16, -1.0 - 0x1.8p-7), 0xBF82U);
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        for (const DType dtype : {DType::kFp16, DType::kBf16}) {
            const double value = from_bits(dtype, bits);
            if (value != value) continue;  // NaN
            EXPECT_EQ(to_bits(dtype, value), bits);
        }
    }
}

TEST(View, ReachesEachElementOnce) {
    const std::vector<int64_t> shape{2, 3, 4};
    for (const View kind :
         {View::kPacked, View::kOffset, View::kPadded, View::kSwapped, View::kTransposed, View::kEvery2}) {
        const StridedView view = make_view(kind, shape);
        std::vector<int64_t> positions = view.positions();
        EXPECT_EQ(positions.size(), 24U);
        EXPECT_EQ(positions[(1 * 3 + 2) * 4 + 3],
                  view.offset + view.strides[0] + 2 * view.strides[1] + 3 * view.strides[2]);
        std::sort(positions.begin(), positions.end());
        EXPECT_EQ(std::unique(positions.begin(), positions.end()), positions.end());
        EXPECT_LT(positions.back(), view.storage);
    }
    EXPECT_EQ(make_view(View::kTransposed, shape).strides, (std::vector<int64_t>{1, 2, 6}));
    EXPECT_EQ(make_view(View::kSwapped, shape).strides, (std::vector<int64_t>{4, 8, 1}));
    EXPECT_EQ(make_view(View::kExpand, shape).strides, (std::vector<int64_t>{0, 4, 1}));
    EXPECT_EQ(make_view(View::kExpandLast, shape).strides, (std::vector<int64_t>{3, 1, 0}));
}

}  // namespace
}  // namespace flash_attention::testing
