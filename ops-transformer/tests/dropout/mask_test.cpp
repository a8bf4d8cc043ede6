// The mask operators through their C interface: which bits they write.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>

#include "dropout_gen_mask/reference/mask.h"
#include "mask_call.h"
#include "opbase/parallel.h"

namespace dropout_gen_mask::testing {
namespace {

using reference::mask;

constexpr aclDataType kTypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};

std::string hex(const std::vector<uint8_t>& bytes) {
    std::string text;
    for (const uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
    return text;
}

std::vector<uint8_t> bytes_of(const MaskCall& call) {
    const MaskResult result = run(call);
    EXPECT_EQ(result.phase_one, 0) << result.text;
    EXPECT_EQ(result.phase_two, 0) << result.text;
    return result.bytes;
}

TEST(Masks, KnownAnswers) {
    struct Answer {
        int64_t seed, offset;
        double prob;
        const char* bytes[3];  // by type
    };
    const Answer answers[] = {
        {2,
         0,
         0.1,
         {"fffbfb7fffffff93edff79eefefcffff", "ffefffffffdfffbbffdbfdffffffbfff", "7f7fbf9dddfeeb7bffff67ffffffffff"}},
        {2,
         0,
         0.5,
         {"9b1ab91c341f9f938974212256301f75", "2bcf45d2d59b04132f19f5cfc472aae3", "2f072e1459440912f42d6484da77d985"}},
        {0,
         0,
         0.1,
         {"f7ffffff7ff7fffffffffffefffdefeb", "fbfffffdffffeddf7efff7feffffddff", "ff7fffffffebffdffbfffbef5fefdfbf"}},
        {2,
         12,
         0.1,
         {"ff7ddef7fefdffffffbbffffefffeff7", "ffffefffffffff3ef7feffeffffeff7b", "dfffffd7fdef9fbf5fbe7ffffffff67f"}},
    };
    for (const Answer& answer : answers) {
        for (int type = 0; type < 3; type++) {
            MaskCall call = call_of(128, answer.prob, answer.seed, answer.offset, kTypes[type]);
            EXPECT_EQ(hex(bytes_of(call)), answer.bytes[type]);
            call.version = Version::kV2Tensor;
            call.seed_in_tensor = answer.seed;
            call.offset_in_tensor = 5;
            call.offset = answer.offset - 5;
            EXPECT_EQ(hex(bytes_of(call)), answer.bytes[type]) << "seed and offset in tensors";
        }
        MaskCall call = call_of(128, answer.prob, answer.seed, answer.offset, ACL_BF16);
        call.version = Version::kV1;
        EXPECT_EQ(hex(bytes_of(call)), answer.bytes[0]) << "the first version has no type";
    }
}

// 0.1 is no multiple of 1/128, and 0.3 rounds up in one type and down in another.
TEST(Masks, RandomCallsAgreeWithPlainLoops) {
    constexpr uint64_t kSeed = 3;
    std::mt19937_64 random(kSeed);
    std::cout << "seed " << kSeed << "\n";
    for (int i = 0; i < 120; i++) {
        const auto bits = static_cast<int64_t>(random() % 3000);
        const double probs[] = {0.1, 0.3, 0.5, 1.0 / 128, 0.9999, 1e-5, static_cast<double>(random() % 1000) / 1000};
        MaskCall call = call_of(bits, probs[random() % 7], static_cast<int64_t>(random()),
                                i % 3 == 0 ? static_cast<int64_t>(random()) : static_cast<int64_t>(random() % 64),
                                kTypes[random() % 3]);
        EXPECT_EQ(bytes_of(call), mask(call.seed, call.offset, call.prob, call.dtype, 0, padded_bytes(bits)))
            << "call " << i << ": " << bits << " bits, prob " << call.prob;
    }
}

TEST(Masks, CertainProbabilitiesFillThePaddingToo) {
    for (const Version version : kVersions) {
        for (const double prob : {0.0, 1.0, -0.0}) {
            MaskCall call = call_of(130, prob, 9, 8, ACL_FLOAT);
            call.version = version;
            EXPECT_EQ(bytes_of(call), std::vector<uint8_t>(32, prob == 1 ? 0 : 0xFF));
        }
    }
}

TEST(Masks, SizeDoesNotChangeBits) {
    const std::vector<uint8_t> whole = bytes_of(call_of(1 << 20, 0.2, 5, 4, ACL_FLOAT16));
    for (const int64_t bits : {1, 127, 128, 129, 131072, 131073, 1000000}) {
        const std::vector<uint8_t> part = bytes_of(call_of(bits, 0.2, 5, 4, ACL_FLOAT16));
        EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin())) << bits;
    }
    MaskCall call = call_of(1 << 20, 0.2, 5, 4, ACL_FLOAT16);
    call.shape = std::vector<int64_t>{4, 1 << 9, 1 << 9};
    call.out->shape = {2, 1 << 16};
    EXPECT_EQ(bytes_of(call), whole) << "shapes do not count";
}

TEST(Masks, SameBitsForAnyNumberOfThreads) {
    const MaskCall call = call_of(1'000'001, 0.3, 11, 13, ACL_BF16);
    opbase::set_thread_count(1);
    const std::vector<uint8_t> one = bytes_of(call);
    for (int threads = 2; threads <= 8; threads++) {
        opbase::set_thread_count(threads);
        EXPECT_EQ(bytes_of(call), one) << threads;
    }
    opbase::set_thread_count(0);
    for (int again = 1; again < 20; again++) EXPECT_EQ(bytes_of(call), one) << "run " << again;
    EXPECT_EQ(bytes_of(call), mask(11, 13, 0.3, ACL_BF16, 0, padded_bytes(1'000'001)));
}

TEST(Masks, ViewsWithGaps) {
    MaskCall call = call_of(500, 0.4, 3, 4, ACL_FLOAT);
    const std::vector<uint8_t> expected = bytes_of(call);
    call.out = TensorSpec{.shape = {4, 16}, .dtype = ACL_UINT8, .strides = {40, 2}, .offset = 5};
    EXPECT_EQ(bytes_of(call), expected);
    call.out = TensorSpec{.shape = {64}, .dtype = ACL_UINT8, .offset = 3};
    EXPECT_EQ(bytes_of(call), expected) << "bytes at an odd address";
}

// Numbers of all types, of which the content of phase two counts.
TEST(Masks, NumbersOnTheDevice) {
    for (const aclDataType dtype : {ACL_INT64, ACL_UINT64, ACL_INT32, ACL_UINT32}) {
        for (const int64_t number : {int64_t{0}, int64_t{7}, int64_t{-3}, int64_t{0x123456789ABCDEF}}) {
            MaskCall call = call_of(256, 0.4, 0, -9, ACL_FLOAT16);
            call.version = Version::kV2Tensor;
            call.seed_tensor->dtype = dtype;
            call.offset_tensor = TensorSpec{.shape = {}, .dtype = dtype};  // a scalar
            call.seed_tensor = TensorSpec{.shape = {1, 1}, .dtype = dtype, .offset = 1};
            int64_t seen = number;
            if (dtype == ACL_INT32) seen = static_cast<int32_t>(number);
            if (dtype == ACL_UINT32) seen = static_cast<uint32_t>(number);
            const auto write = [&](Operand& seed, Operand& offset) {
                if (aclDataTypeSize(dtype) == 4) {
                    seed.write(std::vector<uint32_t>{static_cast<uint32_t>(number)});
                    offset.write(std::vector<uint32_t>{static_cast<uint32_t>(number)});
                } else {
                    seed.write(std::vector<int64_t>{number});
                    offset.write(std::vector<int64_t>{number});
                }
            };
            call.seed_in_tensor = 1;  // of phase one
            const MaskResult result = run(call, write);
            EXPECT_EQ(result.phase_two, 0) << result.text;
            EXPECT_EQ(result.bytes, mask(seen, static_cast<uint64_t>(seen) - 9, 0.4, ACL_FLOAT16, 0, 32))
                << dtype << " " << number;
        }
    }
}

TEST(Masks, AnotherTableOrAnUnknownOne) {
    const MaskCall call = call_of(1000, 0.3, 1, 2, ACL_FLOAT);
    const char* before = std::getenv("ASCEND_CPU_ISA");
    const std::string asked = before == nullptr ? "" : before;
    setenv("ASCEND_CPU_ISA", "neither", 1);
    const MaskResult refused = run(call);
    EXPECT_EQ(refused.phase_one, 561000);
    EXPECT_NE(refused.text.find("\"neither\""), std::string::npos) << refused.text;
    EXPECT_TRUE(refused.untouched);
    setenv("ASCEND_CPU_ISA", asked.c_str(), 1);
    EXPECT_EQ(bytes_of(call), mask(1, 2, 0.3, ACL_FLOAT, 0, padded_bytes(1000)));
}

}  // namespace
}  // namespace dropout_gen_mask::testing
