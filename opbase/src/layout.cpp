#include "opbase/layout.h"

#include <array>

namespace opbase {
namespace {

// In the order of the enumerators.
constexpr std::array<std::string_view, 5> kNames = {"BSH", "SBH", "BSND", "BNSD", "TND"};

char upper(char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

bool equal_ignoring_case(std::string_view text, std::string_view upper_case) {
    if (text.size() != upper_case.size()) return false;
    for (size_t i = 0; i < text.size(); i++) {
        if (upper(text[i]) != upper_case[i]) return false;
    }
    return true;
}

}  // namespace

std::optional<Layout> parse_layout(std::string_view text) noexcept {
    for (size_t i = 0; i < kNames.size(); i++) {
        if (equal_ignoring_case(text, kNames[i])) return static_cast<Layout>(i);
    }
    return std::nullopt;
}

std::string_view layout_name(Layout layout) noexcept {
    return kNames[static_cast<size_t>(layout)];
}

int64_t layout_rank(Layout layout) noexcept {
    return static_cast<int64_t>(layout_name(layout).size());
}

BsndView as_bsnd(const Tensor& tensor, Layout layout, int64_t heads) {
    // The letters say where each axis is; an axis without a letter has size 1 (batch of TND) or is a part of H.
    BsndView view{1, 1, heads, 1, 0, 0, 0, 0};
    const std::string_view letters = layout_name(layout);
    for (size_t i = 0; i < letters.size(); i++) {
        const int64_t size = tensor.shape[i];
        const int64_t stride = tensor.strides[i];
        switch (letters[i]) {
            case 'B':
                view.batch = size;
                view.batch_stride = stride;
                break;
            case 'S':
            case 'T':
                view.seq = size;
                view.seq_stride = stride;
                break;
            case 'N':
                view.heads = size;
                view.head_stride = stride;
                break;
            case 'D':
                view.dim = size;
                view.dim_stride = stride;
                break;
            default:  // 'H': the heads one after another, each with its own dim entries
                view.dim = size / heads;
                view.dim_stride = stride;
                view.head_stride = view.dim * stride;
        }
    }
    return view;
}

}  // namespace opbase
