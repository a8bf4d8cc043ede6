#include "opbase/strided_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <sstream>
#include <vector>

#include "opbase/tensor.h"
#include "support.h"

namespace {

using opbase::Shape;
using Bytes = std::vector<unsigned char>;

struct View {
    Shape strides;
    int64_t offset = 0;  // of element (0, 0, ...), so that negative strides stay inside
    int64_t size = 1;    // elements of the storage
};

struct Case {
    Shape shape;
    View dst, src;
    int64_t element_size = 1;

    std::string text() const {
        std::ostringstream out;
        out << "shape " << opbase::to_string(shape) << " dst " << opbase::to_string(dst.strides) << " src "
            << opbase::to_string(src.strides) << " element size " << element_size;
        return out.str();
    }
};

void place(View& view, const Shape& shape) {
    int64_t low = 0;
    int64_t high = 0;
    for (size_t i = 0; i < shape.size(); i++) {
        const int64_t distance = std::max<int64_t>(0, shape[i] - 1) * view.strides[i];
        (distance < 0 ? low : high) += distance;
    }
    view.offset = -low;
    view.size = high - low + 1;
}

// Distinct addresses: dimensions in random order, each step at least the reach of the smaller ones, some reversed.
View random_distinct(std::mt19937_64& rng, const Shape& shape) {
    std::vector<size_t> order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    if (random_int(rng, 0, 1) == 1) std::shuffle(order.begin(), order.end(), rng);
    View view;
    view.strides.resize(shape.size());
    int64_t step = random_int(rng, 0, 3) == 0 ? 2 : 1;
    for (size_t i = shape.size(); i-- > 0;) {
        const size_t axis = order[i];
        view.strides[axis] = random_int(rng, 0, 7) == 0 ? -step : step;
        step = step * std::max<int64_t>(1, shape[axis]) + (random_int(rng, 0, 2) == 0 ? random_int(rng, 0, 3) : 0);
    }
    place(view, shape);
    return view;
}

// Any addresses: some axes repeat one element.
View random_source(std::mt19937_64& rng, const Shape& shape) {
    View view = random_distinct(rng, shape);
    for (int64_t& stride : view.strides) {
        if (random_int(rng, 0, 4) == 0) stride = 0;
    }
    place(view, shape);
    return view;
}

void naive_copy(const Case& c, Bytes& dst, const Bytes& src) {
    if (std::count(c.shape.begin(), c.shape.end(), 0) > 0) return;
    std::vector<int64_t> index(c.shape.size(), 0);
    for (;;) {
        int64_t to = c.dst.offset;
        int64_t from = c.src.offset;
        for (size_t i = 0; i < index.size(); i++) {
            to += index[i] * c.dst.strides[i];
            from += index[i] * c.src.strides[i];
        }
        std::memcpy(&dst[to * c.element_size], &src[from * c.element_size], c.element_size);
        size_t axis = index.size();
        while (axis > 0 && ++index[axis - 1] == c.shape[axis - 1]) index[--axis] = 0;
        if (axis == 0) return;
    }
}

// Compares the whole destination storage, so that bytes between the elements must survive.
void check(std::mt19937_64& rng, const Case& c) {
    Bytes src(c.src.size * c.element_size);
    Bytes expected(c.dst.size * c.element_size);
    for (auto& byte : src) byte = static_cast<unsigned char>(rng());
    for (auto& byte : expected) byte = static_cast<unsigned char>(rng());
    Bytes actual = expected;
    naive_copy(c, expected, src);
    opbase::strided_copy(&actual[c.dst.offset * c.element_size], c.dst.strides, &src[c.src.offset * c.element_size],
                         c.src.strides, c.shape, c.element_size);
    ASSERT_EQ(actual, expected) << c.text();
}

TEST(StridedCopy, RandomViewsMatchNaiveLoops) {
    std::mt19937_64 rng = make_rng();
    constexpr int64_t kSizes[] = {1, 2, 4, 8, 16, 3, 12};
    for (int i = 0; i < 4000; i++) {
        Case c;
        c.shape.resize(random_int(rng, 0, 6));
        for (int64_t& dim : c.shape) dim = random_int(rng, 0, 40) == 0 ? 0 : random_int(rng, 1, 5);
        if (!c.shape.empty() && i % 3 == 0) c.shape[random_int(rng, 0, c.shape.size() - 1)] = random_int(rng, 60, 140);
        c.element_size = kSizes[random_int(rng, 0, std::size(kSizes) - 1)];
        c.dst = random_distinct(rng, c.shape);
        c.src = random_source(rng, c.shape);
        check(rng, c);
        if (HasFatalFailure()) return;
    }
}

TEST(StridedCopy, TransposesLargeMatrices) {
    std::mt19937_64 rng = make_rng();
    for (const int64_t element_size : {1, 2, 4, 8, 16, 5}) {
        for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{64, 64}, {65, 63}, {200, 130}, {1, 129}}) {
            Case c{{rows, cols}, {{cols, 1}}, {{1, rows}}, element_size};
            place(c.dst, c.shape);
            place(c.src, c.shape);
            check(rng, c);
        }
    }
}

TEST(StridedCopy, SixteenDimensions) {
    std::mt19937_64 rng = make_rng();
    for (const int64_t element_size : {2, 3}) {
        Case c;
        c.shape.assign(16, 2);
        c.element_size = element_size;
        c.dst.strides = opbase::contiguous_strides(c.shape);
        c.src.strides.assign(c.dst.strides.rbegin(), c.dst.strides.rend());  // nothing to merge
        place(c.dst, c.shape);
        place(c.src, c.shape);
        check(rng, c);
    }
}

TEST(StridedCopy, NothingToCopyTouchesNothing) {
    const Shape shape = {3, 0, 2};
    const Shape strides = {1, 1, 1};
    opbase::strided_copy(nullptr, strides, nullptr, strides, shape, 4);  // would crash on a read or write
}

TEST(StridedCopy, RankZeroIsOneElement) {
    const uint32_t from = 0x12345678;
    uint32_t to = 0;
    opbase::strided_copy(&to, {}, &from, {}, {}, sizeof(to));
    EXPECT_EQ(to, from);
}

TEST(StridedCopy, ExpandedSourceFillsTheDestination) {
    const float one = 1.5F;
    std::vector<float> to(24 * 2 * 8, 0.0F);
    const Shape shape = {24, 2, 8};
    opbase::strided_copy(to.data(), opbase::contiguous_strides(shape), &one, Shape{0, 0, 0}, shape, sizeof(float));
    EXPECT_EQ(to, std::vector<float>(to.size(), 1.5F));
}

TEST(StridedCopy, UnalignedAddresses) {
    std::mt19937_64 rng = make_rng();
    Bytes src(8 * 9 + 1);
    for (auto& byte : src) byte = static_cast<unsigned char>(rng());
    Bytes dst(8 * 9 + 1, 0);
    const Shape shape = {3, 3};
    opbase::strided_copy(dst.data() + 1, Shape{1, 3}, src.data() + 1, Shape{3, 1}, shape, 8);
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            EXPECT_EQ(std::memcmp(&dst[1 + 8 * (i + 3 * j)], &src[1 + 8 * (3 * i + j)], 8), 0) << i << ' ' << j;
        }
    }
}

}  // namespace
