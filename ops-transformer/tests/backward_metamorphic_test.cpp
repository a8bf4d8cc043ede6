// Backward calls that must agree because they describe the same gradients, and runs that must give the same bits.
#include "metamorphic.h"
#include "testing/backward_judge.h"
#include "testing/reduced.h"

namespace flash_attention::testing {
namespace {

enum : size_t { kDqAt, kDkAt, kDvAt, kDqRopeAt, kDkRopeAt, kDpseAt, kDsinkAt };  // in Gradients
static_assert(kGradientArguments[kDvAt] == kDv && kGradientArguments[kDkRopeAt] == kDkRope &&
              kGradientArguments[kDpseAt] == kDpse && kGradientArguments[kDsinkAt] == kDsink);

class Backward : public Types {
  protected:
    BackwardCall call_of(const std::string& text) const { return make_backward_call(parse("pass=backward " + text)); }
    // Rope parts exist in bf16 alone.
    bool has_type(const std::string& text) const {
        return GetParam() == DType::kBf16 || text.find("rope=") == std::string::npos;
    }
};

std::vector<uint32_t> part(const std::vector<uint32_t>& all, int64_t begin, int64_t count) {
    return {all.begin() + begin, all.begin() + begin + count};
}

// The gradients of one sequence, cut out of those of a TND call in which its rows, keys and pairs have these places.
Gradients cut(const Case& c, const Gradients& g, int64_t row, int64_t rows, int64_t key, int64_t keys, int64_t pair) {
    Gradients of{};
    of[kDqAt] = part(g[kDqAt], row * c.heads * c.d, rows * c.heads * c.d);
    of[kDkAt] = part(g[kDkAt], key * c.kv_heads * c.d, keys * c.kv_heads * c.d);
    of[kDvAt] = part(g[kDvAt], key * c.kv_heads * c.dv, keys * c.kv_heads * c.dv);
    of[kDqRopeAt] = part(g[kDqRopeAt], row * c.heads * c.rope, rows * c.heads * c.rope);
    of[kDkRopeAt] = part(g[kDkRopeAt], key * c.kv_heads * c.rope, keys * c.kv_heads * c.rope);
    if (c.dpse == Dpse::kWanted && c.pse == PseShape::kFull)
        of[kDpseAt] = part(g[kDpseAt], c.heads * pair, c.heads * rows * keys);
    if (c.dpse == Dpse::kWanted && c.pse == PseShape::kRow)
        of[kDpseAt] = part(g[kDpseAt], c.heads * key, c.heads * keys);
    return of;
}

// A sequence gives the same bits alone, between others, and several times in one call.
TEST_P(Backward, SequenceAloneIsSequencePacked) {
    for (const char* text : {
             "layout=TND n=4/2 d=64 q=65,1,200,7,0,130 kv=129,513,200,70,5,300 mode=3 mask=compressed",
             "layout=TND n=2/1 d=80 dv=33 q=65,1,200,7 kv=129,513,100,70 mode=4 pre=150 next=200 mask=compressed",
             "layout=TND n=8/1 d=32 q=1,1,1 kv=100,4200,700",
             "layout=TND n=4/2 d=40 q=65,0,130,7 kv=129,9,300,70 pse=0:full:minus_inf dpse=wanted drop=longer keep=0.8 "
             "sink=normal",
             "layout=TND n=2 d=64 q=65,130 kv=129,300 mode=3 mask=compressed pse=1:row dpse=wanted drop=exact keep=0.5",
             "layout=TND n=4/1 d=16 q=65,130,3 kv=70,130,64 mode=6 mask=compressed prefix=60,7,62 sink=large",
             "layout=TND n=3 d=16 q=65,130,3 kv=65,130,3 pse=2:slopes drop=exact stats=same_as_input",
             "layout=TND n=4/2 d=16 q=30,7,65 kv=129,5100,70 pse=1:full dpse=wanted drop=from_seed drop_seed=3 "
             "keep=0.7 "
             "sink=normal",
             "layout=TND n=4/2 d=32 rope=16 q=65,9,130 kv=129,5100,131 mode=3 mask=compressed sink=normal",
             "layout=TND n=2/1 d=16 q=3,9,65 kv=70,20500,2100",
         }) {
        if (!has_type(text)) continue;
        const BackwardCall packed = call_of(text);
        const Case& c = packed.description;
        const Gradients all = gradients_of(packed);
        for (const reference::Sequence& s : reference::sequences_of(packed.arguments.forward)) {
            if (s.q_len == 0 || s.kv_len == 0) continue;
            const auto b = static_cast<size_t>(s.index);
            const Gradients expected = cut(c, all, s.q_begin, s.q_len, s.kv_begin, s.kv_len, s.pairs_begin);
            EXPECT_TRUE(cut(c, gradients_of(with_sequences(packed, {b})), 0, s.q_len, 0, s.kv_len, 0) == expected)
                << "sequence " << b << " alone; " << rerun_hint(c);
            const Gradients thrice = gradients_of(with_sequences(packed, {b, b, b}));
            for (int64_t copy = 0; copy < 3; copy++) {
                EXPECT_TRUE(cut(c, thrice, copy * s.q_len, s.q_len, copy * s.kv_len, s.kv_len,
                                copy * s.q_len * s.kv_len) == expected)
                    << "sequence " << b << ", copy " << copy << " of three; " << rerun_hint(c);
            }
        }
    }
}

// The same numbers in another layout give the same bits, each where the layout puts it.
TEST_P(Backward, LayoutsAgree) {
    for (const char* text : {
             "layout=BSND b=3 n=4/2 d=64 q=70 kv=150 mode=3 mask=compressed",
             "layout=BSND b=2 n=3/1 d=40 dv=9 q=130 kv=131 mode=0 pre=60 next=3 mask=2d:random",
             "layout=BSND b=3 n=4/2 d=16 q=70 kv=150 pse=1:full dpse=wanted drop=exact keep=0.5 sink=normal",
             "layout=BSND b=2 n=3 d=64 q=130 kv=130 mode=1 mask=b1:rows pse=3:slopes sink=minus_inf drop=rounded",
         }) {
        const BackwardCall bsnd = call_of(text);
        const Case& c = bsnd.description;
        const Gradients expected = gradients_of(bsnd);
        for (const char* layout : {"BSH", "SBH", "BNSD", "TND"}) {
            const Gradients got = gradients_of(in_layout(bsnd, layout));
            auto different = [&](size_t gradient, int64_t seq, int64_t heads, int64_t width) {
                size_t count = 0;
                for (size_t at = 0; at < expected[gradient].size(); at++) {
                    const auto index = static_cast<int64_t>(at);
                    const int64_t row = row_in_layout(layout, index / width, c.batch, seq, heads);
                    count += got[gradient].at(row * width + index % width) != expected[gradient][at];
                }
                return count;
            };
            EXPECT_EQ(different(kDqAt, c.q[0], c.heads, c.d), 0U) << layout << " " << rerun_hint(c);
            EXPECT_EQ(different(kDkAt, c.kv[0], c.kv_heads, c.d), 0U) << layout << " " << rerun_hint(c);
            EXPECT_EQ(different(kDvAt, c.kv[0], c.kv_heads, c.dv), 0U) << layout << " " << rerun_hint(c);
            // [B, N, Sq, Skv] and [N] are the same numbers in the same order.
            EXPECT_TRUE(got[kDpseAt] == expected[kDpseAt]) << layout << " " << rerun_hint(c);
            EXPECT_TRUE(got[kDsinkAt] == expected[kDsinkAt]) << layout << " " << rerun_hint(c);
        }
    }
}

// Results of two orders of arithmetic: each is within its bound.
void expect_both_within(const BackwardCall& call, const Gradients& a, const Gradients& b) {
    const reference::ScoreGradResult r = reference::score_grad(call.arguments);
    EXPECT_EQ(lines(judge(call, r, a)), "") << rerun_hint(call.description);
    EXPECT_EQ(lines(judge(call, r, b)), "") << rerun_hint(call.description);
}

// A mode is the explicit mask of what it hides.
TEST_P(Backward, ModesAreExplicitMasks) {
    for (const char* text : {
             "layout=BSND b=2 n=4/2 d=40 q=70 kv=150 mode=3 mask=compressed",
             "layout=BNSD n=2 d=64 q=200 kv=130 mode=3 mask=compressed sink=normal",
             "layout=BSND n=2/1 d=16 q=130 kv=200 mode=4 pre=30 next=-5 mask=compressed pse=1:full dpse=wanted",
             "layout=SBH b=2 n=2 d=16 q=130 kv=200 mode=6 mask=compressed prefix=80,199 drop=exact keep=0.7",
             "layout=TND n=2 d=16 q=65,0,30 kv=100,7,50 mode=2 mask=compressed",
         }) {
        const BackwardCall call = call_of(text);
        BackwardCall masked = call;
        reference::ScoreArguments& a = masked.arguments.forward;
        const std::vector<reference::Sequence> sequences = reference::sequences_of(call.arguments.forward);
        int64_t rows = 0, keys = 0;
        for (const reference::Sequence& s : sequences) {
            rows = std::max(rows, s.q_len);
            keys = std::max(keys, s.kv_len);
        }
        const auto count = static_cast<int64_t>(sequences.size());
        a.sparse_mode = 1;
        a.atten_mask = reference::Mask{{count, 1, rows, keys}, std::vector<uint8_t>(count * rows * keys, 1)};
        for (const reference::Sequence& s : sequences) {
            for (int64_t i = 0; i < s.q_len; i++) {
                for (int64_t j = 0; j < s.kv_len; j++) {
                    if (reference::sees(call.arguments.forward, s, 0, i, j))
                        a.atten_mask->values[(s.index * rows + i) * keys + j] = 0;
                }
            }
        }
        masked.description.mode = 1;
        expect_both_within(call, gradients_of(call), gradients_of(masked));
    }
}

// Grouped heads are the same as keys and values repeated for every query head, whose gradients add up.
TEST_P(Backward, GroupsAddUpRepeatedKeys) {
    for (const char* text : {
             "layout=BSND b=2 n=6/2 d=64 q=70 kv=150 mode=3 mask=compressed",
             "layout=BSND b=1 n=8/1 d=80 dv=16 q=3 kv=513",
         }) {
        const BackwardCall grouped = call_of(text);
        BackwardCall repeated = grouped;
        Case& c = repeated.description;
        const int64_t group = c.heads / c.kv_heads;
        auto repeat = [&](reference::Tensor& tensor, int64_t features) {
            reference::Tensor wide{key_shape(c, features), {}};
            const auto rows = static_cast<int64_t>(tensor.values.size()) / features;
            for (int64_t row = 0; row < rows * group; row++) {
                const auto from = tensor.values.begin() + row / group * features;
                wide.values.insert(wide.values.end(), from, from + features);
            }
            tensor = wide;
        };
        c.kv_heads = c.heads;
        repeat(repeated.arguments.forward.key, c.d);
        repeat(repeated.arguments.forward.value, c.dv);
        const Gradients sums = gradients_of(grouped), parts = gradients_of(repeated);
        const reference::ScoreGradResult of_sums = reference::score_grad(grouped.arguments);
        const reference::ScoreGradResult of_parts = reference::score_grad(repeated.arguments);
        EXPECT_TRUE(sums[kDqAt] == parts[kDqAt]) << rerun_hint(c);
        for (const auto& [gradient, features] : {std::pair{kDkAt, c.d}, std::pair{kDvAt, c.dv}}) {
            const reference::Gradient &whole = gradient_of(of_sums, kGradientArguments[gradient]),
                                      &each = gradient_of(of_parts, kGradientArguments[gradient]);
            for (size_t at = 0; at < sums[gradient].size(); at++) {
                const int64_t row = static_cast<int64_t>(at) / features, d = static_cast<int64_t>(at) % features;
                double sum = 0, bound = gradient_bound(of_sums, whole, at, c.dtype, c.dtype);
                for (int64_t head = 0; head < group; head++) {
                    const size_t from = (row * group + head) * features + d;
                    sum += from_bits(c.dtype, parts[gradient][from]);
                    bound += gradient_bound(of_parts, each, from, c.dtype, c.dtype);
                }
                EXPECT_NEAR(from_bits(c.dtype, sums[gradient][at]), sum, bound) << rerun_hint(c);
            }
        }
    }
}

// What a hidden pair holds moves no bit of what other pairs give.
TEST_P(Backward, HiddenPairsHaveNoEffect) {
    const BackwardCall call = call_of("layout=BSND n=2 d=64 q=150 kv=150 mode=2 mask=compressed");
    const Case& c = call.description;
    constexpr int64_t kFirstChanged = 75;  // rows before it see no changed key
    BackwardCall changed = call;
    for (reference::Tensor* tensor : {&changed.arguments.forward.key, &changed.arguments.forward.value}) {
        for (size_t i = kFirstChanged * c.kv_heads * c.d; i < tensor->values.size(); i++) tensor->values[i] = 30.0;
    }
    const Gradients before = gradients_of(call), after = gradients_of(changed);
    const int64_t unchanged = kFirstChanged * c.heads * c.d;
    EXPECT_TRUE(part(before[kDqAt], 0, unchanged) == part(after[kDqAt], 0, unchanged)) << rerun_hint(c);
    EXPECT_FALSE(before[kDqAt] == after[kDqAt]);
    // Rows that see key 75 and later ones: their gradients do not reach keys that only other rows see.
    BackwardCall other_rows = call;
    for (int64_t i = 0; i < kFirstChanged * c.heads * c.dv; i++) other_rows.arguments.dy.values[i] = 0.25;
    const Gradients moved = gradients_of(other_rows);
    const int64_t later = kFirstChanged * c.kv_heads * c.d;
    const auto size = static_cast<int64_t>(before[kDkAt].size());
    EXPECT_TRUE(part(before[kDkAt], later, size - later) == part(moved[kDkAt], later, size - later)) << rerun_hint(c);
    EXPECT_FALSE(before[kDkAt] == moved[kDkAt]);
}

// Gradients are linear in dy, exactly for a power of 2 (away from the ends of the types).
TEST_P(Backward, TwiceTheGradientOfTheOutput) {
    for (const char* text : {"layout=BSND n=2/1 d=40 q=70 kv=90 mode=2 mask=compressed sink=normal",
                             "layout=BSND n=2 d=16 q=30 kv=50 pse=1:full dpse=wanted drop=exact keep=0.7"}) {
        const BackwardCall call = call_of(text);
        BackwardCall twice = call;
        for (double& value : twice.arguments.dy.values) value *= 2;
        const Gradients once = gradients_of(call), got = gradients_of(twice);
        for (const size_t gradient : {kDqAt, kDkAt, kDvAt, kDpseAt, kDsinkAt}) {
            const DType type = gradient_type(call.description, kGradientArguments[gradient]);
            size_t different = 0;
            for (size_t at = 0; at < once[gradient].size(); at++) {
                const double value = from_bits(type, once[gradient][at]);
                // Half numbers below the normal ones are rounded to a fixed step.
                if (std::fabs(value) < 0x1p-12) continue;
                different += from_bits(type, got[gradient][at]) != 2 * value;
            }
            EXPECT_EQ(different, 0U) << name_of(kGradientArguments[gradient]) << " of " << rerun_hint(call.description);
        }
    }
}

constexpr const char* kManyItems[] = {
    "layout=TND n=6/2 d=64 q=200,1,65,130,7 kv=300,900,65,130,70 mode=3 mask=compressed",
    "layout=BNSD n=2/1 d=32 q=3 kv=9000",   // several chunks of keys
    "layout=BNSD n=2/1 d=16 q=9 kv=20500",  // of several parts each
    "layout=BNSD n=4/2 d=16 q=20 kv=5100 mode=3 mask=compressed pse=1:full dpse=wanted sink=normal keep=0.7 "
    "drop=from_seed drop_seed=3",
    "layout=TND n=4/2 d=16 q=5,40,9 kv=5001,70,2050 pse=0:row dpse=wanted sink=normal",
    "layout=TND n=4/2 d=32 rope=16 q=65,9,130 kv=129,5100,131 mode=3 mask=compressed sink=normal",
    "layout=SBH b=2 n=5 d=33 q=65 kv=150 mode=1 mask=bn:rows",
    "layout=BNSD b=2 n=4/2 d=40 q=130 kv=200 mode=6 mask=compressed prefix=150,99 pse=0:full1 dpse=wanted "
    "drop=odd keep=0.7 sink=normal strides=pse:transposed,drop:every2,dy:expand,dq:transposed,dpse:every2",
    "layout=TND n=4/2 d=40 q=130,7,200 kv=130,7,200 mode=8 pre=130 next=0 mask=compressed "
    "pse=2:slopes q_start=5 kv_start=5 drop=exact keep=0.7 sink=large stats=same_as_input",
};

TEST_P(Backward, SameBitsForAnyNumberOfThreads) {
    ThreadCount threads;
    for (const char* text : kManyItems) {
        if (!has_type(text)) continue;
        const BackwardCall call = call_of(text);
        threads.set(1);
        const Gradients expected = gradients_of(call);
        for (int count = 2; count <= 8; count += reduced(1, 3)) {
            threads.set(count);
            EXPECT_TRUE(gradients_of(call) == expected) << count << " threads; " << rerun_hint(call.description);
        }
    }
}

// What lies in the workspace before does not count.
TEST_P(Backward, SameBitsInEveryRun) {
    for (const char* text : kManyItems) {
        if (!has_type(text)) continue;
        const BackwardCall call = call_of(text);
        const Gradients expected = gradients_of(call);
        for (int again = 1; again < reduced(20, 4); again++)
            EXPECT_TRUE(gradients_of(call) == expected) << rerun_hint(call.description);
        for (const WorkspaceFill fill : {WorkspaceFill::kNan, WorkspaceFill::kZeros})
            EXPECT_TRUE(run(call, {.workspace = fill}).gradients == expected) << rerun_hint(call.description);
    }
}

// The plan and its workspace are made for the threads of phase one; phase two must do with fewer, and may have more.
TEST_P(Backward, ThreadCountMayChangeBetweenThePhases) {
    ThreadCount threads;
    for (const char* text : kManyItems) {
        if (!has_type(text)) continue;
        const BackwardCall call = call_of(text);
        const Gradients expected = gradients_of(call);
        for (const auto& [first, second] : {std::pair{8, 1}, std::pair{1, 8}, std::pair{3, 2}}) {
            PreparedBackward prepared(call, {.count_allocations = false});
            threads.set(first);
            ASSERT_EQ(prepared.phase_one(), 0);
            threads.set(second);
            ASSERT_EQ(prepared.phase_two(), 0);
            EXPECT_TRUE(prepared.gradients() == expected) << first << " threads, then " << second;
            EXPECT_EQ(lines(prepared.broken_promises()), "");
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Metamorphic, Backward, kAllTypes, type_name);

}  // namespace
}  // namespace flash_attention::testing
