// Few query rows against many keys, which are computed in another way than many rows: all rows that share a head of
// keys and values together, keys in chunks. Chunks begin at multiples of 1024 keys, what is summed at once at multiples
// of 32, 64 and 256.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "metamorphic.h"
#include "opbase/parallel.h"
#include "testing/draw.h"
#include "testing/random_modifiers.h"
#include "testing/reduced.h"

namespace flash_attention::testing {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int64_t kFew = 12;               // rows of a head
constexpr int64_t kMostWork = 40'000'000;  // multiply-adds of a case: some 100 ms for the reference

void draw_sizes(Draw& draw, Case& c) {
    struct Heads {
        int64_t query, key;
    };
    const Heads heads = draw.one_of<Heads>({{1, 1}, {2, 1}, {3, 1}, {4, 2}, {4, 1}, {6, 2}, {8, 1}, {16, 1}, {21, 1}});
    c.heads = heads.query;
    c.kv_heads = heads.key;
    c.d = draw.one_of<int64_t>({1, 7, 16, 33, 40, 64, 64, 80, 100, 128, 128, 192, 256, 513});
    c.dv = draw.chance(0.7) ? c.d : std::max<int64_t>(1, draw.one_of<int64_t>({1, c.d / 2, c.d - 1, c.d * 2 / 3}));
    const auto sequences = static_cast<size_t>(c.varlen() ? 1 + draw.below(3) : 1);
    c.q.assign(sequences, 0);
    c.kv.assign(sequences, 0);
    for (size_t s = 0; s < sequences; s++) {
        // The last few, and the first many, among others.
        c.q[s] = draw.one_of<int64_t>({1, 1, 1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16});
        const int64_t edge = draw.one_of<int64_t>({0, 8, 32, 64, 256, 512, 1024, 2048, 3072, 4096, 9000});
        c.kv[s] = std::max<int64_t>(1, edge + draw.one_of<int64_t>({-9, -1, 0, 1, 3, 17, 100, 301}));
    }
    if (!c.varlen()) c.batch = draw.one_of<int64_t>({1, 1, 2});
}

void draw_mask(Draw& draw, Case& c) {
    const bool varlen = c.varlen();
    if (draw.chance(0.25)) return;
    if (draw.chance(0.5)) {
        c.mask = varlen ? draw.one_of({MaskShape::kPlain, MaskShape::kTotal})
                        : draw.one_of({MaskShape::kPlain, MaskShape::kB1, MaskShape::kBN});
        c.mode = draw.below(2);
        c.hides = draw.one_of({MaskContent::kCausal, MaskContent::kRandom, MaskContent::kRows, MaskContent::kBlocks});
    } else {
        c.mask = MaskShape::kCompressed;
        c.mode = draw.one_of<int64_t>({2, 3, 3, 4, 4});
    }
    const int64_t keys = *std::max_element(c.kv.begin(), c.kv.end());
    const int64_t pre = c.pre, next = c.next;
    for (int attempt = 0; attempt < 32; attempt++) {
        c.pre = draw.one_of<int64_t>({0, 5, 100, 1030, draw.below(keys + 1), keys, pre});
        c.next = draw.one_of<int64_t>({0, 1, -3, 100, draw.below(keys + 1), keys, next});
        if (why_illegal(c).empty()) return;
    }
    c.pre = pre;
    c.next = next;
}

int64_t work(const Case& c) {
    int64_t pairs = 0;
    for (size_t s = 0; s < c.q.size(); s++) pairs += c.q[s] * c.kv[s];
    return pairs * c.batch * c.heads * (c.d + c.rope + c.dv);
}

// Case number `index` for a type; always legal.
Case decode_case(DType dtype, int64_t index) {
    Draw draw(kSeed + static_cast<uint64_t>(dtype), index);
    for (;;) {
        Case c;
        c.dtype = dtype;
        c.layout = draw.one_of({"BSH", "SBH", "BSND", "BNSD", "TND", "TND", "TND"});
        draw_sizes(draw, c);
        if (draw.chance(0.6)) add_more_modifiers(draw, c);
        draw_mask(draw, c);
        c.scale = draw.one_of({1.0 / std::sqrt(static_cast<double>(c.d)), 0.0, -0.1, 0.3});
        c.values = draw.one_of({Values::kNormal, Values::kNormal, Values::kPositive, Values::kLarge, Values::kHighKey,
                                Values::kHiddenNan, Values::kHiddenNan, Values::kVisibleNan, Values::kMinusInf});
        c.seed = draw.seed();
        for (const Argument argument : {kQuery, kKey, kValue, kQueryRope, kKeyRope, kMask, kPse, kOut, kMax})
            if (c.has(argument) && !c.compressed() && draw.chance(0.3))
                c.views[argument] = draw.one_of({View::kOffset, View::kPadded, View::kSwapped});
        if (work(c) <= kMostWork && why_illegal(c).empty()) return c;
    }
}

TEST_P(Types, RandomRowsAgreeWithTheReference) {
    Accuracy accuracy;
    const int64_t cases = reduced(120, 30);
    int64_t few = 0, several_chunks = 0;
    for (int64_t i = 0; i < cases; i++) {
        const Case c = decode_case(GetParam(), i);
        for (size_t s = 0; s < c.q.size(); s++) {
            few += c.q[s] <= kFew;
            several_chunks += c.q[s] <= kFew && c.kv[s] > 1024;
        }
        EXPECT_EQ(lines(check_case(c, &accuracy)), "");
    }
    std::cout << cases << " cases, seed " << kSeed << ", " << few << " sequences of few rows, " << several_chunks
              << " in several chunks\n"
              << accuracy.table();
    EXPECT_GT(few, cases / 2);
    EXPECT_GT(several_chunks, cases / 6);
}

// Chosen ones: what a draw seldom meets.
TEST_P(Types, ChosenRowsAgreeWithTheReference) {
    Accuracy accuracy;
    std::vector<std::string> texts = {
        // The bound of a score at its hardest: all features of a row are equal.
        "layout=BSND n=2 q=5 kv=130 strides=q:expand_last,k:expand_last d=64 scale=1",
        "layout=BSND n=4/1 q=1 kv=130 strides=q:expand_last,k:expand_last d=128 scale=1",
        "layout=BSND n=2/1 q=1 kv=130 strides=q:expand_last,k:expand_last d=256 scale=0.05",
        "layout=BSND n=1 q=1 kv=130 strides=q:expand_last,k:expand_last d=513 scale=1",
        "layout=BSND n=4/1 q=2 kv=130 strides=q:expand_last,k:expand_last d=768 scale=1",
        // Compressed biases: rows of a long sequence that are packed with short ones.
        "layout=TND n=2 d=8 q=3,1100,8 kv=3,1100,8 mode=3 mask=compressed pse=1:compressed",
        "layout=TND n=2 d=8 q=1,1030 kv=1,1030 mode=3 mask=compressed pse=0:compressed:minus_inf",
        // Heads that share keys in more parts than one, the last one smaller.
        "layout=BNSD n=71/1 d=16 q=1 kv=1500",
        "layout=BNSD n=10/2 d=16 q=7 kv=1025 mode=3 mask=compressed",
        // Chunks that no row sees, and those that some see.
        "layout=BNSD n=2/1 d=16 q=8 kv=5000 mode=4 pre=3 next=0 mask=compressed",
        "layout=BNSD n=2/1 d=16 q=8 kv=5000 mode=0 pre=-2040 next=2055 mask=2d:nothing",
        "layout=BNSD n=2/1 d=16 q=8 kv=5000 mode=2 mask=compressed values=hidden_nan",
        "layout=BNSD n=2/1 d=16 q=8 kv=5 mode=3 mask=compressed sink=normal",  // rows that see no key
        "layout=BNSD n=2/1 d=16 q=4 kv=5000 mode=1 mask=2d:all sink=minus_inf",
        "layout=BNSD n=2/1 d=16 q=8 kv=5000 mode=6 mask=compressed prefix=4995 values=hidden_nan",
        "layout=TND n=1 d=64 q=2 kv=5000 pse=3:slopes q_start=-7 kv_start=4000000 drop=exact keep=0.5",
    };
    if (!reduced_tests() || GetParam() == DType::kFp32) {  // chunks of 2048; dear
        texts.push_back("layout=BNSD n=4/1 d=64 q=1 kv=70000 values=high_key");
        texts.push_back("layout=TND n=1 d=64 q=2 kv=70000 pse=2:slopes q_start=0 kv_start=-69998");
    }
    if (GetParam() == DType::kBf16) {
        texts.push_back("layout=TND n=16/1 d=512 rope=64 q=1,2 kv=3000,100 mode=3 mask=compressed");
        texts.push_back(
            "layout=TND n=2/1 d=100 rope=9 dv=33 q=3,8 kv=1030,257 mode=3 mask=compressed values=hidden_nan");
    }
    for (const std::string& text : texts) {
        EXPECT_EQ(why_illegal(parse(text)), "") << text;
        EXPECT_EQ(lines(check_case(parse(text), &accuracy)), "");
    }
    std::cout << accuracy.table();
}

TEST_P(Types, FewRowsGiveTheSameBitsOnAnyNumberOfThreads) {
    struct ThreadCount {
        ~ThreadCount() { opbase::set_thread_count(0); }
    } put_back;
    for (const char* text : {
             "layout=BNSD n=4/1 d=64 q=1 kv=9000",
             "layout=TND n=4/2 d=40 q=1,200,8,3,1 kv=5000,300,1025,7,2048 mode=3 mask=compressed sink=normal",
             "layout=TND n=6/3 d=33 dv=9 q=2,130,7 kv=4097,300,70 pse=0:row:minus_inf drop=exact keep=0.7",
         }) {
        const Call call = call_of(text);
        opbase::set_thread_count(1);
        const Outputs expected = outputs_of(call);
        for (int threads = 2; threads <= 8; threads += reduced(1, 3)) {
            opbase::set_thread_count(threads);
            EXPECT_TRUE(outputs_of(call) == expected) << threads << " threads; " << rerun_hint(call.description);
        }
    }
}

TEST_P(Types, FewRowsGiveTheSameBitsAloneAndPacked) {
    for (const char* text : {
             "layout=TND n=4/2 d=64 q=1,200,8,1 kv=5000,300,1025,2048 mode=3 mask=compressed",
             "layout=TND n=3/1 d=33 dv=9 q=2,130,7 kv=4097,300,70 pse=0:row:minus_inf drop=exact keep=0.7 sink=large",
         }) {
        const Call packed = call_of(text);
        const Case& c = packed.description;
        const Outputs all = outputs_of(packed);
        int64_t first_row = 0;
        for (size_t s = 0; s < c.q.size(); s++) {
            const Outputs alone = outputs_of(with_sequences(packed, {s}));
            const auto same = [&](const std::vector<uint32_t>& part, const std::vector<uint32_t>& whole,
                                  int64_t width) {
                return std::equal(part.begin(), part.end(), whole.begin() + first_row * width);
            };
            EXPECT_TRUE(same(alone.out, all.out, c.heads * c.dv) && same(alone.max, all.max, c.heads * 8) &&
                        same(alone.sum, all.sum, c.heads * 8))
                << "sequence " << s << "; " << rerun_hint(c);
            first_row += c.q[s];
        }
    }
}

// A window or a mask that hides nothing is none, bit by bit.
TEST_P(Types, WindowsThatHideNothing) {
    for (const char* sizes : {"layout=BNSD n=4/1 d=64 q=1 kv=3001", "layout=BNSD n=2 d=40 q=5 kv=1500"}) {
        for (const char* window : {" mode=4 pre=4000 next=4000 mask=compressed", " mode=3 mask=compressed",
                                   " mode=0 mask=2d:nothing", " mode=1 mask=2d:nothing"}) {
            const Call masked = call_of(std::string(sizes) + window);
            if (masked.description.mode == 3 && masked.description.q[0] > 1) continue;
            Call bare = masked;
            bare.description.mask = MaskShape::kNone;
            bare.arguments.atten_mask.reset();
            EXPECT_TRUE(outputs_of(masked) == outputs_of(bare)) << sizes << window;
        }
    }
}

// A row with one visible key gives its value as it is, its score as the maximum, and exactly 1 as the sum.
TEST_P(Types, OneVisibleKey) {
    for (const int64_t key : {int64_t{0}, int64_t{31}, int64_t{255}, int64_t{1024}, int64_t{2999}}) {
        Call call = call_of("layout=BNSD n=4/1 d=40 q=2 kv=3000 mode=1 mask=2d:nothing");
        const Case& c = call.description;
        std::vector<uint8_t>& hidden = call.arguments.atten_mask->values;
        std::fill(hidden.begin(), hidden.begin() + c.kv[0], uint8_t{1});  // of row 0
        hidden[key] = 0;
        const Outputs outputs = outputs_of(call);
        for (int64_t head = 0; head < c.heads; head++) {
            const int64_t row = head * c.q[0];
            EXPECT_EQ(from_bits(DType::kFp32, outputs.sum[row * 8]), 1.0) << "key " << key;
            for (int64_t f = 0; f < c.dv; f++)
                EXPECT_EQ(from_bits(c.dtype, outputs.out[row * c.dv + f]), call.arguments.value.values[key * c.dv + f])
                    << "key " << key << " feature " << f;
        }
        EXPECT_EQ(lines(judge(call, reference::score(call.arguments), outputs)), "");
    }
}

// NaN and infinities in keys and values reach the rows that see them and change no bit of any other.
TEST_P(Types, WhatIsHiddenDoesNotReachARow) {
    for (const char* text : {"layout=BNSD n=4/1 d=40 q=3 kv=2100 mode=1 mask=2d:random",
                             "layout=BNSD n=2/1 d=33 q=5 kv=1500 mode=1 mask=2d:random drop=exact keep=0.5"}) {
        const Call call = call_of(text);
        const Case& c = call.description;
        const Outputs usual = outputs_of(call);
        for (const double special :
             {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
            for (const bool in_value : {true, false}) {
                for (const int64_t key : {int64_t{5}, int64_t{600}, int64_t{1490}}) {
                    Call changed = call;
                    (in_value ? changed.arguments.value : changed.arguments.key).values[key * c.d + c.d - 1] = special;
                    const Outputs outputs = outputs_of(changed);
                    EXPECT_EQ(lines(judge(changed, reference::score(changed.arguments), outputs)), "");
                    for (int64_t row = 0; row < c.heads * c.q[0]; row++) {
                        if (call.arguments.atten_mask->values[row % c.q[0] * c.kv[0] + key] == 0) continue;
                        EXPECT_TRUE(std::equal(usual.out.begin() + row * c.dv, usual.out.begin() + (row + 1) * c.dv,
                                               outputs.out.begin() + row * c.dv) &&
                                    usual.max[row * 8] == outputs.max[row * 8] &&
                                    usual.sum[row * 8] == outputs.sum[row * 8])
                            << "row " << row << " key " << key << "; " << rerun_hint(c);
                    }
                }
            }
        }
    }
}

// Partial results of at most 64 chunks: the workspace grows with the number of chunks up to there, and then no more.
TEST(Workspace, HoldsTheChunksAndNothingLonger) {
    opbase::set_thread_count(2);
    const auto workspace = [](int64_t keys) {
        PreparedCall prepared(make_call(
            parse_case("layout=BNSD n=4/2 d=16 q=2 kv=" + std::to_string(keys) + " strides=k:expand,v:expand")));
        EXPECT_EQ(prepared.phase_one(), 0);
        return static_cast<int64_t>(prepared.workspace_size());
    };
    // A partial result of a row: 16 floats, and the output in whole lines of 16.
    constexpr int64_t kChunk = int64_t{4} * 2 * (16 + 16) * 4;
    EXPECT_EQ(workspace(1024), workspace(1));
    EXPECT_EQ(workspace(1025) - workspace(1024), 2 * kChunk);
    EXPECT_EQ(workspace(65536) - workspace(1024), 64 * kChunk);
    EXPECT_EQ(workspace(65537) - workspace(1024), 33 * kChunk);
    opbase::set_thread_count(0);
}

INSTANTIATE_TEST_SUITE_P(Decode, Types, kAllTypes, type_name);

}  // namespace
}  // namespace flash_attention::testing
