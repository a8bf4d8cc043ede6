// Shapes at the ends of what is legal. Each call has to succeed; there is nothing, or almost nothing, to compute.
#include <gtest/gtest.h>

#include "testing/judge.h"

namespace flash_attention::testing {
namespace {

TEST(EdgesOfTheLegal, AgreeWithTheReference) {
    for (const char* text : {
             "layout=BSND n=1 d=1 q=1 kv=1",
             "layout=BSND n=2 d=8 q=0 kv=4",            // no rows
             "layout=BSND b=0 n=2 d=8 q=4 kv=4",        // no batch
             "layout=BSND n=2 d=8 q=4 kv=0",            // no keys: zeros, not the values of a hidden row
             "layout=SBH b=2 n=2/1 d=8 q=4 kv=0",       //
             "layout=BNSD n=2 d=0 q=4 kv=4",            // no features
             "layout=BSND n=2 d=8 dv=0 q=4 kv=4",       // no values
             "layout=TND n=2 d=8 q=0,0 kv=3,4",         // no rows in any sequence
             "layout=TND n=2 d=8 q=3,4 kv=0,0",         // no keys in any sequence
             "layout=TND n=2 d=8 q=0,5,0 kv=0,6,0",     // empty sequences at both ends
             "layout=TND n=3 d=8 q=4 kv=5 slack=6/7",   // rows and keys that belong to nobody
             "layout=TND n=3 d=8 q=0 kv=0 slack=6/7",   // no others
             "layout=TND n=3 d=8 q=4,2 kv=5,1 tail=3",  //
             "layout=BSND n=2 d=8 q=9 kv=7 mode=1 mask=2d:all",
             "layout=TND n=2 d=8 q=9,3 kv=7,2 mode=0 mask=total:all",
             "layout=BSND n=2 d=64 q=70 kv=5 mode=3 mask=compressed",  // 65 hidden rows in front
             "layout=BSND n=2 d=64 q=200 kv=200 mode=0 pre=-3 next=150 mask=2d:nothing",
             "layout=BSND n=2 d=64 q=200 kv=200 mode=4 pre=9223372036854775807 next=-100 mask=compressed",
             "layout=BSND n=2 d=64 q=65 kv=65 mode=2 pre=-9223372036854775808 next=-9223372036854775808 "
             "mask=compressed",
             "layout=BSND n=300 d=3 q=2 kv=3",
             "layout=BSND b=70 n=1 d=3 q=2 kv=3",
             // The same with modifiers, whose tensors may then be empty too.
             "layout=BSND n=2 d=8 q=0 kv=4 pse=1:full drop=exact sink=normal",
             "layout=BSND n=2 d=8 q=4 kv=0 pse=1:full drop=longer keep=0.5 sink=normal",  // zeros, whatever the sink is
             "layout=BSND n=2 d=8 q=4 kv=0 pse=1:row",
             "layout=BNSD n=2 d=0 q=4 kv=4 pse=2:slopes sink=normal",
             "layout=TND n=2 d=8 q=0,0 kv=3,4 pse=1:row sink=normal",
             "layout=TND n=2 d=8 q=3,4 kv=0,0 drop=longer sink=normal",
             "layout=TND n=2 d=8 q=0,5,0 kv=0,6,0 pse=0:full drop=exact sink=normal stats=same_as_input",
             "layout=TND n=3 d=8 q=4,2 kv=5,1 tail=3 slack=6/7 pse=2:slopes drop=exact stats=same_as_input",
             "layout=TND n=3 d=8 q=0 kv=0 slack=6/7 sink=normal stats=same_as_input",
             "layout=TND n=3 d=8 q=0,4,0 kv=7,0,0 mode=8 mask=compressed",  // the band has no keys
             "layout=TND n=3 d=8 q=3,0 kv=3,7 mode=7 pre=3 next=0 mask=compressed",
             "layout=TND n=3 d=8 q=2,0 kv=5,0 tail=2 mode=6 mask=compressed prefix=3,0,0,0",
             "layout=BSND n=2 d=8 q=9 kv=7 mode=1 mask=2d:all sink=normal",
             "layout=BSND n=2 d=8 q=9 kv=7 mode=1 mask=2d:all sink=minus_inf",
             "layout=BSND n=2 d=8 q=9 kv=7 pse=0:row:minus_inf sink=minus_inf seed=4",
             "layout=BSND n=2 d=64 q=70 kv=5 mode=6 mask=compressed prefix=0",
             "layout=BSND n=2 d=64 q=70 kv=5 mode=6 mask=compressed prefix=5 drop=exact:zeros keep=0.001",
             "layout=BSND n=2 d=64 q=70 kv=70 pse=3:slopes:large q_start=1125899906842624 "
             "kv_start=1125899906842624",
             "layout=BSND n=2 d=4 q=1024 kv=1024 dv=1 pse=1:full",  // 1024 rows, and not compressed
             "layout=TND dtype=bf16 n=2 d=1 rope=1 q=3 kv=4 mode=3 mask=compressed",
             "layout=TND dtype=bf16 n=1 d=768 rope=768 q=3 kv=4 mode=3 mask=compressed",
         }) {
        EXPECT_EQ(why_illegal(parse_case(text)), "") << text;
        EXPECT_EQ(lines(check_case(parse_case(text))), "");
    }
}

}  // namespace
}  // namespace flash_attention::testing
