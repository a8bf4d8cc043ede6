// The ring update against its reference: layouts, lists, types, views, rows that do not count.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <iostream>

#include "draw_results.h"
#include "opbase/parallel.h"

namespace ring_attention_update::testing {
namespace {

constexpr DType kTypes[] = {DType::kFp32, DType::kFp16, DType::kBf16};
constexpr uint64_t kSeed = 1;

// The largest share of its bound that an error takes.
double worst_share(const RingCall& call, const PartialResult& got) {
    const PartialResult expected = reference::merge(arguments_of(call));
    double largest = 0, worst = 0;
    for (const auto* part : {&call.previous.out, &call.current.out})
        for (const double x : *part) largest = std::isfinite(x) ? std::max(largest, std::fabs(x)) : largest;
    const double step = call.dtype == DType::kFp32 ? 0.0 : flash_attention::testing::smallest_step(call.dtype);
    const auto compare = [&](const std::vector<double>& a, const std::vector<double>& b, auto bound_of) {
        ASSERT_EQ(a.size(), b.size());
        for (size_t i = 0; i < a.size(); i++) {
            if (std::isnan(a[i]) && std::isnan(b[i])) continue;
            const double error = std::fabs(a[i] - b[i]);
            if (error == 0) continue;
            worst = std::max(worst, std::isnan(error) ? INFINITY : error / bound_of(b[i]));
        }
    };
    const double conditioning = conditioning_of(call.previous, call.current);
    compare(got.out, expected.out, [&](double) { return update_error(call.dtype, conditioning) * largest + step; });
    compare(got.sum, expected.sum, [&](double sum) { return sum_error(conditioning) * sum; });
    EXPECT_EQ(got.max, expected.max);
    return worst;
}

void expect_right(const RingCall& call, double* worst = nullptr) {
    const RingResult result = run(call);
    ASSERT_EQ(result.phase_one, 0) << result.text;
    ASSERT_EQ(result.phase_two, 0) << result.text;
    const double share = worst_share(call, result.merged);
    EXPECT_LE(share, 1.0);
    if (worst != nullptr) *worst = std::max(*worst, share);
}

// Two rows whose merge is known without a program: equal maxima and sums 1 and 3 give a quarter and three quarters.
TEST(Ring, SmallExample) {
    RingCall call = sbh_call(DType::kFp32, 1, 1, 2, 2);
    call.previous = {{1, 2, 8, 0}, {5, 0}, {1, 1}};
    call.current = {{5, -2, 0, 4}, {5, std::log(3.0)}, {3, 1}};
    const PartialResult expected = reference::merge(arguments_of(call));
    EXPECT_EQ(expected.out[0], 4);
    EXPECT_EQ(expected.out[1], -1);
    EXPECT_NEAR(expected.out[2], 2, 1e-15);
    EXPECT_NEAR(expected.out[3], 3, 1e-15);
    EXPECT_EQ(expected.sum[0], 4);
    EXPECT_NEAR(expected.sum[1], 4.0 / 3, 1e-15);
    call.current.max[1] = static_cast<float>(std::log(3.0));  // the operator gets floats
    expect_right(call);
}

RingCall random_call(Random& random, DType dtype) {
    const int64_t dims[] = {1, 3, 8, 17, 64, 100, 128, 192};
    const auto n = static_cast<int64_t>(1 + random() % 5), d = dims[random() % 8];
    RingCall call;
    if (random() % 3 == 0) {
        const auto rows = static_cast<int64_t>(1 + random() % 150), batch = static_cast<int64_t>(1 + random() % 3);
        call = sbh_call(dtype, rows, batch, n, d);
        if (random() % 2 == 0) call.layout = nullptr;
        if (random() % 2 == 0) call.softmax_layout = "SBH";
    } else {
        std::vector<int64_t> ends;
        if (random() % 2 == 0) ends.push_back(0);
        const auto sequences = static_cast<int64_t>(1 + random() % 5);
        int64_t end = 0;
        for (int64_t i = 0; i < sequences; i++) {
            end += static_cast<int64_t>(random() % 3 == 0 ? random() % 3 : random() % 90);
            if (ends.empty() && end == 0) end = 1;  // a leading 0 is not a sequence of its own
            ends.push_back(end);
        }
        if (end == 0) ends.back() = 5;
        call = tnd_call(dtype, ends, n, d);
        const char* layouts[] = {nullptr, "", "SBH", "TND"};
        call.softmax_layout = layouts[random() % 4];
    }
    call.v2 = call.softmax_layout != nullptr || random() % 2 == 0;
    return call;
}

TEST(Ring, RandomCallsAgreeWithTheReference) {
    std::cout << "seed " << kSeed << "\n";
    for (const DType dtype : kTypes) {
        double worst = 0;
        for (int i = 0; i < 120; i++) {
            Random random(kSeed + static_cast<uint64_t>(i));
            RingCall call = random_call(random, dtype);
            const double spreads[] = {0, 2, 30, 300};
            draw(call, random, spreads[random() % 4], random() % 2 == 0 ? Rows::kMixed : Rows::kOrdinary);
            SCOPED_TRACE(fmt::format("call {} of type {}", i, static_cast<int>(dtype)));
            expect_right(call, &worst);
        }
        std::cout << "type " << static_cast<int>(dtype) << ": worst error " << worst << " of its bound\n";
    }
}

// Each pair of kinds of rows: what does not count passes the other part on, with its bits, and is not read.
TEST(Ring, RowsThatDoNotCount) {
    const double nan = std::nan("");
    constexpr double kMost = static_cast<double>(FLT_MAX);
    for (const DType dtype : kTypes) {
        RingCall call = sbh_call(dtype, 8, 1, 1, 3);
        // Hidden, and without keys, beside an ordinary one on either side, beside itself and beside one another.
        call.previous = {{nan, nan, nan, 1,   -0.0, 2,   nan, nan, nan, 1,   -0.0, 2,
                          nan, nan, nan, nan, nan,  nan, nan, nan, nan, nan, nan,  nan},
                         {-kMost, 7, 0, 7, -kMost, 0, -kMost, 0},
                         {kMost, 5, 0, 5, kMost, 0, kMost, 0}};
        call.current = {{1,   -0.0, 2,   nan, nan, nan, 1,   -0.0, 2,   nan, nan, nan,
                         nan, nan,  nan, nan, nan, nan, nan, nan,  nan, nan, nan, nan},
                        {-1000, -kMost, -1000, 0, -kMost, 0, 0, -kMost},
                        {5, kMost, 5, 0, kMost, 0, 0, kMost}};
        const RingResult result = run(call);
        ASSERT_EQ(result.phase_two, 0) << result.text;
        const std::vector<double> row = {1, -0.0, 2};
        for (size_t i = 0; i < result.merged.out.size(); i++) {
            const double expected = i < 12 ? row[i % 3] : 0;
            EXPECT_EQ(result.merged.out[i], expected) << i;
            EXPECT_EQ(std::signbit(result.merged.out[i]), std::signbit(expected)) << i;
        }
        EXPECT_EQ(result.merged.max, (std::vector<double>{-1000, 7, -1000, 7, -kMost, 0, -kMost, -kMost}));
        EXPECT_EQ(result.merged.sum, (std::vector<double>{5, 5, 5, 5, kMost, 0, kMost, kMost}));
    }
}

TEST(Ring, VisibleNanAndInfinity) {
    const double nan = std::nan("");
    RingCall call = sbh_call(DType::kFp32, 4, 1, 1, 2);
    call.previous = {{1, 2, nan, 2, 1, INFINITY, 1, 2}, {0, 0, 0, nan}, {2, 2, 2, 2}};
    call.current = {{3, 4, 3, 4, 3, 4, 3, 4}, {1, -500, 1, 1}, {nan, 2, 2, 2}};
    const PartialResult got = run(call).merged;
    EXPECT_TRUE(std::isnan(got.out[0]) && std::isnan(got.out[1]) && std::isnan(got.sum[0])) << "a sum";
    EXPECT_TRUE(std::isnan(got.out[2]) && got.out[3] == 2) << "an output";
    EXPECT_EQ(got.out[5], INFINITY);
    EXPECT_TRUE(std::isnan(got.out[6]) && std::isnan(got.sum[3])) << "a maximum";
}

// The same numbers in other views: the same bits.
TEST(Ring, Views) {
    Random random(kSeed);
    for (const DType dtype : kTypes) {
        for (const bool packed : {false, true}) {
            for (const char* softmax_layout : {"", "TND"}) {
                RingCall call = packed ? tnd_call(dtype, {0, 3, 8}, 3, 20) : sbh_call(dtype, 5, 2, 3, 20);
                call.softmax_layout = softmax_layout;
                draw(call, random, 5, Rows::kMixed);
                const std::vector<uint32_t> expected = run(call).bits;
                const auto expect_same = [&](const RingCall& other, const char* what) {
                    const RingResult result = run(other);
                    EXPECT_EQ(result.phase_two, 0) << result.text;
                    EXPECT_EQ(result.bits, expected) << what << " " << packed << " \"" << softmax_layout << '"';
                };
                RingCall other = call;
                for (int i = 0; i < kArgumentCount; i++) {
                    if (i == kEnds) continue;
                    std::vector<int64_t>& strides = other.tensors[i]->strides;
                    const std::vector<int64_t>& shape = other.tensors[i]->shape;
                    strides.assign(shape.size(), 1);
                    for (size_t k = shape.size(); k-- > 1;) strides[k - 1] = strides[k] * shape[k] + 5;
                    other.tensors[i]->offset = 3;
                }
                expect_same(other, "gaps");
                // RING-12b: each tensor has strides of its own, so one alone with gaps is right as well.
                for (int i = 0; i < kArgumentCount; i++) {
                    RingCall one = call;
                    one.tensors[i] = other.tensors[i];
                    if (i != kEnds) expect_same(one, "gaps in one tensor");
                }
                for (int i = 0; i < kArgumentCount; i++) {
                    if (i == kEnds) continue;
                    std::vector<int64_t>& strides = other.tensors[i]->strides;
                    const std::vector<int64_t>& shape = other.tensors[i]->shape;
                    for (size_t k = 0; k < shape.size(); k++) strides[k] = k == 0 ? 2 : strides[k - 1] * shape[k - 1];
                }
                expect_same(other, "transposed, every second");
                if (packed) {
                    other.tensors[kEnds]->strides = {3};
                    other.tensors[kEnds]->offset = 2;
                    expect_same(other, "a list with gaps");
                }
                for (const int in_place : {kPrevOut, kCurOut}) {
                    other = call;
                    other.in_place = in_place;
                    expect_same(other, "in place");
                }
            }
        }
    }
}

// Both conventions of the list, and one sequence cut in two where layouts by the token do not care.
TEST(Ring, ListsOfEnds) {
    Random random(kSeed);
    RingCall call = tnd_call(DType::kFp32, {0, 3, 3, 70, 141}, 2, 16);
    draw(call, random, 3, Rows::kOrdinary);
    const std::vector<uint32_t> expected = run(call).bits;
    RingCall other = call;
    other.ends = {3, 3, 70, 141};
    other.tensors[kEnds]->shape = {4};
    EXPECT_EQ(run(other).bits, expected) << "without the leading 0";
    other.ends = {3, 70, 70, 141};
    EXPECT_EQ(run(other).bits, expected) << "an empty sequence elsewhere";
    // Statistics in the order of tokens do not need the list, so that it may hold anything.
    call.softmax_layout = "TND";
    const std::vector<uint32_t> by_token = run(call).bits;
    for (const std::vector<int64_t>& ends : {std::vector<int64_t>{141, 0, -5, 7, 9}, {3, 1, 4, 1, 5}}) {
        call.ends = ends;
        EXPECT_EQ(run(call).bits, by_token);
    }
    EXPECT_NE(by_token, expected) << "with two heads the order counts";
}

TEST(Ring, SameBitsForAnyNumberOfThreads) {
    Random random(kSeed);
    RingCall calls[] = {sbh_call(DType::kBf16, 300, 2, 3, 40), tnd_call(DType::kFp32, {17, 200, 201, 500}, 3, 33)};
    for (RingCall& call : calls) {
        draw(call, random, 4, Rows::kMixed);
        opbase::set_thread_count(1);
        const std::vector<uint32_t> one = run(call).bits;
        for (int threads = 2; threads <= 8; threads++) {
            opbase::set_thread_count(threads);
            EXPECT_EQ(run(call).bits, one) << threads;
        }
        opbase::set_thread_count(0);
        for (int again = 1; again < 20; again++) EXPECT_EQ(run(call).bits, one) << "run " << again;
    }
}

// A sequence alone, and packed with others.
TEST(Ring, AloneOrPacked) {
    Random random(kSeed);
    RingCall packed = tnd_call(DType::kFp16, {70, 100}, 1, 24);
    draw(packed, random, 4, Rows::kMixed);
    const PartialResult all = run(packed).merged;
    RingCall alone = tnd_call(DType::kFp16, {30}, 1, 24);
    const auto tail = [](const std::vector<double>& x, size_t of_a_row) {
        return std::vector<double>(x.begin() + static_cast<int64_t>(70 * of_a_row), x.end());
    };
    const auto tails = [&](const PartialResult& part) {
        return PartialResult{tail(part.out, 24), tail(part.max, 1), tail(part.sum, 1)};
    };
    alone.previous = tails(packed.previous);
    alone.current = tails(packed.current);
    const PartialResult got = run(alone).merged, expected = tails(all);
    EXPECT_EQ(got.out, expected.out);
    EXPECT_EQ(got.max, expected.max);
    EXPECT_EQ(got.sum, expected.sum);
}

}  // namespace
}  // namespace ring_attention_update::testing
