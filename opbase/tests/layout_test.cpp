#include "opbase/layout.h"

#include <gtest/gtest.h>

namespace {

using opbase::as_bsnd;
using opbase::BsndView;
using opbase::Layout;
using opbase::Shape;
using opbase::Tensor;

// A tensor with the given shape, and strides that tell the axes apart.
Tensor make_tensor(const Shape& shape, const Shape& strides) {
    Tensor tensor;
    tensor.shape = shape;
    tensor.strides = strides;
    return tensor;
}

TEST(Layout, ParsesEveryNameInAnyLetterCase) {
    const std::pair<const char*, Layout> names[] = {
        {"BSH", Layout::kBSH}, {"SBH", Layout::kSBH},   {"BSND", Layout::kBSND}, {"BNSD", Layout::kBNSD},
        {"TND", Layout::kTND}, {"bnsd", Layout::kBNSD}, {"tNd", Layout::kTND},   {"bSh", Layout::kBSH},
    };
    for (const auto& [text, layout] : names) EXPECT_EQ(opbase::parse_layout(text), layout) << text;
}

TEST(Layout, RefusesOtherTexts) {
    using namespace std::string_view_literals;
    for (const std::string_view text : {""sv, "B"sv, "BS"sv, "BNS"sv, "NTD"sv, "BNSDD"sv, "BSH "sv, " BSH"sv, "BSH\0"sv,
                                        "ND"sv, "BSHD"sv, "B\xD3H"sv}) {
        EXPECT_EQ(opbase::parse_layout(text), std::nullopt) << '"' << text << '"';
    }
}

TEST(Layout, NamesAndRanks) {
    const std::tuple<Layout, const char*, int> table[] = {{Layout::kBSH, "BSH", 3},
                                                          {Layout::kSBH, "SBH", 3},
                                                          {Layout::kBSND, "BSND", 4},
                                                          {Layout::kBNSD, "BNSD", 4},
                                                          {Layout::kTND, "TND", 3}};
    for (const auto& [layout, name, rank] : table) {
        EXPECT_EQ(opbase::layout_name(layout), name);
        EXPECT_EQ(opbase::layout_rank(layout), rank);
        EXPECT_EQ(opbase::parse_layout(name), layout);
    }
}

// B = 2, S = 5, N = 3, D = 7, and a different stride for each axis.
TEST(Layout, AxesOfEveryLayout) {
    EXPECT_EQ(as_bsnd(make_tensor({2, 5, 3, 7}, {1100, 300, 700, 2}), Layout::kBSND, 99),
              (BsndView{2, 5, 3, 7, 1100, 300, 700, 2}));
    EXPECT_EQ(as_bsnd(make_tensor({2, 3, 5, 7}, {1100, 700, 300, 2}), Layout::kBNSD, 99),
              (BsndView{2, 5, 3, 7, 1100, 300, 700, 2}));
    EXPECT_EQ(as_bsnd(make_tensor({2, 5, 21}, {1100, 300, 2}), Layout::kBSH, 3),
              (BsndView{2, 5, 3, 7, 1100, 300, 14, 2}));
    EXPECT_EQ(as_bsnd(make_tensor({5, 2, 21}, {300, 1100, 2}), Layout::kSBH, 3),
              (BsndView{2, 5, 3, 7, 1100, 300, 14, 2}));
    EXPECT_EQ(as_bsnd(make_tensor({11, 3, 7}, {300, 700, 2}), Layout::kTND, 99),
              (BsndView{1, 11, 3, 7, 0, 300, 700, 2}));
}

// The same 2 x 5 x 3 x 7 elements stored contiguously in each layout; element (1, 4, 2, 6) is the last one everywhere.
TEST(Layout, ContiguousTensorsReachTheirLastElement) {
    const std::pair<Layout, Shape> table[] = {{Layout::kBSND, {2, 5, 3, 7}},
                                              {Layout::kBNSD, {2, 3, 5, 7}},
                                              {Layout::kBSH, {2, 5, 21}},
                                              {Layout::kSBH, {5, 2, 21}}};
    for (const auto& [layout, shape] : table) {
        const BsndView v = as_bsnd(make_tensor(shape, opbase::contiguous_strides(shape)), layout, 3);
        EXPECT_EQ(v.batch_stride + 4 * v.seq_stride + 2 * v.head_stride + 6 * v.dim_stride, 2 * 5 * 3 * 7 - 1)
            << opbase::layout_name(layout);
    }
}

}  // namespace
