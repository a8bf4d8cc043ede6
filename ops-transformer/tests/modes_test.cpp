// Sparse modes against each other: each shows what an explicit mask can show, and modes 7 and 8 put a sequence together
// that was cut over two calls. These need no reference for the results.
#include "metamorphic.h"

namespace flash_attention::testing {
namespace {

// The call in mode 1 with the mask that shows the same keys, one matrix for each batch entry or sequence.
Call with_explicit_mask(const Call& call) {
    Call explicit_mask = call;
    const std::vector<reference::Sequence> sequences = reference::sequences_of(call.arguments);
    const int64_t rows = *std::max_element(call.description.q.begin(), call.description.q.end());
    const int64_t keys = *std::max_element(call.description.kv.begin(), call.description.kv.end());
    reference::Mask mask{{static_cast<int64_t>(sequences.size()), 1, rows, keys}, {}};
    mask.values.resize(element_count(mask.shape), 1);
    for (const reference::Sequence& s : sequences) {
        for (int64_t i = 0; i < s.q_len; i++) {
            for (int64_t j = 0; j < s.kv_len; j++) {
                if (reference::sees(call.arguments, s, 0, i, j)) mask.values[(s.index * rows + i) * keys + j] = 0;
            }
        }
    }
    explicit_mask.description.mode = explicit_mask.arguments.sparse_mode = 1;
    explicit_mask.arguments.atten_mask = mask;
    explicit_mask.arguments.prefix.clear();
    return explicit_mask;
}

TEST_P(Types, ModesAreExplicitMasks) {
    for (const char* text : {
             "layout=BSND b=2 n=2 d=64 q=70 kv=150 mode=2 mask=compressed",
             "layout=BSND b=2 n=2 d=64 q=150 kv=150 mode=3 mask=compressed",
             "layout=BSND n=2 d=33 q=150 kv=70 mode=3 mask=compressed",
             "layout=BSND n=2 d=64 q=200 kv=150 mode=4 pre=80 next=20 mask=compressed",
             "layout=BSND b=2 n=2 d=64 q=150 kv=200 mode=5 mask=b1:random prefix=70,190",
             "layout=BNSD b=2 n=2 d=33 q=150 kv=70 mode=5 mask=b1:blocks prefix=0,66",
             "layout=SBH b=2 n=2 d=64 q=150 kv=200 mode=6 mask=compressed prefix=70,190",
             "layout=BSH b=3 n=2 d=33 q=150 kv=70 mode=6 mask=compressed4 prefix=0,66,70",
             "layout=TND n=2 d=33 q=150,0,65 kv=200,9,65 mode=6 mask=compressed prefix=70,9,3",
             "layout=TND n=2 d=33 q=150,65,70 kv=150,65,130 mode=7 pre=130 next=-5 mask=compressed",
             "layout=TND n=2 d=33 q=0,150,65 kv=9,200,60 mode=8 pre=200 next=20 mask=compressed",
         }) {
        const Call call = call_of(text);
        expect_within_bounds(call, outputs_of(call), outputs_of(with_explicit_mask(call)));
    }
}

// Without a list, or with one that breaks the rules, mode 5 is mode 1.
TEST_P(Types, Mode5WithoutValidPrefixesIsMode1) {
    const std::string text = "layout=BSND b=2 n=2 d=16 q=40 kv=70 mask=bn:random ";
    const Outputs expected = outputs_of(call_of(text + "mode=1"));
    for (const char* prefix : {"", "prefix=40", "prefix=40,50,60", "prefix=29,50", "prefix=40,71", "prefix=-1,50"}) {
        EXPECT_TRUE(outputs_of(call_of(text + "mode=5 " + prefix)) == expected) << prefix;
    }
    EXPECT_FALSE(outputs_of(call_of(text + "mode=5 prefix=30,30")) == expected);
}

// Cuts a call with statistics in the order of the tokens after row `cut` of its second sequence, runs both parts, and
// compares them with the whole: rows lie one after another in all outputs.
void expect_parts_are_the_whole(const Call& whole, const Call& first, const Call& second) {
    const Outputs a = outputs_of(first), b = outputs_of(second);
    Outputs together = a;
    together.out.insert(together.out.end(), b.out.begin(), b.out.end());
    together.max.insert(together.max.end(), b.max.begin(), b.max.end());
    together.sum.insert(together.sum.end(), b.sum.begin(), b.sum.end());
    expect_within_bounds(whole, outputs_of(whole), together);
}

void set_window(Call& call, int64_t mode, int64_t pre, int64_t next) {
    call.description.mode = call.arguments.sparse_mode = mode;
    call.description.pre = call.arguments.pre_tokens = pre;
    call.description.next = call.arguments.next_tokens = next;
}

struct Lengths {
    std::vector<int64_t> q, kv;
    int64_t cut;  // rows of sequence 1 that stay in the first call

    std::string text() const {
        auto list = [](const std::vector<int64_t>& numbers) {
            std::string joined;
            for (const int64_t number : numbers) joined += (joined.empty() ? "" : ",") + std::to_string(number);
            return joined;
        };
        return "layout=TND n=4/2 d=40 mask=compressed stats=same_as_input q=" + list(q) + " kv=" + list(kv) + " ";
    }
    // Both calls get all keys of the sequence that is cut.
    Cut first() const { return {0, 0, {q[0], cut}, {kv[0], kv[1]}}; }
    Cut second() const { return {q[0] + cut, kv[0], {q[1] - cut, q[2], q[3]}, {kv[1], kv[2], kv[3]}}; }
};

// Causal from the bottom right corner, cut: the rows in the first call end at another corner, which mode 7 gives back
// to them; those in the second call are mode 3 again.
TEST_P(Types, Mode7IsTheFirstPartOfACutCall) {
    for (const Lengths& l :
         {Lengths{{3, 4, 5, 4}, {3, 6, 5, 4}, 2}, Lengths{{70, 150, 65, 9}, {70, 200, 65, 130}, 70}}) {
        for (const char* modifiers : {"", "sink=normal"}) {
            const Call whole = call_of(l.text() + "mode=3 " + modifiers);
            Call first = cut_out(whole, l.first());
            set_window(first, 7, l.kv[1], l.cut - l.q[1]);
            expect_parts_are_the_whole(whole, first, cut_out(whole, l.second()));
        }
    }
}

// Causal from the top left corner: the second call's first sequence begins in the middle of a diagonal.
TEST_P(Types, Mode8IsTheSecondPartOfACutCall) {
    for (const Lengths& l :
         {Lengths{{3, 5, 5, 4}, {3, 4, 5, 4}, 2}, Lengths{{70, 150, 65, 9}, {70, 100, 65, 130}, 70}}) {
        for (const char* modifiers : {"", "sink=large"}) {
            const Call whole = call_of(l.text() + "mode=2 " + modifiers);
            Call second = cut_out(whole, l.second());
            set_window(second, 8, l.kv[1], l.cut + (l.q[1] - l.cut) - l.kv[1]);
            expect_parts_are_the_whole(whole, cut_out(whole, l.first()), second);
        }
    }
}

// With slopes the rows of the second part keep their positions through the start indices.
TEST_P(Types, Mode8WithSlopesIsTheSecondPartOfACutCall) {
    const Lengths l{{70, 150, 65, 9}, {70, 150, 65, 9}, 70};
    for (const char* type : {"2", "3"}) {
        const Call whole = call_of(l.text() + "mode=2 pse=" + type + ":slopes1");
        Call second = cut_out(whole, l.second());
        set_window(second, 8, l.kv[1], l.q[1] - l.kv[1]);
        second.arguments.q_start_idx = {l.cut};
        second.arguments.kv_start_idx = {0};
        expect_parts_are_the_whole(whole, cut_out(whole, l.first()), second);
    }
}

INSTANTIATE_TEST_SUITE_P(Modes, Types, kAllTypes, type_name);

}  // namespace
}  // namespace flash_attention::testing
