// Versions, dropout, sinks, rope parts and layouts of the statistics: pairs of calls that describe the same attention.
#include "entry_points.h"
#include "metamorphic.h"

namespace flash_attention::testing {
namespace {

// All versions that have the arguments of a call compute the same bits.
TEST_P(Types, VersionsAgree) {
    size_t compared = 0;
    for (const char* text : {
             "layout=BSND b=2 n=4/2 d=40 q=70 kv=150 mode=3 mask=compressed",
             "layout=SBH b=2 n=4/2 d=40 q=70 kv=150 mode=6 mask=compressed prefix=99,150 pse=1:row drop=exact keep=0.7",
             "layout=BNSD b=2 n=2 d=40 q=70 kv=150 pse=0:full:minus_inf",
             "layout=BSH b=2 n=2 d=40 q=70 kv=70 pse=2:slopes q_start=3 kv_start=8 drop=exact",
             "layout=BSND b=2 n=2 d=40 q=70 kv=70 mode=1 mask=2d:rows sink=normal pse=3:slopes1",
             "layout=TND n=4/2 d=40 q=70,0,9 kv=150,3,130 mode=3 mask=compressed slack=3/2",
             "layout=TND n=4/2 d=40 q=70,9 kv=150,130 mode=6 mask=compressed prefix=99,130 pse=1:full drop=odd "
             "keep=0.7",
             "layout=TND n=2 d=40 q=70,9 kv=70,9 pse=3:slopes q_start=3 kv_start=8",
             "layout=TND n=2 d=40 q=70,9 kv=70,9 mode=0 mask=total:random stats=same_as_input",
             "layout=TND n=2 d=40 q=70,9 kv=70,9 mode=0 mask=total:random sink=normal pse=0:row",
         }) {
        Case c = parse(text);
        const std::vector<Version> versions = versions_of(c);
        const Outputs expected = outputs_of(make_call(c));
        for (size_t v = 1; v < versions.size(); v++) {
            c.version = versions[v];
            EXPECT_TRUE(outputs_of(make_call(c)) == expected) << rerun_hint(c);
            compared++;
        }
    }
    EXPECT_EQ(compared, 3U + 3U + 2U + 2U + 1U + 5U + 5U + 3U + 2U + 1U);
}

// Both layouts of the statistics hold the same numbers; the default one is [N, Sq_b] for each sequence, the other
// [T, N]. Texts that mean nothing are the default.
TEST_P(Types, StatisticsLayoutsHoldTheSameNumbers) {
    const std::string text = "layout=TND n=4/2 d=40 q=70,0,9,130 kv=150,3,0,65 tail=1 slack=5/2 sink=normal";
    const Outputs blocks = outputs_of(call_of(text)), tokens = outputs_of(call_of(text + " stats=same_as_input"));
    EXPECT_TRUE(blocks.out == tokens.out);
    EXPECT_FALSE(blocks.sum == tokens.sum);
    constexpr int64_t kHeads = 4;
    std::vector<uint32_t> max, sum;
    int64_t start = 0;
    for (const int64_t rows : {70, 0, 9, 130, 5}) {  // the rows that belong to no sequence are zeros
        for (int64_t n = 0; n < kHeads; n++) {
            for (int64_t i = 0; i < rows; i++) {
                const int64_t at = ((start + i) * kHeads + n) * 8;
                max.insert(max.end(), tokens.max.begin() + at, tokens.max.begin() + at + 8);
                sum.insert(sum.end(), tokens.sum.begin() + at, tokens.sum.begin() + at + 8);
            }
        }
        start += rows;
    }
    EXPECT_TRUE(max == blocks.max);
    EXPECT_TRUE(sum == blocks.sum);
    for (const char* other : {"TND", "Same_As_Input", "same_as_input2"}) {
        EXPECT_TRUE(outputs_of(call_of(text + " stats=" + other)) == blocks) << other;
    }
    RunOptions options;
    options.empty_text = true;
    EXPECT_TRUE(run(call_of(text + " version=VarLenScoreV5"), options).outputs == blocks);
}

// Layouts other than TND have one order of statistics, whatever is asked for.
TEST_P(Types, StatisticsLayoutIsForTndOnly) {
    const std::string text = "layout=SBH b=2 n=2 d=16 q=70 kv=9";
    EXPECT_TRUE(outputs_of(call_of(text)) == outputs_of(call_of(text + " stats=same_as_input")));
}

// Start indices belong to slopes, prefixes to modes 5 and 6; elsewhere they have no effect.
TEST_P(Types, ListsWithoutAUseHaveNoEffect) {
    const std::string text = "layout=BSND b=2 n=2 d=16 q=70 kv=70 mode=3 mask=compressed pse=1:full";
    const Outputs expected = outputs_of(call_of(text));
    EXPECT_TRUE(outputs_of(call_of(text + " q_start=5 kv_start=9 prefix=70,70")) == expected);
}

TEST_P(Types, KeepingEverythingIsNoDropout) {
    for (const char* text : {
             "layout=BSND b=2 n=4/2 d=40 q=70 kv=151 mode=3 mask=compressed",
             "layout=TND n=4/2 d=40 q=70,0,9 kv=151,3,129 mode=0 mask=total:rows sink=normal pse=1:full",
         }) {
        const std::string plain = text;
        const Outputs expected = outputs_of(call_of(plain));
        EXPECT_TRUE(outputs_of(call_of(plain + " drop=exact:ones")) == expected) << text;
        EXPECT_TRUE(outputs_of(call_of(plain + " keep=0.3")) == expected) << "without a mask; " << text;
    }
}

// With the unit matrix as values the output shows the weights: those of dropped keys are zero, all others are divided
// by the keep probability. Maximum and sum do not know of it.
TEST_P(Types, DroppedKeysWeighNothing) {
    for (const char* text : {
             "layout=BNSD b=2 n=3/1 d=72 q=70 kv=71 mode=3 mask=compressed drop=exact keep=0.6",
             "layout=BNSD n=2 d=130 q=9 kv=129 drop=odd keep=0.1 pse=1:full sink=normal",
         }) {
        Call dropped = call_of(text);
        const Case& c = dropped.description;
        std::vector<double>& values = dropped.arguments.value.values;
        for (size_t i = 0; i < values.size(); i++) {
            const auto feature = static_cast<int64_t>(i) % c.dv, key = static_cast<int64_t>(i) / c.dv % c.kv[0];
            values[i] = feature == key ? 1.0 : 0.0;
        }
        Call plain = dropped;
        plain.description.drop = DropShape::kNone;
        plain.description.keep = plain.arguments.keep_prob = 1;
        plain.arguments.drop_mask.reset();
        const Outputs with = outputs_of(dropped), without = outputs_of(plain);
        EXPECT_TRUE(with.max == without.max && with.sum == without.sum) << rerun_hint(c);
        const std::vector<reference::Row> rows = reference::score(plain.arguments).rows;
        const double keep = static_cast<float>(c.keep);
        for (size_t row = 0; row < rows.size(); row++) {
            for (int64_t j = 0; j < c.kv[0]; j++) {
                const auto bit = static_cast<int64_t>(row) * c.kv[0] + j;
                const bool kept = ((*dropped.arguments.drop_mask)[bit / 8] >> (bit % 8) & 1) != 0;
                const size_t at = rows[row].out_begin + j;
                const double weight = from_bits(c.dtype, without.out[at]) / keep;
                const double bound = 2 * bound_of(Quantity::kOut, c.dtype, rows[row], weight * keep) / keep;
                EXPECT_NEAR(from_bits(c.dtype, with.out[at]), kept ? weight : 0.0, kept ? bound : 0.0)
                    << "row " << row << " key " << j << "; " << rerun_hint(c);
            }
        }
    }
}

// A sink is one more key with that score and a value of zero: here a key that looks at a feature of its own, which is 1
// in all queries and 0 in all other keys.
TEST_P(Types, SinkIsAKeyWithoutValue) {
    for (const double sink : {0.5, -3.0, 12.0}) {
        Call with_sink = call_of("layout=BNSD b=2 n=2 d=40 q=70 kv=150 scale=0.125 mode=1 mask=2d:rows");
        Call with_key = with_sink;
        const Case& c = with_sink.description;
        with_sink.arguments.sink = {sink, sink};
        auto widen = [&](reference::Tensor& tensor, double feature, const std::vector<double>& more) {
            const int64_t length = tensor.shape[2];
            reference::Tensor wide{tensor.shape, {}};
            wide.shape[2] += more.empty() ? 0 : 1;
            wide.shape[3] += 1;
            for (int64_t row = 0; row < element_count(tensor.shape) / c.d; row++) {
                const auto from = tensor.values.begin() + row * c.d;
                wide.values.insert(wide.values.end(), from, from + c.d);
                wide.values.push_back(feature);
                if ((row + 1) % length == 0) wide.values.insert(wide.values.end(), more.begin(), more.end());
            }
            tensor = wide;
        };
        std::vector<double> key(c.d + 1, 0.0);
        key.back() = sink / c.scale;
        widen(with_key.arguments.query, 1.0, {});
        widen(with_key.arguments.key, 0.0, key);
        widen(with_key.arguments.value, 0.0, std::vector<double>(c.d + 1, 0.0));
        reference::Mask& mask = *with_key.arguments.atten_mask;
        std::vector<uint8_t> wider;
        for (int64_t i = 0; i < c.q[0]; i++) {
            wider.insert(wider.end(), mask.values.begin() + i * c.kv[0], mask.values.begin() + (i + 1) * c.kv[0]);
            wider.push_back(0);
        }
        mask = {{c.q[0], c.kv[0] + 1}, wider};
        with_key.description.d = with_key.description.dv = c.d + 1;
        with_key.description.kv = {c.kv[0] + 1};
        // The last feature of the output is zero and has no counterpart.
        Outputs narrow = outputs_of(with_key);
        std::vector<uint32_t> out;
        for (size_t at = 0; at < narrow.out.size(); at++) {
            if (at % (c.d + 1) != static_cast<size_t>(c.d)) out.push_back(narrow.out[at]);
        }
        narrow.out = out;
        expect_within_bounds(with_sink, narrow, outputs_of(with_sink));
    }
}

// A sink of minus infinity is none, also for rows that see nothing else.
TEST_P(Types, SinkOfMinusInfinityIsNone) {
    const Call plain = call_of("layout=BSND b=2 n=2 d=40 q=70 kv=150 mode=1 mask=2d:rows");
    Call call = plain;
    call.arguments.sink = {-INFINITY, -INFINITY};
    EXPECT_TRUE(outputs_of(call) == outputs_of(plain));
}

// Rope parts are more features of query and key.
TEST(Rope, IsMoreFeatures) {
    for (const char* text : {
             "layout=TND dtype=bf16 n=4/2 d=64 rope=32 q=70,0,9 kv=150,3,130 mode=3 mask=compressed scale=0.1",
             "layout=TND dtype=bf16 n=2 d=33 dv=20 rope=33 q=70,9 kv=150,130 mode=0 mask=total:rows scale=0.1 "
             "sink=normal",
             "layout=TND dtype=bf16 n=2/1 d=512 rope=64 q=1,2 kv=300,64 mode=4 pre=100 next=0 mask=compressed",
         }) {
        const Call split = make_call(parse_case(text));
        Call joined = split;
        const Case& c = split.description;
        auto join = [&](reference::Tensor& tensor, std::optional<reference::Tensor>& rope) {
            reference::Tensor wide{tensor.shape, {}};
            wide.shape.back() += c.rope;
            for (int64_t row = 0; row < element_count(tensor.shape) / c.d; row++) {
                const auto first = tensor.values.begin() + row * c.d, second = rope->values.begin() + row * c.rope;
                wide.values.insert(wide.values.end(), first, first + c.d);
                wide.values.insert(wide.values.end(), second, second + c.rope);
            }
            tensor = wide;
            rope.reset();
        };
        join(joined.arguments.query, joined.arguments.query_rope);
        join(joined.arguments.key, joined.arguments.key_rope);
        joined.description.d += c.rope;
        joined.description.rope = 0;
        expect_within_bounds(joined, outputs_of(joined), outputs_of(split));
    }
}

INSTANTIATE_TEST_SUITE_P(Modifiers, Types, kAllTypes, type_name);

}  // namespace
}  // namespace flash_attention::testing
