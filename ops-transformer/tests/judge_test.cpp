// The judge judged: right results pass, and each kind of wrong result or broken promise is found.
#include "testing/judge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>

#include "allocation_counter.h"

namespace flash_attention::testing {
namespace {

// What an operator without errors of its own would write.
Outputs ideal(const Call& call, const reference::ScoreResult& r) {
    Outputs outputs;
    for (const double value : r.attention_out.values) outputs.out.push_back(to_bits(call.description.dtype, value));
    for (size_t row = 0; row < r.rows.size(); row++) {
        outputs.max.insert(outputs.max.end(), 8, to_bits(DType::kFp32, r.softmax_max[row]));
        outputs.sum.insert(outputs.sum.end(), 8, to_bits(DType::kFp32, r.softmax_sum[row]));
    }
    return outputs;
}

struct Judged {
    Call call;
    reference::ScoreResult expected;
    Outputs outputs;

    explicit Judged(const char* text) : call(make_call(parse_case(text))), expected(reference::score(call.arguments)) {
        outputs = ideal(call, expected);
    }
    std::vector<std::string> verdict() const { return judge(call, expected, outputs); }
    void set_out(size_t at, double value) { outputs.out[at] = to_bits(call.description.dtype, value); }
    double out(size_t at) const { return expected.attention_out.values[at]; }
};

constexpr const char* kTypical[] = {
    "layout=BSND dtype=fp32 n=2/1 d=16 q=9 kv=17 mode=3 mask=compressed",
    "layout=BNSD dtype=fp16 b=2 n=2 d=33 dv=7 q=17 kv=9 mode=1 mask=2d:rows",
    "layout=TND dtype=bf16 n=2 d=64 q=3,0,5 kv=7,2,0 tail=1 slack=2/1 mask=none",
};

TEST(Judge, AcceptsTheRoundedReference) {
    for (const char* text : kTypical) {
        const Judged j(text);
        EXPECT_EQ(lines(j.verdict()), "") << text;
    }
}

TEST(Judge, FindsAWrongElement) {
    for (const char* text : kTypical) {
        for (const double error : {0.05, -0.05}) {
            Judged j(text);
            j.set_out(1, j.out(1) + error);
            EXPECT_EQ(j.verdict().size(), 1U) << text;
        }
        for (const auto statistics : {&Outputs::max, &Outputs::sum}) {
            Judged j(text);
            for (int copy = 0; copy < 8; copy++) {
                uint32_t& bits = (j.outputs.*statistics)[copy];
                bits = to_bits(DType::kFp32, from_bits(DType::kFp32, bits) * 1.001 + 1e-3);
            }
            EXPECT_EQ(j.verdict().size(), 1U) << text;
        }
    }
}

TEST(Judge, FindsADifferingCopy) {
    Judged j(kTypical[0]);
    j.outputs.sum[5] ^= 1;
    EXPECT_EQ(j.verdict().size(), 1U);
    EXPECT_NE(j.verdict()[0].find("copies"), std::string::npos);
}

TEST(Judge, DemandsExactValuesInRowsWithoutKeys) {
    Judged j(kTypical[2]);  // the last sequence has rows but no keys
    const size_t row = j.expected.rows.size() - 1;
    ASSERT_EQ(j.expected.rows[row].kind, reference::RowKind::kNothing);
    j.set_out(j.expected.rows[row].out_begin, 1e-30);
    EXPECT_EQ(j.verdict().size(), 1U);
}

// A row that sees nothing but a sink has its maximum, a sum of 1 and an output of 0, to the bit.
TEST(Judge, DemandsExactValuesInRowsWithNothingButASink) {
    const char* text = "layout=BSND dtype=fp32 n=2 d=16 q=9 kv=7 mode=3 mask=compressed sink=normal";
    const size_t head = 1, row = head * 9;  // row 0 of 9 sees none of 7 keys
    Judged j(text);
    ASSERT_EQ(j.expected.rows[row].visible, 0);
    EXPECT_EQ(from_bits(DType::kFp32, j.outputs.sum[row * 8]), 1.0);
    EXPECT_EQ(from_bits(DType::kFp32, j.outputs.max[row * 8]), j.call.arguments.sink[head]);
    EXPECT_EQ(lines(j.verdict()), "");
    j.set_out(j.expected.rows[row].out_begin, 1e-30);
    EXPECT_EQ(j.verdict().size(), 1U);
    for (const auto statistics : {&Outputs::max, &Outputs::sum}) {
        Judged changed(text);
        for (size_t copy = 0; copy < 8; copy++) (changed.outputs.*statistics)[row * 8 + copy] ^= 1;
        EXPECT_EQ(changed.verdict().size(), 1U);
    }
}

// Statistics are judged in the order in which they are stored.
TEST(Judge, KnowsBothLayoutsOfTheStatistics) {
    Judged j("layout=TND dtype=fp32 n=2 d=16 q=3,4 kv=5,6 slack=2/0 stats=same_as_input");
    EXPECT_EQ(lines(j.verdict()), "");
    j.call = make_call(parse_case("layout=TND dtype=fp32 n=2 d=16 q=3,4 kv=5,6 slack=2/0"));
    j.expected = reference::score(j.call.arguments);
    EXPECT_FALSE(j.verdict().empty());
}

TEST(Judge, ComparesPatternsOfNan) {
    Judged j(kTypical[0]);
    j.set_out(0, std::nan(""));
    EXPECT_EQ(j.verdict().size(), 1U);
    j.expected.attention_out.values[0] = std::nan("");
    EXPECT_EQ(lines(j.verdict()), "");
    j.set_out(0, 1.0);
    EXPECT_EQ(j.verdict().size(), 1U);
}

TEST(Judge, RefusesOutputsOfAnotherSize) {
    Judged j(kTypical[0]);
    j.outputs.out.pop_back();
    EXPECT_EQ(j.verdict().size(), 1U);
}

// The bounds by hand for one row: A = 2, 1024 visible keys, values up to 3.
TEST(Judge, BoundsAreTheStatedOnes) {
    reference::Row row;
    row.kind = reference::RowKind::kOrdinary;
    row.conditioning = 2;
    row.visible = 1024;
    row.largest_value = 3;
    const double factor = (40 + 4 * 2 + 2) * 0x1p-24;
    EXPECT_NEAR(bound_of(Quantity::kOut, DType::kFp32, row, 1.0), factor * 3, 1e-20);
    EXPECT_NEAR(bound_of(Quantity::kOut, DType::kBf16, row, 1.0), factor * 3 + 1.25 * 0x1p-8 * 3 + 0x1p-8, 1e-12);
    EXPECT_NEAR(bound_of(Quantity::kOut, DType::kFp16, row, 1.0), factor * 3 + 1.25 * 0x1p-11 * 3 + 0x1p-11 + 0x1p-25,
                1e-12);
    EXPECT_NEAR(bound_of(Quantity::kSum, DType::kFp32, row, 100.0), factor * 100, 1e-20);
    EXPECT_NEAR(bound_of(Quantity::kSum, DType::kFp16, row, 100.0), (factor + 1e-4) * 100, 1e-12);
    EXPECT_NEAR(bound_of(Quantity::kMax, DType::kFp32, row, 1.5), 4 * 0x1p-23 + 4 * 0x1p-24, 1e-20);
}

TEST(Judge, RemembersTheWorstCase) {
    Accuracy accuracy;
    const Case c = parse_case(kTypical[1]);
    accuracy.note(c, Quantity::kOut, 1.0, 4.0);
    accuracy.note(c, Quantity::kOut, 3.0, 4.0);
    accuracy.note(c, Quantity::kOut, 2.0, 4.0);
    EXPECT_EQ(accuracy.worst(DType::kFp16, Quantity::kOut).ratio, 0.75);
    EXPECT_EQ(accuracy.worst(DType::kFp16, Quantity::kOut).elements, 3);
    EXPECT_NE(accuracy.table().find(kTypical[1]), std::string::npos);
    accuracy.note(c, Quantity::kMax, 1.0, 0.0);  // no error is allowed, and there is one
    EXPECT_EQ(accuracy.worst(DType::kFp16, Quantity::kMax).ratio, INFINITY);
}

TEST(Runner, NoticesBrokenPromises) {
    const Call call =
        make_call(parse_case("layout=BSND n=1 d=4 q=2 kv=2 mask=2d:nothing strides=out:padded,max:every2"));
    auto broken_by = [&call](Argument argument, int64_t byte) {
        PreparedCall prepared(call);
        static_cast<uint8_t*>(prepared.address(argument))[byte] ^= 0x10;
        return lines(prepared.broken_promises());
    };
    EXPECT_EQ(lines(PreparedCall(call).broken_promises()), "");
    EXPECT_EQ(broken_by(kQuery, 0), "changed the input query\n");
    EXPECT_EQ(broken_by(kMask, 3), "changed the input attenMask\n");
    EXPECT_EQ(broken_by(kOut, 0), "");  // an element of the view
    EXPECT_EQ(broken_by(kOut, 4 * 4), "wrote element 4 of the storage of attentionOut, which is not in the view\n");
    EXPECT_EQ(broken_by(kMax, 4), "wrote element 1 of the storage of softmaxMax, which is not in the view\n");
    EXPECT_EQ(broken_by(kSum, -1), "wrote outside of the storage of softmaxSum\n");
    EXPECT_EQ(broken_by(kSum, 2 * 8 * 4), "wrote outside of the storage of softmaxSum\n");
}

TEST(Runner, NoticesChangedModifiers) {
    auto broken_by = [](const char* text, Argument argument) {
        PreparedCall prepared(make_call(parse_case(text)));
        static_cast<uint8_t*>(prepared.address(argument))[0] ^= 0x10;
        return lines(prepared.broken_promises());
    };
    const char* dense = "layout=BSND n=1 d=4 q=2 kv=2 pse=1:full drop=exact sink=normal strides=pse:every2,sink:offset";
    EXPECT_EQ(broken_by(dense, kPse), "changed the input realShift\n");
    EXPECT_EQ(broken_by(dense, kDrop), "changed the input dropMask\n");
    EXPECT_EQ(broken_by(dense, kSink), "changed the input sink\n");  // a gap in the storage counts too
    const char* packed = "layout=TND dtype=bf16 n=1 d=4 q=2 kv=2 rope=2 mode=3 mask=compressed";
    EXPECT_EQ(broken_by(packed, kQueryRope), "changed the input queryRope\n");
    EXPECT_EQ(broken_by(packed, kKeyRope), "changed the input keyRope\n");
}

// Arguments that were added to a call after it was made choose the version; one that lacks them is not called.
TEST(Runner, ChoosesTheVersionByTheArguments) {
    Call call = make_call(parse_case("layout=BSND n=1 d=4 q=2 kv=2"));
    EXPECT_EQ(name_of(PreparedCall(call).version()), "Score");
    call.arguments.sink = {0.5};
    EXPECT_EQ(name_of(PreparedCall(call).version()), "ScoreV3");
    call.description.version = version_of(parse_case("version=ScoreV2"));
    EXPECT_THROW(PreparedCall{call}, std::logic_error);
}

TEST(Runner, CountsAllocations) {
    // Direct calls, which a compiler must not remove; the counts are read before the macros allocate their messages.
    const uint64_t before = opbase::testing::allocation_count();
    operator delete(operator new(4));
    operator delete[](operator new[](100));
    operator delete (operator new (64, std::align_val_t{64}), std::align_val_t{64});
    const uint64_t after = opbase::testing::allocation_count();
    EXPECT_EQ(after - before, 3U);
    // Libraries call the same operator: creating a tensor allocates.
    const int64_t shape[] = {1};
    const uint64_t before_tensor = opbase::testing::allocation_count();
    aclDestroyTensor(aclCreateTensor(shape, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape, 1, nullptr));
    const uint64_t after_tensor = opbase::testing::allocation_count();
    EXPECT_GT(after_tensor, before_tensor);
}

}  // namespace
}  // namespace flash_attention::testing
