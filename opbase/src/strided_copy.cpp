// A strided copy is a nest of loops in any order. The order that moves memory best puts the destination's closest
// elements innermost; then neighbouring loops that step through both sides without a gap become one, and what is left
// of most layouts is a few long rows.
#include "opbase/strided_copy.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace opbase {
namespace {

// One loop: how often, and how far each side moves, in bytes.
struct Axis {
    int64_t size = 1;
    int64_t dst = 0;
    int64_t src = 0;
};

// 16 dimensions, the bytes of an element of unusual size, and one of padding.
using Axes = std::array<Axis, 18>;

// Copies rows x cols units; the two innermost loops.
using CopyPlane = void (*)(std::byte* dst, const std::byte* src, const Axis& rows, const Axis& cols);

void copy_rows(std::byte* dst, const std::byte* src, const Axis& rows, const Axis& cols) {
    for (int64_t r = 0; r < rows.size; r++) {
        std::memcpy(dst + r * rows.dst, src + r * rows.src, static_cast<size_t>(cols.size));
    }
}

template <size_t kBytes>
void copy_units(std::byte* dst, const std::byte* src, const Axis& rows, const Axis& cols) {
    // In a transposition each unit of a row lies in another cache line of the source. Rows are cut so that the lines of
    // one piece (64 * 64 bytes) stay in the first-level cache until the following rows have used the rest of them.
    constexpr int64_t kPiece = 64;
    for (int64_t begin = 0; begin < cols.size; begin += kPiece) {
        const int64_t end = std::min(cols.size, begin + kPiece);
        for (int64_t r = 0; r < rows.size; r++) {
            std::byte* to = dst + r * rows.dst + begin * cols.dst;
            const std::byte* from = src + r * rows.src + begin * cols.src;
            for (int64_t c = begin; c < end; c++, to += cols.dst, from += cols.src) std::memcpy(to, from, kBytes);
        }
    }
}

CopyPlane copier_of_units(int64_t bytes) {
    switch (bytes) {
        case 2:
            return copy_units<2>;
        case 4:
            return copy_units<4>;
        case 8:
            return copy_units<8>;
        case 16:
            return copy_units<16>;
        default:
            return copy_units<1>;
    }
}

bool is_unit(int64_t bytes) {
    return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16;
}

// Destination's widest steps first; insertion sort, as there are few.
void sort_axes(Axes& axes, size_t count) {
    const auto wider = [](const Axis& a, const Axis& b) {
        const int64_t by_dst = std::abs(a.dst) - std::abs(b.dst);
        return by_dst != 0 ? by_dst > 0 : std::abs(a.src) > std::abs(b.src);
    };
    for (size_t i = 1; i < count; i++) {
        for (size_t j = i; j > 0 && wider(axes[j], axes[j - 1]); j--) std::swap(axes[j], axes[j - 1]);
    }
}

// Joins each axis to the one inside it where both sides continue without a gap. Returns how many are left.
size_t merge_axes(Axes& axes, size_t count) {
    size_t last = 0;
    for (size_t i = 1; i < count; i++) {
        const Axis& inner = axes[i];
        Axis& outer = axes[last];
        if (outer.dst == inner.dst * inner.size && outer.src == inner.src * inner.size) {
            outer = {outer.size * inner.size, inner.dst, inner.src};
        } else {
            axes[++last] = inner;
        }
    }
    return std::min(count, last + 1);
}

void copy_axes(std::byte* dst, const std::byte* src, const Axis* axes, size_t count, CopyPlane copy_plane) {
    if (count == 2) return copy_plane(dst, src, axes[0], axes[1]);
    for (int64_t i = 0; i < axes[0].size; i++) {
        copy_axes(dst + i * axes[0].dst, src + i * axes[0].src, axes + 1, count - 1, copy_plane);
    }
}

}  // namespace

void strided_copy(void* dst, std::span<const int64_t> dst_strides, const void* src,
                  std::span<const int64_t> src_strides, std::span<const int64_t> shape, int64_t element_size) noexcept {
    Axes axes;
    size_t count = 0;
    for (size_t i = 0; i < shape.size(); i++) {
        if (shape[i] == 0) return;
        if (shape[i] != 1) axes[count++] = {shape[i], dst_strides[i] * element_size, src_strides[i] * element_size};
    }
    const int64_t unit = is_unit(element_size) ? element_size : 1;
    if (unit != element_size) axes[count++] = {element_size, 1, 1};
    sort_axes(axes, count);
    count = merge_axes(axes, count);
    if (count == 0) axes[count++] = {1, unit, unit};
    if (count == 1) {  // the plane copiers want two axes
        axes[1] = axes[0];
        axes[0] = Axis{};
        count = 2;
    }
    Axis& cols = axes[count - 1];
    const bool rows_are_packed = cols.dst == unit && cols.src == unit;
    if (rows_are_packed) cols.size *= unit;  // in bytes
    copy_axes(static_cast<std::byte*>(dst), static_cast<const std::byte*>(src), axes.data(), count,
              rows_are_packed ? copy_rows : copier_of_units(unit));
}

}  // namespace opbase
