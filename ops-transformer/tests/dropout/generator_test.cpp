// The generator of every kernel table against plain loops: any range of bits alone, at any place of the stream.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "dropout_gen_mask/generator/mask_bits.h"
#include "dropout_gen_mask/reference/mask.h"
#include "kernels/dispatch.h"

namespace dropout_gen_mask::testing {
namespace {

using reference::mask, reference::philox, reference::round_prob;

constexpr struct {
    aclDataType dtype;
    Precision precision;
} kTypes[] = {{ACL_FLOAT, Precision::kF32}, {ACL_FLOAT16, Precision::kF16}, {ACL_BF16, Precision::kBf16}};

// The published answers of Philox4x32-10.
TEST(Philox, KnownAnswers) {
    using Words = std::array<uint32_t, 4>;
    EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    EXPECT_EQ(philox({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The words themselves, where a counter of all ones or of many digits shows a half that is lost.
TEST(Philox, BlocksOfTheGenerator) {
    using dropout_gen_mask::portable::all_lanes;
    const uint64_t block[] = {0, 1, 0x85a308d3243f6a88, ~uint64_t{0}};
    const uint64_t numbers[] = {0, 5, 0x0370734413198a2e, ~uint64_t{0}, 0x299f31d0a4093822};
    for (const uint64_t seed : numbers) {
        for (const uint64_t offset : numbers) {
            const dropout_gen_mask::portable::MaskBits bits({seed, offset, 0, 0});
            for (const uint64_t number : block) {
                const auto words = bits.random_block(all_lanes(number));
                for (int i = 0; i < 4; i++)
                    EXPECT_EQ(static_cast<uint32_t>(words.word[i][0]),
                              philox({static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32),
                                      static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32)},
                                     {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)})[i]);
            }
        }
    }
}

std::vector<std::string> tables() {
    std::vector<std::string> names;
    for (const char* name : {"avx512_bf16", "avx512", "avx2", "portable"}) {
        setenv("ASCEND_CPU_ISA", name, 1);
        try {
            names.emplace_back(flash_attention::kernels().name);
        } catch (const flash_attention::UnavailableKernels&) {
            // this machine lacks it
        }
    }
    unsetenv("ASCEND_CPU_ISA");
    return names;
}

flash_attention::FillMaskKernel fill_of(const std::string& table) {
    setenv("ASCEND_CPU_ISA", table.c_str(), 1);
    const flash_attention::FillMaskKernel fill = flash_attention::kernels().fill_mask;
    unsetenv("ASCEND_CPU_ISA");
    return fill;
}

TEST(Generator, AnyRangeIsAPartOfTheWhole) {
    constexpr uint64_t kSeed = 1;
    constexpr int kRanges = 400;
    std::mt19937_64 random(kSeed);
    std::cout << "seed " << kSeed << "\n";
    ASSERT_FALSE(tables().empty());
    for (const std::string& table : tables()) {
        const flash_attention::FillMaskKernel fill = fill_of(table);
        for (int i = 0; i < kRanges; i++) {
            const auto& type = kTypes[random() % 3];
            const uint64_t seed = random(), offset = i % 2 == 0 ? random() % 100 : random();
            const double prob = static_cast<double>(random() % 1001) / 1000;
            // Beginnings at the start, behind 2^34 bits where the counter of blocks needs more than 32 bits, and near
            // the largest number.
            const uint64_t origins[] = {0, (uint64_t{1} << 34) - 70, uint64_t{1} << 40, (uint64_t{1} << 62)};
            const auto first = static_cast<int64_t>(origins[random() % 4] + random() % 200);
            const auto count = static_cast<int64_t>(1 + random() % 1100);
            std::vector<uint8_t> got((count + 7) / 8 + 2, 0xA5);
            fill(make_stream(seed, offset, prob, type.precision), first, count, got.data() + 1);
            std::vector<uint8_t> expected = mask(seed, offset, prob, type.dtype, first, (count + 7) / 8);
            expected.insert(expected.begin(), 0xA5);  // nothing is written outside
            expected.push_back(0xA5);
            ASSERT_EQ(got, expected) << table << " range " << i << ": bits " << first << " + " << count << ", seed "
                                     << seed << ", offset " << offset << ", prob " << prob;
        }
    }
}

// Tiles of scores: rows that begin anywhere and end where words end.
TEST(Generator, RowsOfATile) {
    constexpr uint64_t kSeed = 2;
    std::mt19937_64 random(kSeed);
    std::cout << "seed " << kSeed << "\n";
    for (int i = 0; i < 100; i++) {
        const auto& type = kTypes[random() % 3];
        const uint64_t seed = random(), offset = random() % 50;
        const auto first = static_cast<int64_t>(random() % 5000), stride = static_cast<int64_t>(random() % 3000);
        const auto rows = static_cast<int64_t>(1 + random() % 9), words = static_cast<int64_t>(1 + random() % 3);
        std::vector<uint64_t> got(rows * words + 1, 77);
        const dropout_gen_mask::portable::MaskBits bits(make_stream(seed, offset, 0.3, type.precision));
        bits.fill_rows(first, stride, rows, words, got.data());
        for (int64_t row = 0; row < rows; row++) {
            const std::vector<uint8_t> expected = mask(seed, offset, 0.3, type.dtype, first + row * stride, 8 * words);
            ASSERT_EQ(std::memcmp(got.data() + row * words, expected.data(), expected.size()), 0)
                << i << " row " << row;
        }
        EXPECT_EQ(got.back(), 77U);
    }
}

// The share of ones is the probability, rounded to the type: a mean of 2^20 bits is off by 5 of its standard deviations
// of at most 0.5 / 2^10 once in a million.
TEST(Generator, ShareOfOnes) {
    for (const auto& type : kTypes) {
        for (const double prob : {0.0, 0.0001, 0.1, 0.5, 0.9, 0.999, 1.0}) {
            std::vector<uint8_t> bits(1 << 17);
            fill_of("portable")(make_stream(7, 3, prob, type.precision), 0, 1 << 20, bits.data());
            int64_t ones = 0;
            for (const uint8_t byte : bits) ones += __builtin_popcount(byte);
            // u >= prob for all multiples of 2^-bits: their share differs from 1 - prob by less than a step.
            const double step = 1.0 / static_cast<double>(1U << fraction_bits(type.precision));
            EXPECT_NEAR(static_cast<double>(ones) / (1 << 20), 1 - round_prob(prob, type.dtype), 5 * 0.5 / 1024 + step);
            EXPECT_EQ(ones == 1 << 20, make_stream(7, 3, prob, type.precision).keeps_all()) << prob;
            EXPECT_EQ(ones == 0, make_stream(7, 3, prob, type.precision).keeps_none()) << prob;
        }
    }
}

}  // namespace
}  // namespace dropout_gen_mask::testing
