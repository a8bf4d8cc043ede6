// Two calls that must agree because they describe the same attention. These need no reference.
#include "metamorphic.h"
#include "testing/reduced.h"

namespace flash_attention::testing {
namespace {

// The rows of one sequence, cut out of what a TND call or a batch [B, S, N, D] of equal lengths gave: out rows are
// [row][head], statistics [head][row].
struct SequenceOutputs {
    std::vector<uint32_t> out, max, sum;
    bool operator==(const SequenceOutputs&) const = default;
};

SequenceOutputs cut(const Case& c, const Outputs& o, int64_t first_row, int64_t rows) {
    auto part = [](const std::vector<uint32_t>& all, int64_t begin, int64_t count) {
        return std::vector<uint32_t>(all.begin() + begin, all.begin() + begin + count);
    };
    const int64_t out_row = c.heads * c.dv, stats_row = c.heads * 8;
    return {part(o.out, first_row * out_row, rows * out_row), part(o.max, first_row * stats_row, rows * stats_row),
            part(o.sum, first_row * stats_row, rows * stats_row)};
}

// A sequence gives the same bits alone, between others, and several times in one call.
TEST_P(Types, SequenceAloneIsSequencePacked) {
    for (const char* text : {
             "layout=TND n=4/2 d=64 q=65,1,200,7,0,130 kv=129,513,200,70,5,300 mode=3 mask=compressed",
             "layout=TND n=2/1 d=80 dv=33 q=65,1,200,7 kv=129,513,100,70 mode=4 pre=150 next=200 mask=compressed",
             "layout=TND n=8/1 d=128 q=1,1,1 kv=100,2000,700",
             "layout=TND n=4/2 d=40 q=65,0,130,7 kv=129,9,300,70 pse=0:full:minus_inf drop=longer keep=0.8 sink=normal",
             "layout=TND n=2 d=64 q=65,130 kv=129,300 mode=3 mask=compressed pse=1:row drop=exact keep=0.5",
             "layout=TND n=4/1 d=16 q=65,130,3 kv=70,130,64 mode=6 mask=compressed prefix=60,7,62 sink=large",
             "layout=TND n=3 d=16 q=65,130,3 kv=65,130,3 pse=2:slopes drop=exact",
             "layout=TND n=4/2 d=16 q=30,2,65 kv=129,5100,70 drop=from_seed drop_seed=3 keep=0.7 sink=normal",
         }) {
        const Call packed = make_call(parse(text));
        const Case& c = packed.description;
        const Outputs all = outputs_of(packed);
        const std::vector<reference::Sequence> sequences = reference::sequences_of(packed.arguments);
        for (size_t b = 0; b < sequences.size(); b++) {
            const reference::Sequence& s = sequences[b];
            if (s.q_len == 0) continue;
            const SequenceOutputs expected = cut(c, all, s.q_begin, s.q_len);
            EXPECT_TRUE(cut(c, outputs_of(with_sequences(packed, {b})), 0, s.q_len) == expected)
                << "sequence " << b << " alone; " << rerun_hint(c);
            const Outputs thrice = outputs_of(with_sequences(packed, {b, b, b}));
            for (int64_t copy = 0; copy < 3; copy++) {
                EXPECT_TRUE(cut(c, thrice, copy * s.q_len, s.q_len) == expected)
                    << "sequence " << b << ", copy " << copy << " of three; " << rerun_hint(c);
            }
        }
    }
}

// The same numbers in another layout give the same bits: statistics are [B, N, Sq, 8] in all of them, and the output
// moves with the layout.
TEST_P(Types, LayoutsAgree) {
    for (const char* text : {
             "layout=BSND b=3 n=4/2 d=64 q=70 kv=150 mode=3 mask=compressed",
             "layout=BSND b=2 n=3/1 d=40 dv=9 q=130 kv=131 mode=0 pre=60 next=3 mask=2d:random",
             "layout=BSND b=3 n=4/2 d=16 q=70 kv=150 pse=1:full drop=exact keep=0.5 sink=normal",
             "layout=BSND b=3 n=4/2 d=64 q=70 kv=150 mode=6 mask=compressed prefix=80,150,97 pse=0:row:minus_inf",
             "layout=BSND b=2 n=3 d=64 q=130 kv=130 mode=1 mask=b1:rows pse=3:slopes sink=minus_inf drop=rounded",
         }) {
        const Call bsnd = make_call(parse(text));
        const Case& c = bsnd.description;
        const Outputs expected = outputs_of(bsnd);
        for (const char* layout : {"BSH", "SBH", "BNSD", "TND"}) {
            const Call other = in_layout(bsnd, layout);
            const Outputs got = outputs_of(other);
            EXPECT_TRUE(got.max == expected.max && got.sum == expected.sum) << layout << " " << rerun_hint(c);
            size_t different = 0;
            for (size_t at = 0; at < expected.out.size(); at++) {
                const auto index = static_cast<int64_t>(at);
                const int64_t row = row_in_layout(layout, index / c.dv, c.batch, c.q[0], c.heads);
                different += got.out[row * c.dv + index % c.dv] != expected.out[at];
            }
            EXPECT_EQ(different, 0U) << layout << " " << rerun_hint(c);
        }
    }
}

// Grouped heads are the same as keys and values repeated for every query head.
TEST_P(Types, GroupsAreRepeatedKeys) {
    for (const char* text : {
             "layout=BSND b=2 n=6/2 d=64 q=70 kv=150 mode=3 mask=compressed",
             "layout=BSND b=1 n=8/1 d=80 dv=16 q=1 kv=513",
         }) {
        const Call grouped = make_call(parse(text));
        Call repeated = grouped;
        Case& c = repeated.description;
        const int64_t group = c.heads / c.kv_heads;
        auto repeat = [&](reference::Tensor& tensor, int64_t features) {
            reference::Tensor wide{key_shape(c, features), {}};
            const auto rows = static_cast<int64_t>(tensor.values.size()) / features;
            for (int64_t row = 0; row < rows; row++) {
                for (int64_t copy = 0; copy < group; copy++) {
                    wide.values.insert(wide.values.end(), tensor.values.begin() + row * features,
                                       tensor.values.begin() + (row + 1) * features);
                }
            }
            tensor = wide;
        };
        c.kv_heads = c.heads;
        repeat(repeated.arguments.key, c.d);
        repeat(repeated.arguments.value, c.dv);
        expect_within_bounds(grouped, outputs_of(grouped), outputs_of(repeated));
    }
}

// A key that is hidden from a row has no effect on its bits, whatever finite numbers it holds.
TEST_P(Types, HiddenKeysHaveNoEffect) {
    const Call call = make_call(parse("layout=BSND n=2 d=64 q=150 kv=150 mode=2 mask=compressed"));
    Call changed = call;
    const Case& c = call.description;
    constexpr int64_t kFirstChanged = 75;  // rows before it see no changed key
    for (reference::Tensor* tensor : {&changed.arguments.key, &changed.arguments.value}) {
        const int64_t width = c.kv_heads * c.d;
        for (size_t i = kFirstChanged * width; i < tensor->values.size(); i++) tensor->values[i] = 30.0;
    }
    const Outputs before = outputs_of(call), after = outputs_of(changed);
    const int64_t unchanged = kFirstChanged * c.heads * c.dv;
    EXPECT_TRUE(std::equal(before.out.begin(), before.out.begin() + unchanged, after.out.begin())) << rerun_hint(c);
    EXPECT_FALSE(std::equal(before.out.begin() + unchanged, before.out.end(), after.out.begin() + unchanged));
}

// What other rows see does not move a bit of a row, although they share tiles with it and some tiles are only visited
// for their sake.
TEST_P(Types, RowsDoNotFeelTheirNeighbours) {
    const Call alone = make_call(parse("layout=BSND n=1 d=64 q=70 kv=2100 mode=1 mask=2d:nothing"));
    const Case& c = alone.description;
    constexpr int64_t kRow = 5;
    Call sparse = alone;
    for (size_t i = 0; i < sparse.arguments.atten_mask->values.size(); i++) {
        const int64_t row = static_cast<int64_t>(i) / c.kv[0], key = static_cast<int64_t>(i) % c.kv[0];
        const bool of_row = key < 70 || key >= 1300;
        sparse.arguments.atten_mask->values[i] = row == kRow ? !of_row : 1;
    }
    Call crowded = sparse;
    for (size_t i = 0; i < crowded.arguments.atten_mask->values.size(); i++) {
        if (static_cast<int64_t>(i) / c.kv[0] != kRow) crowded.arguments.atten_mask->values[i] = 0;
    }
    EXPECT_TRUE(cut(c, outputs_of(sparse), kRow, 1) == cut(c, outputs_of(crowded), kRow, 1)) << rerun_hint(c);
}

constexpr const char* kManyItems = "layout=TND n=6/2 d=64 q=200,1,65,130,7 kv=300,900,65,130,70 mode=3 mask=compressed";
constexpr const char* kFromSeed =
    "layout=TND n=6/2 d=64 q=200,1,65,4 kv=300,5100,65,130 keep=0.7 drop=from_seed drop_seed=3 drop_offset=12";

TEST_P(Types, SameBitsForAnyNumberOfThreads) {
    ThreadCount threads;
    for (const char* text : {kManyItems, kFromSeed, "layout=BNSD n=2/1 d=128 q=3 kv=3000",
                             "layout=SBH b=2 n=5 d=33 q=65 kv=150 mode=1 mask=bn:rows",
                             "layout=BNSD b=2 n=4/2 d=40 q=130 kv=200 mode=6 mask=compressed prefix=150,99 pse=0:full1 "
                             "drop=odd keep=0.7 sink=normal strides=pse:transposed,drop:every2",
                             "layout=TND n=4/2 d=40 q=130,7,200 kv=130,7,200 mode=8 pre=130 next=0 mask=compressed "
                             "pse=2:slopes q_start=5 kv_start=5 drop=exact keep=0.7 sink=large stats=same_as_input"}) {
        const Call call = make_call(parse(text));
        threads.set(1);
        const Outputs expected = outputs_of(call);
        for (const int count : {2, 3, 8}) {
            threads.set(count);
            EXPECT_TRUE(outputs_of(call) == expected) << count << " threads; " << rerun_hint(call.description);
        }
    }
}

TEST_P(Types, SameBitsInEveryRun) {
    for (const char* text : {kManyItems, kFromSeed}) {
        const Call call = make_call(parse(text));
        const Outputs expected = outputs_of(call);
        for (int again = 1; again < reduced(20, 4); again++)
            EXPECT_TRUE(outputs_of(call) == expected) << rerun_hint(call.description);
    }
}

// The plan and its workspace are made for the threads of phase one; phase two must do with fewer, and may have more.
TEST_P(Types, ThreadCountMayChangeBetweenThePhases) {
    ThreadCount threads;
    const Call call = make_call(parse(kManyItems));
    const Outputs expected = outputs_of(call);
    for (const auto& [first, second] : {std::pair{8, 1}, std::pair{1, 8}, std::pair{3, 2}}) {
        PreparedCall prepared(call, {.count_allocations = false});
        threads.set(first);
        ASSERT_EQ(prepared.phase_one(), 0);
        threads.set(second);
        ASSERT_EQ(prepared.phase_two(), 0);
        EXPECT_TRUE(prepared.outputs() == expected) << first << " threads, then " << second;
        EXPECT_EQ(lines(prepared.broken_promises()), "");
    }
}

INSTANTIATE_TEST_SUITE_P(Metamorphic, Types, kAllTypes, type_name);

}  // namespace
}  // namespace flash_attention::testing
