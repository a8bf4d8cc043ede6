// Parts and wholes: rows in pieces, keys in pieces, sequences alone and together, layouts. Where the same sequence is
// computed, the bits must be the same; where the work is cut differently, the results are within their bounds.
#include <algorithm>
#include <cmath>

#include "opbase/parallel.h"
#include "reported.h"

namespace flash_attention::testing {
namespace {

// Rows [q_begin, q_end) of a sequence with its keys [0, kv_end).
struct Piece {
    int64_t sequence, q_begin, q_end, kv_end;
};

// A TND call whose sequences are pieces of another's, which has a mask and no other modifier.
Call call_of_pieces(const Call& whole, const std::vector<Piece>& pieces) {
    const reference::ScoreArguments& a = whole.arguments;
    const std::vector<reference::Sequence> sequences = reference::sequences_of(a);
    Call call;
    call.description = whole.description;
    Case& c = call.description;
    c.q.clear();
    c.kv.clear();
    // Not a copy of the whole: its tensors may be large.
    reference::ScoreArguments& part = call.arguments;
    part.input_layout = a.input_layout;
    part.atten_mask = a.atten_mask;
    part.scale_value = a.scale_value;
    part.pre_tokens = a.pre_tokens;
    part.next_tokens = a.next_tokens;
    part.head_num = a.head_num;
    part.sparse_mode = a.sparse_mode;
    auto append = [](reference::Tensor& to, const reference::Tensor& from, int64_t begin, int64_t end) {
        const int64_t width = from.shape[1] * from.shape[2];
        to.values.insert(to.values.end(), from.values.begin() + begin * width, from.values.begin() + end * width);
    };
    int64_t q_total = 0, kv_total = 0;
    for (const Piece& piece : pieces) {
        const reference::Sequence& s = sequences.at(piece.sequence);
        append(part.query, a.query, s.q_begin + piece.q_begin, s.q_begin + piece.q_end);
        append(part.key, a.key, s.kv_begin, s.kv_begin + piece.kv_end);
        append(part.value, a.value, s.kv_begin, s.kv_begin + piece.kv_end);
        c.q.push_back(piece.q_end - piece.q_begin);
        c.kv.push_back(piece.kv_end);
        part.actual_seq_qlen.push_back(q_total += c.q.back());
        part.actual_seq_kvlen.push_back(kv_total += piece.kv_end);
    }
    part.query.shape = query_shape(c);
    part.key.shape = key_shape(c, c.d);
    part.value.shape = key_shape(c, c.dv);
    return call;
}

// Writes what a call of pieces gave to where it belongs in the whole.
void put_back(const Call& whole, const std::vector<Piece>& pieces, const Outputs& from, Outputs& to) {
    const std::vector<reference::Sequence> sequences = reference::sequences_of(whole.arguments);
    const Case& c = whole.description;
    int64_t row = 0;
    for (const Piece& piece : pieces) {
        const reference::Sequence& s = sequences.at(piece.sequence);
        const int64_t rows = piece.q_end - piece.q_begin;
        for (int64_t i = 0; i < rows; i++) {
            std::copy_n(from.out.begin() + (row + i) * c.heads * c.dv, c.heads * c.dv,
                        to.out.begin() + (s.q_begin + piece.q_begin + i) * c.heads * c.dv);
            for (int64_t n = 0; n < c.heads; n++) {
                const int64_t source = (row * c.heads + n * rows + i) * 8;
                const int64_t target = (s.q_begin * c.heads + n * s.q_len + piece.q_begin + i) * 8;
                std::copy_n(from.max.begin() + source, 8, to.max.begin() + target);
                std::copy_n(from.sum.begin() + source, 8, to.sum.begin() + target);
            }
        }
        row += rows;
    }
}

// Runs the pieces, one call for each list, and compares what they give together with the reference of the whole.
void expect_pieces_are_the_whole(const Call& whole, const std::vector<std::vector<Piece>>& calls) {
    expect_agrees(whole);
    Outputs stitched;
    stitched.out.assign(whole.arguments.query.shape[0] * whole.description.heads * whole.description.dv, 0x7FC0);
    stitched.max.assign(element_count(statistics_shape(whole.description)), 0x7FC00000);
    stitched.sum = stitched.max;
    for (const std::vector<Piece>& pieces : calls) {
        put_back(whole, pieces, outputs_of(call_of_pieces(whole, pieces)), stitched);
    }
    EXPECT_EQ(lines(judge(whole, reference::score(whole.arguments), stitched)), "")
        << "pieces of " << to_string(whole.description);
}

// ASC-41: context parallelism in a zigzag. Each sequence, not the axis of all tokens, is cut in four; one rank takes
// the first and the last quarter.
TEST(Pieces, ASC_41_ZigzagOfEachSequence) {
    for (const char* text : {"layout=TND dtype=fp32 n=2 d=32 q=6,10 kv=6,10 mode=3 mask=compressed",
                             "layout=TND dtype=bf16 n=4/2 d=64 q=64,301,7 kv=64,301,7 mode=3 mask=compressed"}) {
        const Call whole = call_of(text);
        std::vector<std::vector<Piece>> ranks(2);
        for (int64_t sequence = 0; sequence < static_cast<int64_t>(whole.description.q.size()); sequence++) {
            const int64_t length = whole.description.q[sequence];
            for (int64_t quarter = 0; quarter < 4; quarter++) {
                const int64_t begin = length * quarter / 4, end = length * (quarter + 1) / 4;
                if (begin == end) continue;
                ranks[quarter == 0 || quarter == 3 ? 0 : 1].push_back({sequence, begin, end, end});
            }
        }
        expect_pieces_are_the_whole(whole, ranks);
    }
}

// ASC-05: a window and queries that come in chunks against a longer history.
TEST(Pieces, ASC_05_ChunksOfAWindow) {
    const Call whole = call_of(
        "layout=TND dtype=fp16 n=8/4 d=64 q=128,32 kv=1152,288 mode=4 pre=255 next=0 "
        "mask=compressed");
    for (const int64_t chunk : reduced<std::vector<int64_t>>({1, 32, 50}, {30, 50})) {
        std::vector<std::vector<Piece>> calls;
        for (int64_t sequence = 0; sequence < 2; sequence++) {
            const int64_t rows = whole.description.q[sequence], history = whole.description.kv[sequence] - rows;
            for (int64_t begin = 0; begin < rows; begin += chunk) {
                const int64_t end = std::min(rows, begin + chunk);
                calls.push_back({{sequence, begin, end, history + end}});
            }
        }
        expect_pieces_are_the_whole(whole, calls);
    }
}

// DET-05: decoding must give a sequence the same bits alone, between others, and on any number of threads.
TEST(SameBits, DET_05_DecodingAloneAndTogether) {
    // Reduced, the longest one still has several chunks of keys.
    const int64_t sequences = reduced(32, 9), growth = reduced(9, 60);
    std::string lengths, ones;
    for (int64_t b = 0; b < sequences; b++) {
        lengths += (b == 0 ? "" : ",") + std::to_string(100 + growth * b * b);
        ones += b == 0 ? "1" : ",1";
    }
    const Call together =
        call_of("layout=TND dtype=bf16 n=8/1 d=64 mode=3 mask=compressed q=" + ones + " kv=" + lengths);
    const Outputs expected = expect_agrees(together);
    for (const int threads : reduced<std::vector<int>>({1, 8, 64}, {1, 8})) {
        opbase::set_thread_count(threads);
        EXPECT_TRUE(outputs_of(together) == expected) << threads << " threads";
        Outputs alone = expected;
        for (int64_t b = 0; b < sequences; b++) {
            const std::vector<Piece> piece = {{b, 0, 1, together.description.kv[b]}};
            put_back(together, piece, outputs_of(call_of_pieces(together, piece)), alone);
        }
        EXPECT_TRUE(alone == expected) << threads << " threads, each sequence alone";
    }
    opbase::set_thread_count(0);
}

// MLA-03: packed and dense with D != Dv take the same path.
TEST(SameBits, MLA_03_PackedAndDense) {
    const Call packed = call_of(
        "layout=TND dtype=bf16 n=16 d=192 dv=128 q=50,100,1 kv=50,100,1 mode=3 "
        "mask=compressed");
    const Outputs expected = expect_agrees(packed);
    Outputs dense_outputs = expected;
    for (int64_t b = 0; b < 3; b++) {
        const std::vector<Piece> piece = {{b, 0, packed.description.q[b], packed.description.kv[b]}};
        Call dense = call_of_pieces(packed, piece);
        dense.description.layout = dense.arguments.input_layout = "BSND";
        for (reference::Tensor* tensor : {&dense.arguments.query, &dense.arguments.key, &dense.arguments.value}) {
            tensor->shape.insert(tensor->shape.begin(), 1);
        }
        put_back(packed, piece, outputs_of(dense), dense_outputs);
    }
    EXPECT_TRUE(dense_outputs == expected);
}

// FA-27: values that are as wide as the key by zeros give the same numbers, and zeros.
TEST(SameBits, FA_27_ValuesPaddedWithZeros) {
    const Call narrow = call_of("layout=BSND dtype=bf16 n=4 d=192 dv=128 q=200 kv=200 mode=3 mask=compressed");
    Call wide = call_of("layout=BSND dtype=bf16 n=4 d=192 q=200 kv=200 mode=3 mask=compressed");
    wide.arguments.query = narrow.arguments.query;
    wide.arguments.key = narrow.arguments.key;
    set_values(wide, wide.arguments.value, [&](int64_t at) {
        return at % 192 < 128 ? narrow.arguments.value.values[at / 192 * 128 + at % 192] : 0.0;
    });
    const std::vector<double> few = numbers(narrow, expect_agrees(narrow)), many = numbers(wide, expect_agrees(wide));
    const reference::ScoreResult r = reference::score(narrow.arguments);
    for (size_t row = 0; row < r.rows.size(); row++) {
        for (int64_t d = 0; d < 192; d++) {
            const int64_t at = r.rows[row].out_begin + d;
            const double out = many[r.rows[row].out_begin / 128 * 192 + d];
            if (d >= 128) {
                ASSERT_EQ(out, 0);
            } else {
                const double bound = bound_of(Quantity::kOut, DType::kBf16, r.rows[row], r.attention_out.values[at]);
                ASSERT_NEAR(out, few[at], 2 * bound);
            }
        }
    }
    for (const char* layout : {"BSH", "SBH"}) {
        EXPECT_EQ(
            lines(check_case(parse_case(std::string("dtype=bf16 b=2 n=4/2 d=192 dv=128 q=50 kv=60 layout=") + layout))),
            "");
    }
}

// FA-29: padding between sequences is not for packed layouts; each sequence as a view of the padded tensors is.
TEST(Views, FA_29_SequencesInsideOfPaddedTensors) {
    for (const char* text : {"layout=BSND dtype=fp32 n=2 d=16 q=9 kv=13 strides=q:offset,k:offset,v:offset,out:offset",
                             "layout=TND dtype=fp32 n=2 d=16 q=9,4 kv=13,4 strides=q:padded,k:padded,v:padded,"
                             "out:padded,max:padded,sum:padded"}) {
        EXPECT_EQ(lines(check_case(parse_case(text))), "");
    }
}

// What ring attention keeps of a row: output, maximum and sum of some of the keys.
struct Partial {
    double max = 0, sum = 0;
    std::vector<double> out;
};

Partial merged(const Partial& a, const Partial& b) {
    Partial m;
    m.max = std::max(a.max, b.max);
    const double weight_a = a.sum * std::exp(a.max - m.max), weight_b = b.sum * std::exp(b.max - m.max);
    m.sum = weight_a + weight_b;
    for (size_t d = 0; d < a.out.size(); d++) m.out.push_back((a.out[d] * weight_a + b.out[d] * weight_b) / m.sum);
    return m;
}

// The results of a BNSD call, row by row.
std::vector<Partial> partials(const Call& call) {
    const Outputs outputs = expect_agrees(call);
    const std::vector<double> out = numbers(call, outputs);
    std::vector<Partial> rows;
    for (size_t row = 0; row * 8 < outputs.sum.size(); row++) {
        const auto first = out.begin() + static_cast<int64_t>(row) * call.description.dv;
        rows.push_back({from_bits(DType::kFp32, outputs.max[row * 8]), from_bits(DType::kFp32, outputs.sum[row * 8]),
                        std::vector<double>(first, first + call.description.dv)});
    }
    return rows;
}

// The positions [begin, end) of all heads of a tensor [1, N, S, D].
reference::Tensor positions_of(const reference::Tensor& tensor, int64_t begin, int64_t end) {
    reference::Tensor part{{1, tensor.shape[1], end - begin, tensor.shape[3]}, {}};
    for (int64_t n = 0; n < tensor.shape[1]; n++) {
        const auto head = tensor.values.begin() + n * tensor.shape[2] * tensor.shape[3];
        part.values.insert(part.values.end(), head + begin * tensor.shape[3], head + end * tensor.shape[3]);
    }
    return part;
}

// The call for rows [q_begin, q_end) and keys [kv_begin, kv_end) of a BNSD call without or with an explicit mask.
Call block_of(const Call& whole, int64_t q_begin, int64_t q_end, int64_t kv_begin, int64_t kv_end) {
    Call block = whole;
    block.description.q = {q_end - q_begin};
    block.description.kv = {kv_end - kv_begin};
    block.arguments.query = positions_of(whole.arguments.query, q_begin, q_end);
    block.arguments.key = positions_of(whole.arguments.key, kv_begin, kv_end);
    block.arguments.value = positions_of(whole.arguments.value, kv_begin, kv_end);
    if (whole.arguments.atten_mask) {
        const int64_t columns = whole.arguments.atten_mask->shape[3];
        set_mask(block, {1, 1, q_end - q_begin, kv_end - kv_begin}, [&](int64_t, int64_t, int64_t i, int64_t j) {
            return whole.arguments.atten_mask->values[(q_begin + i) * columns + kv_begin + j] != 0;
        });
    }
    return block;
}

// Merged rows are mixtures of the parts' outputs, whose bounds are not above those of the whole. The weights of the
// mixture are the parts' sums times exp of the parts' maxima, each within its bound, of two parts. So four times the
// bound of the whole holds.
void expect_merged(const Call& whole, const std::vector<Partial>& rows) {
    const reference::ScoreResult r = reference::score(whole.arguments);
    ASSERT_EQ(rows.size(), r.rows.size());
    for (size_t row = 0; row < rows.size(); row++) {
        for (int64_t d = 0; d < whole.description.dv; d++) {
            const double expected = r.attention_out.values[r.rows[row].out_begin + d];
            const double bound = 4 * bound_of(Quantity::kOut, whole.description.dtype, r.rows[row], expected);
            ASSERT_NEAR(rows[row].out[d], expected, bound) << "row " << row;
        }
        const double bound = 4 * bound_of(Quantity::kSum, whole.description.dtype, r.rows[row], r.softmax_sum[row]);
        ASSERT_NEAR(rows[row].sum, r.softmax_sum[row], bound) << "row " << row;
    }
}

// ASC-46: a mask cut along rows and keys; one of the blocks hides all of its keys.
TEST(Merged, ASC_46_BlocksOfAMask) {
    constexpr int64_t kLength = 32, kHalf = 16, kHeads = 4;
    for (const char* dtype : {"bf16", "fp16", "fp32"}) {
        Call whole = call_of(std::string("layout=BNSD n=4 d=32 q=32 kv=32 mode=1 mask=b1 dtype=") + dtype);
        set_mask(whole, {1, 1, kLength, kLength},
                 [](int64_t, int64_t, int64_t i, int64_t j) { return j > i || (i + j) % 5 == 1; });
        std::vector<Partial> rows(kHeads * kLength);
        for (const int64_t q : {int64_t{0}, kHalf}) {
            const std::vector<Partial> first = partials(block_of(whole, q, q + kHalf, 0, kHalf)),
                                       second = partials(block_of(whole, q, q + kHalf, kHalf, kLength));
            for (int64_t n = 0; n < kHeads; n++) {
                for (int64_t i = 0; i < kHalf; i++) {
                    rows[n * kLength + q + i] = merged(first[n * kHalf + i], second[n * kHalf + i]);
                }
            }
        }
        expect_merged(whole, rows);
    }
}

// RING-09: a sink that was dropped on the way. It is one more key, so it belongs to one of the parts, whichever.
TEST(Merged, RING_09_SinkOfOnePart) {
    Call whole = call_of("layout=BNSD dtype=fp32 n=2 d=8 q=32 kv=32");
    const Outputs without = outputs_of(whole);
    whole.arguments.sink = {4, -1};
    EXPECT_FALSE(outputs_of(whole) == without);
    for (const int with_sink : {0, 1}) {
        std::vector<Partial> parts[2];
        for (int part = 0; part < 2; part++) {
            Call block = block_of(whole, 0, 32, part * 16, part * 16 + 16);
            if (part != with_sink) block.arguments.sink.clear();
            parts[part] = partials(block);
        }
        std::vector<Partial> rows;
        for (size_t row = 0; row < parts[0].size(); row++) rows.push_back(merged(parts[0][row], parts[1][row]));
        expect_merged(whole, rows);
    }
}

}  // namespace
}  // namespace flash_attention::testing
