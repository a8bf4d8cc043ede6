// Backward at the ends of what is legal, at the edges of every tile and with NaN in the way.
#include <gtest/gtest.h>

#include <string>

#include "metamorphic.h"
#include "testing/backward_judge.h"
#include "testing/reduced.h"

namespace flash_attention::testing {
namespace {

void expect_right(const std::string& text) {
    const Case c = parse_case("pass=backward " + text);
    EXPECT_EQ(why_illegal(c), "") << text;
    EXPECT_EQ(lines(check_backward_case(c)), "");
}

TEST(BackwardEdges, LittleOrNothingToCompute) {
    for (const char* text : {
             "layout=BSND n=1 d=1 q=1 kv=1",
             "layout=BSND n=2 d=8 q=0 kv=4",           // no rows: dk and dv are 0
             "layout=BSND b=0 n=2 d=8 q=4 kv=4",       // no batch
             "layout=BSND n=2 d=8 q=4 kv=0",           // no keys: dq is 0
             "layout=SBH b=2 n=2/1 d=8 q=4 kv=0",      //
             "layout=BNSD n=2 d=0 q=4 kv=4",           // no features: dv is 0
             "layout=BSND n=2 d=8 dv=0 q=4 kv=4",      // no values: dq and dk are 0
             "layout=TND n=2 d=8 q=0,0 kv=3,4",        // no rows in any sequence
             "layout=TND n=2 d=8 q=3,4 kv=0,0",        // no keys in any sequence
             "layout=TND n=2 d=8 q=0,5,0 kv=0,6,0",    // empty sequences at both ends
             "layout=TND n=4/2 d=8 q=5,0,7 kv=0,6,3",  // rows without keys, keys without rows
             "layout=TND n=3 d=8 q=4 kv=5 slack=6/0",  // rows that belong to nobody
             "layout=TND n=3 d=8 q=4 kv=5 slack=0/7",  // keys that belong to nobody
             "layout=TND n=3 d=8 q=4 kv=5 slack=6/7 tail=1",
             "layout=TND n=3 d=8 q=0 kv=0 slack=6/7 tail=2",
             "layout=BSND n=2 d=8 q=9 kv=7 mode=1 mask=2d:all",
             "layout=TND n=2 d=8 q=9,3 kv=7,2 mode=0 mask=total:all",
             "layout=BSND n=2 d=64 q=70 kv=5 mode=3 mask=compressed",  // 65 hidden rows in front
             "layout=BSND n=2 d=64 q=200 kv=200 mode=0 pre=-3 next=150 mask=2d:nothing",
             "layout=BSND n=2 d=64 q=200 kv=200 mode=4 pre=9223372036854775807 next=-100 mask=compressed",
             "layout=BSND n=300 d=3 q=2 kv=3",
             "layout=BSND b=70 n=1 d=3 q=2 kv=3",
             "layout=BSND n=2 d=8 q=0 kv=4 pse=1:full dpse=wanted drop=exact sink=normal",
             "layout=BSND n=2 d=8 q=4 kv=0 pse=1:full dpse=wanted drop=longer keep=0.5 sink=normal",
             "layout=BSND n=2 d=8 q=4 kv=0 pse=1:row dpse=wanted",
             "layout=BNSD n=2 d=0 q=4 kv=4 pse=2:slopes dpse=wanted sink=normal",
             "layout=BNSD n=2 d=0 q=4 kv=4 pse=0:full dpse=wanted sink=normal",
             "layout=TND n=2 d=8 q=0,0 kv=3,4 pse=1:row dpse=wanted sink=normal",
             "layout=TND n=2 d=8 q=3,4 kv=0,0 drop=longer sink=normal",
             "layout=TND n=2 d=8 q=0,5,0 kv=0,6,0 pse=0:full dpse=wanted drop=exact sink=normal stats=same_as_input",
             "layout=TND n=3 d=8 q=4,2 kv=5,1 tail=3 slack=6/7 pse=2:slopes dpse=wanted drop=exact "
             "stats=same_as_input",
             "layout=TND n=3 d=8 q=0,4,0 kv=7,0,0 mode=8 mask=compressed",  // the band has no keys
             "layout=TND n=3 d=8 q=3,0 kv=3,7 mode=7 pre=3 next=0 mask=compressed",
             "layout=TND n=3 d=8 q=2,0 kv=5,0 tail=2 mode=6 mask=compressed prefix=3,0,0,0",
             "layout=BSND n=2 d=8 q=9 kv=7 mode=1 mask=2d:all sink=normal",
             "layout=BSND n=2 d=8 q=9 kv=7 mode=1 mask=2d:all sink=minus_inf",
             "layout=BSND n=2 d=8 q=9 kv=7 pse=0:row:minus_inf dpse=wanted sink=minus_inf seed=4",
             "layout=BSND n=2 d=64 q=70 kv=5 mode=6 mask=compressed prefix=0",
             "layout=BSND n=2 d=64 q=70 kv=5 mode=6 mask=compressed prefix=5 drop=exact:zeros keep=0.001",
             "layout=BSND n=2 d=4 q=1024 kv=1024 dv=1 pse=1:full dpse=wanted",  // 1024 rows, and not compressed
             "layout=BSND n=1 d=4 q=1025 kv=1025 mode=2 mask=compressed pse=1:compressed:alibi dpse=wanted",
             "layout=TND dtype=bf16 n=2 d=1 rope=1 q=3 kv=4 mode=3 mask=compressed",
             "layout=TND dtype=bf16 n=1 d=768 rope=768 q=3 kv=4 mode=3 mask=compressed",
         }) {
        expect_right(text);
    }
}

class Edges : public Types {
  protected:
    void expect_right_type(const std::string& text) const {
        expect_right(text + " dtype=" + std::string(name_of(GetParam())));
    }
};

// Strips of 24, 48 and 96 rows, blocks of 192 and 384 rows and of 192 keys: one less, exactly, one more.
TEST_P(Edges, OfTiles) {
    for (const int rows : {23, 24, 25, 47, 48, 49, 95, 96, 97, 191, 192, 193, 383, 384, 385}) {
        const std::string q = " q=" + std::to_string(rows);
        expect_right_type("layout=BSND n=1 d=16" + q + " kv=7");
        expect_right_type("layout=BNSD n=2/1 d=16 kv=97 mode=2 mask=compressed" + q);
    }
    for (const int keys : {1, 15, 16, 17, 63, 64, 65, 95, 96, 97, 191, 192, 193, 383, 384, 385}) {
        const std::string kv = " kv=" + std::to_string(keys);
        expect_right_type("layout=BSND n=1 d=16 q=5" + kv);
        expect_right_type("layout=TND n=2/1 d=16 q=50 mode=2 mask=compressed" + kv);
    }
}

TEST_P(Edges, OfHeadDimensions) {
    for (const int d :
         {1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 80, 96, 127, 128, 129, 192, 256, 511, 512, 513, 767, 768}) {
        const std::string text = "layout=BSND n=2/1 q=26 kv=49 mode=3 mask=compressed d=" + std::to_string(d);
        expect_right_type(text);
        for (const int dv : {1, d / 2, d - 1}) {
            if (dv > 0) expect_right_type(text + " dv=" + std::to_string(dv));
        }
    }
}

// A gradient that is one number expanded, other strides of 0, and every view of every gradient.
TEST_P(Edges, OfViews) {
    for (const char* strides : {"dy:expand", "dy:expand_last", "dy:expand,out:padded", "dy:every2,q:transposed",
                                "dy:swapped,k:expand,v:expand_last", "out:every2,max:every2,sum:padded",
                                "dq:padded,dk:swapped,dv:offset,dpse:every2,dsink:every2",
                                "dq:transposed,dk:every2,dv:transposed,dpse:transposed,dsink:offset",
                                "dq:every2,dk:transposed,dv:every2,dpse:padded,dsink:padded"}) {
        expect_right_type(std::string("layout=BSND b=2 n=4/2 d=24 dv=17 q=50 kv=70 pse=1:full dpse=wanted sink=normal "
                                      "strides=") +
                          strides);
        expect_right_type(std::string("layout=TND n=2/1 d=40 q=26,0,7 kv=30,5,97 pse=0:full dpse=wanted sink=normal "
                                      "strides=") +
                          strides);
    }
}

// Hidden ones leave no trace, whatever tile they lie in; visible ones go where the formulas take them.
TEST_P(Edges, OfNumbers) {
    for (const char* values : {"hidden_nan", "visible_nan", "minus_inf", "large", "high_key", "positive"}) {
        for (const char* text : {
                 "layout=BSND n=2/1 d=16 q=50 kv=70 mode=3 mask=compressed",
                 "layout=BSND b=2 n=2 d=33 dv=9 q=97 kv=50 mode=3 mask=compressed",  // hidden rows in front
                 "layout=BSND n=2 d=16 q=200 kv=210 mode=4 pre=20 next=-13 mask=compressed",
                 "layout=BNSD b=2 n=2/1 d=40 q=60 kv=70 mode=1 mask=bn:rows",
                 "layout=BNSD n=2 d=16 q=200 kv=200 mode=1 mask=2d:blocks pse=1:full:minus_inf dpse=wanted",
                 "layout=TND n=2/1 d=16 q=26,0,50 kv=30,5,97 slack=3/4 tail=1 mode=1 mask=total:random sink=normal",
                 "layout=TND n=2 d=16 q=26,9 kv=30,70 slack=3/0 drop=exact keep=0.6 pse=0:row dpse=wanted",
             }) {
            for (const char* seed : {"1", "2", "3"})
                expect_right_type(std::string(text) + " values=" + values + " seed=" + seed);
        }
    }
}

TEST_P(Edges, OfScales) {
    for (const char* scale : {"0", "-0.3", "3", "1e-6"}) {
        for (const char* bias : {"", " pse=1:full dpse=wanted", " pse=0:row dpse=wanted", " pse=2:slopes"})
            expect_right_type(
                std::string("layout=BSND n=2/1 d=16 q=50 kv=50 mode=2 mask=compressed sink=normal scale=") + scale +
                bias);
    }
}

// Long sums over keys and over rows, also across the chunks of 2048 keys.
TEST_P(Edges, OfLengths) {
    const std::string kv = std::to_string(reduced(4500, 2100));
    expect_right_type("layout=BSND n=1 d=16 q=7 kv=" + kv);
    expect_right_type("layout=BSND n=2/1 d=8 q=60 values=positive kv=" + kv);
    expect_right_type("layout=BSND n=1 d=8 q=30 values=high_key kv=" + kv);
    expect_right_type("layout=BSND n=4/1 d=8 kv=5 values=positive q=" + kv);
    expect_right_type("layout=BSND n=1 d=8 q=2049 kv=2049 mode=4 pre=70 next=0 mask=compressed");
}

// The only key that a row sees has weight 1, however large its score is, so that its dv is dy, bit by bit.
TEST_P(Edges, TheOnlyKeyOfARowHasWeightOne) {
    for (const char* scale : {"0.25", "100", "1e6", "-3e30"}) {
        Case c =
            parse_case(std::string("layout=BNSD pass=backward given=operator n=2 d=16 q=70 kv=70 mode=4 pre=0 next=0 "
                                   "mask=compressed scale=") +
                       scale);
        c.dtype = GetParam();
        const BackwardCall call = make_backward_call(c);
        const BackwardResult result = run(call);
        ASSERT_EQ(result.phase_two, 0) << result.error_text;
        const auto& values = call.arguments.dy.values;
        const std::vector<uint32_t>& dv = result.gradients[2];  // of kGradientArguments
        ASSERT_EQ(dv.size(), values.size());
        for (size_t i = 0; i < dv.size(); i++)
            ASSERT_EQ(from_bits(c.dtype, dv[i]), values[i]) << "element " << i << ", scale " << scale;
    }
}

INSTANTIATE_TEST_SUITE_P(Types, Edges, kAllTypes, type_name);

}  // namespace
}  // namespace flash_attention::testing
