#include "testing/view.h"

#include <algorithm>
#include <numeric>

namespace flash_attention::testing {
namespace {

// Strides of a storage whose dimensions, from outermost to innermost, are those of `order`; dimension k takes
// extents[k] places. Returns the size of the storage in elements.
int64_t lay_out(const std::vector<size_t>& order, const std::vector<int64_t>& extents, std::vector<int64_t>& strides) {
    int64_t step = 1;
    for (size_t k = order.size(); k-- > 0;) {
        strides[order[k]] = step;
        step *= extents[order[k]];
    }
    return step;
}

}  // namespace

StridedView make_view(View kind, const std::vector<int64_t>& shape) {
    StridedView view;
    view.shape = shape;
    view.strides.resize(shape.size());
    std::vector<size_t> order(shape.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::vector<int64_t> extents = shape;
    if (kind == View::kPadded) {
        for (int64_t& extent : extents) extent++;
        extents.back() += 2;
    } else if (kind == View::kSwapped && order.size() > 1) {
        std::swap(order[0], order[1]);
    } else if (kind == View::kTransposed) {
        std::reverse(order.begin(), order.end());
    } else if (kind == View::kExpand) {
        extents[0] = std::min<int64_t>(extents[0], 1);
    } else if (kind == View::kExpandLast) {
        extents.back() = std::min<int64_t>(extents.back(), 1);
    }
    view.storage = lay_out(order, extents, view.strides);
    if (kind == View::kExpand) view.strides[0] = 0;
    if (kind == View::kExpandLast) view.strides.back() = 0;
    if (kind == View::kEvery2) {
        for (int64_t& stride : view.strides) stride *= 2;
        view.storage *= 2;
    }
    if (kind == View::kOffset) {
        view.offset = 13;
        view.storage += 13 + 5;
    }
    return view;
}

std::vector<int64_t> StridedView::positions() const {
    std::vector<int64_t> result;
    for_each_position([&result](int64_t position) { result.push_back(position); });
    return result;
}

}  // namespace flash_attention::testing
