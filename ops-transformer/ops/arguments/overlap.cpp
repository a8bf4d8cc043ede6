#include "arguments/overlap.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace arguments {
namespace {

struct Axis {
    int64_t size, stride;  // the sign of a stride makes no difference: it mirrors the view
};

// Axes that are stepped along, smallest stride first.
std::vector<Axis> moving_axes(const opbase::Tensor& tensor) {
    std::vector<Axis> axes;
    for (size_t i = 0; i < tensor.shape.size(); i++) {
        if (tensor.shape[i] > 1) axes.push_back({tensor.shape[i], std::abs(tensor.strides[i])});
    }
    std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
    return axes;
}

// Marks the elements from `at` on that the axes before `axis` lead to. True when one was marked before.
bool mark(const std::vector<Axis>& axes, size_t axis, int64_t at, std::vector<bool>& marked) {
    if (axis == 0) {
        if (marked[at]) return true;
        marked[at] = true;
        return false;
    }
    const Axis& along = axes[axis - 1];
    for (int64_t i = 0; i < along.size; i++) {
        if (mark(axes, axis - 1, at + i * along.stride, marked)) return true;
    }
    return false;
}

}  // namespace

bool elements_overlap(const opbase::Tensor& tensor) {
    constexpr int64_t kMostMarked = int64_t{1} << 30;  // a bit each: 128 MiB
    const std::vector<Axis> axes = moving_axes(tensor);
    // Where every step leads past all that the smaller axes reach, no two indices can meet.
    int64_t span = 1;
    int64_t count = 1;
    bool nested = true;
    for (const Axis& axis : axes) {
        nested = nested && axis.stride >= span;
        span += (axis.size - 1) * axis.stride;
        count *= axis.size;
    }
    if (nested) return false;
    if (count > span || span > kMostMarked) return true;
    std::vector<bool> marked(span);
    return mark(axes, axes.size(), 0, marked);
}

}  // namespace arguments
