// The forms of a bias against each other: whatever can be said in two forms gives the same result.
#include "metamorphic.h"
#include "testing/reduced.h"

namespace flash_attention::testing {
namespace {

// The same call with another bias tensor. `shape` only says which form it is.
Call with_bias(const Call& from, PseShape shape, int64_t type, reference::Tensor bias) {
    Call call = from;
    call.description.pse = shape;
    call.description.pse_type = call.arguments.pse_type = type;
    call.arguments.real_shift = std::move(bias);
    if (type < 2) call.arguments.q_start_idx = call.arguments.kv_start_idx = {};
    return call;
}

// A full bias, flat for TND, from a function of sequence, head, row and key.
template <class Value>
reference::Tensor full_bias(const Call& call, Value value) {
    const Case& c = call.description;
    reference::Tensor bias;
    for (const reference::Sequence& s : reference::sequences_of(call.arguments)) {
        for (int64_t n = 0; n < c.heads; n++) {
            for (int64_t i = 0; i < s.q_len; i++) {
                for (int64_t j = 0; j < s.kv_len; j++) bias.values.push_back(value(s, n, i, j));
            }
        }
    }
    bias.shape = c.varlen() ? std::vector<int64_t>{static_cast<int64_t>(bias.values.size())}
                            : std::vector<int64_t>{c.batch, c.heads, c.q[0], c.kv[0]};
    return bias;
}

// A bias that depends on j - i only: the compressed tensor means the same as the full one, which has values of its own.
TEST_P(Types, CompressedAlibiIsTheFullOne) {
    // More than 1024 rows are dear: reduced, each layout has one of the types.
    const std::pair<const char*, const char*> cases[] = {
        {"layout=BSND b=2 n=1 d=8 q=1030 kv=1030 mode=3 mask=compressed", reduced("01", "0")},
        {"layout=BNSD n=2/1 d=8 q=1090 kv=1090 mode=2 mask=compressed", reduced("01", "1")},
        {"layout=SBH n=1 d=8 q=1030 kv=1030 next=0 mask=2d:nothing", reduced("01", "1")},
        {"layout=TND n=2 d=8 q=65,0,200 kv=65,0,200 mode=3 mask=compressed", "01"},
        {"layout=TND n=1 d=8 q=65,1100,9 kv=65,1100,9 mode=4 next=0 mask=compressed", reduced("01", "0")},
    };
    for (const auto& [text, types] : cases) {
        for (const char type : std::string(types)) {
            const std::string form = std::string(text) + " pse=" + type;
            const Call full = call_of(form + ":full:alibi");
            const Outputs expected = outputs_of(full);
            expect_within_bounds(full, expected, outputs_of(call_of(form + ":compressed:alibi")));
        }
    }
    // One for all batch entries is that of the first.
    const char* text = "layout=BSND n=2/1 d=8 q=1100 kv=1100 mode=3 mask=compressed pse=1:";
    EXPECT_TRUE(outputs_of(call_of(text + std::string("compressed:alibi"))) ==
                outputs_of(call_of(text + std::string("compressed1:alibi"))));
}

// Of a compressed bias of any values the rule says which one is read: row i of S reads its own stored row if it is
// among the last 1024, else row i mod 1024 at the same distance from the diagonal.
TEST_P(Types, CompressedBiasReadsTheRowsOfTheRule) {
    const Call compressed = call_of("layout=BSND b=2 n=2/1 d=8 q=1100 kv=1100 mode=3 mask=compressed pse=1:compressed");
    constexpr int64_t kLength = 1100, kStored = 1024, kFirst = kLength - kStored;
    const std::vector<double>& stored = compressed.arguments.real_shift->values;
    const Call full =
        with_bias(compressed, PseShape::kFull, 1,
                  full_bias(compressed, [&](const reference::Sequence& s, int64_t n, int64_t i, int64_t j) {
                      const int64_t row = i < kFirst ? i % kStored : i - kFirst;
                      const int64_t distance = j - i, column = distance + kFirst + row;
                      return column < kLength ? stored[((s.index * 2 + n) * kStored + row) * kLength + column] : 0.0;
                  }));
    expect_within_bounds(full, outputs_of(full), outputs_of(compressed));
}

TEST_P(Types, RowIsAFullBiasWithEqualRows) {
    for (const char* text : {
             "layout=BSND b=2 n=4/2 d=64 q=70 kv=150 pse=1:row:minus_inf",
             "layout=SBH b=2 n=2 d=33 q=150 kv=70 mode=3 mask=compressed pse=0:row",
             "layout=TND n=2 d=33 q=150,65,0,3 kv=70,65,9,0 pse=0:row:large",
         }) {
        const Call row = call_of(text);
        const Case& c = row.description;
        const std::vector<double>& values = row.arguments.real_shift->values;
        auto value = [&](const reference::Sequence& s, int64_t n, int64_t, int64_t j) {
            const int64_t before = c.varlen() ? s.kv_begin : s.index * s.kv_len;
            return values[c.heads * before + n * s.kv_len + j];
        };
        const Call full = with_bias(row, PseShape::kFull, c.pse_type, full_bias(row, value));
        expect_within_bounds(full, outputs_of(full), outputs_of(row));
    }
}

// A first dimension of 1 serves all batch entries.
TEST_P(Types, OneMatrixForAllIsItsRepetition) {
    for (const char* form : {"full1", "row1"}) {
        const Call one = call_of(std::string("layout=BNSD b=3 n=2 d=33 q=70 kv=150 pse=1:") + form);
        reference::Tensor bias = *one.arguments.real_shift;
        const std::vector<double> matrix = bias.values;
        bias.shape[0] = 3;
        for (int copy = 1; copy < 3; copy++) bias.values.insert(bias.values.end(), matrix.begin(), matrix.end());
        const Call repeated = with_bias(one, PseShape::kFull, 1, bias);
        EXPECT_TRUE(outputs_of(one) == outputs_of(repeated)) << rerun_hint(one.description);
    }
}

// In TND a tensor of any shape with as many elements is the flat one.
TEST_P(Types, AnyShapeIsTheFlatOne) {
    for (const char* form : {"full", "row"}) {
        const std::string text = std::string("layout=TND n=2 d=33 q=150,65 kv=70,65 pse=0:") + form;
        EXPECT_TRUE(outputs_of(call_of(text)) == outputs_of(call_of(text + "_any"))) << text;
    }
}

// Slopes make the bias that a tensor could hold. Powers of two times whole distances up to 255 are numbers of all three
// types, so that both calls add exactly the same.
TEST_P(Types, SlopesAreTheTensorTheyGenerate) {
    for (const char* text : {
             "layout=BSND b=2 n=4/2 d=64 q=150 kv=150 pse=2:slopes",
             "layout=BNSD b=2 n=4/2 d=64 q=150 kv=150 mode=3 mask=compressed pse=2:slopes1",
             "layout=SBH b=2 n=2 d=33 q=100 kv=100 pse=2:slopes q_start=120 kv_start=-30",
             "layout=TND n=2 d=33 q=150,65,0,3 kv=70,65,9,0 pse=2:slopes q_start=3 kv_start=90",
             "layout=TND n=2 d=33 q=150,65,3 kv=70,65,3 mode=8 pre=70 next=90 mask=compressed pse=2:slopes q_start=-60 "
             "kv_start=20",
             "layout=TND n=2 d=33 q=150,65 kv=70,65 pse=2:slopes1 q_start=90",  // one list alone has no effect
         }) {
        Call slopes = call_of(text);
        const Case& c = slopes.description;
        reference::Tensor& tensor = *slopes.arguments.real_shift;
        for (size_t i = 0; i < tensor.values.size(); i++)
            tensor.values[i] = std::ldexp(i % 3 == 1 ? -1.0 : 1.0, -2 - static_cast<int>(i));
        auto value = [&](const reference::Sequence& s, int64_t n, int64_t i, int64_t j) {
            const bool both = !c.q_start.empty() && !c.kv_start.empty();
            const bool shifted = both && (c.mode != 8 || s.index == 0);
            const int64_t distance = std::abs(shifted ? j + c.kv_start[0] - i - c.q_start[0] : j - i);
            EXPECT_LT(distance, 256);
            const int64_t of_batch = tensor.shape.size() == 2 ? s.index * c.heads : 0;
            return -tensor.values[of_batch + n] * static_cast<double>(distance);
        };
        const Call full = with_bias(slopes, PseShape::kFull, 0, full_bias(slopes, value));
        expect_within_bounds(full, outputs_of(full), outputs_of(slopes));
    }
}

// Square roots are rounded in the tensor (to fp32, by one roundoff of the bias, which A includes), so that this needs
// elements of fp32.
TEST(SquareRootSlopes, AreTheTensorTheyGenerate) {
    for (const char* text : {
             "layout=BSND dtype=fp32 b=2 n=4/2 d=64 q=150 kv=150 pse=3:slopes",
             "layout=TND dtype=fp32 n=2 d=33 q=150,65,0,3 kv=70,65,9,0 pse=3:slopes1 q_start=3 kv_start=90",
         }) {
        const Call slopes = make_call(parse_case(text));
        const Case& c = slopes.description;
        const reference::Tensor& tensor = *slopes.arguments.real_shift;
        auto value = [&](const reference::Sequence& s, int64_t n, int64_t i, int64_t j) {
            const int64_t distance = std::abs(c.varlen() ? j + 90 - i - 3 : j - i);
            const int64_t of_batch = tensor.shape.size() == 2 ? s.index * c.heads : 0;
            return rounded(DType::kFp32, -tensor.values[of_batch + n] * std::sqrt(static_cast<double>(distance)));
        };
        const Call full = with_bias(slopes, PseShape::kFull, 0, full_bias(slopes, value));
        expect_within_bounds(full, outputs_of(full), outputs_of(slopes), 2);
    }
}

// A bias of minus infinity takes its key away as a mask does; a row without any other key is a hidden row.
TEST_P(Types, MinusInfinityIsAMask) {
    for (const char* text : {
             "layout=BSND b=2 n=2 d=64 q=70 kv=150 mode=1 mask=bn:rows",
             "layout=SBH b=2 n=2 d=33 q=150 kv=70 mode=1 mask=bn:blocks values=hidden_nan",
             "layout=TND n=2 d=33 q=150,65,3 kv=70,65,130 mode=1 mask=bn:random",
         }) {
        for (const int64_t type : {0, 1}) {
            const Call masked = call_of(text);
            auto value = [&](const reference::Sequence& s, int64_t n, int64_t i, int64_t j) {
                return reference::sees(masked.arguments, s, n, i, j) ? 0.0 : -INFINITY;
            };
            Call biased = with_bias(masked, PseShape::kFull, type, full_bias(masked, value));
            biased.arguments.atten_mask.reset();
            expect_within_bounds(masked, outputs_of(masked), outputs_of(biased));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Bias, Types, kAllTypes, type_name);

}  // namespace
}  // namespace flash_attention::testing
