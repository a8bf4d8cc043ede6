// Copies and fills. The directions are all the same here; what remains is order (streams) and limits (known blocks).
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "acl/acl_rt.h"
#include "call.h"
#include "current.h"
#include "runtime.h"

using namespace ascendcl;

namespace {

// Bytes from `pointer` to the end of its block; everything when the block is not known.
std::size_t bytes_to_end(const std::optional<Block>& block, const void* pointer) {
    return block ? block->end() - reinterpret_cast<uintptr_t>(pointer) : SIZE_MAX;
}

void require_kind(const aclrtMemcpyKind& kind, int last) {
    const int number = number_of(kind);
    if (number >= 0 && number <= last) return;
    throw Failure{ACL_ERROR_INVALID_PARAM, fmt::format("kind {} is not supported: expected 0..{}", number, last)};
}

// A write past the end of a block would destroy something else, on a device too.
void require_room(const char* limit_name, std::size_t count, const void* destination, std::size_t room) {
    if (count <= room) return;
    throw Failure{ACL_ERROR_RT_PARAM_INVALID,
                  fmt::format("{} {} reaches past the end of the destination block: from {} it has {} bytes left",
                              limit_name, count, destination, room)};
}

// Reading past the end of a block works on a device, whose pages are mapped beyond it.
void note_over_read(std::size_t count, std::size_t readable) {
    if (count <= readable) return;
    warn_once("over-read", fmt::format("a copy of {} bytes reads past the end of its source block, which has {} bytes "
                                       "left: the rest of the destination is set to zero",
                                       count, readable));
}

// ---- one dimension -------------------------------------------------------------------------------------------------

struct Copy {
    void* destination = nullptr;
    const void* source = nullptr;
    std::size_t bytes = 0;  // what the source has
    std::size_t zeros = 0;  // what it lacks

    void run() const {
        std::memmove(destination, source, bytes);
        if (zeros > 0) std::memset(static_cast<char*>(destination) + bytes, 0, zeros);
    }
};

Copy plan_copy(void* dst, std::size_t dest_max, const void* src, std::size_t count, const aclrtMemcpyKind& kind) {
    require_not_null("dst", dst);
    require_not_null("src", src);
    require_kind(kind, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE);
    if (count > dest_max) {
        throw Failure{ACL_ERROR_RT_PARAM_INVALID, fmt::format("count {} exceeds destMax {}", count, dest_max)};
    }
    const MemoryMap::Pair blocks = runtime().memory.find_both(dst, src);
    require_room("count", count, dst, bytes_to_end(blocks.first, dst));
    const std::size_t readable = bytes_to_end(blocks.second, src);
    note_over_read(count, readable);
    const std::size_t bytes = std::min(count, readable);
    return {dst, src, bytes, count - bytes};
}

// ---- two dimensions ------------------------------------------------------------------------------------------------

struct Copy2d {
    char* destination = nullptr;
    std::size_t destination_pitch = 0;
    const char* source = nullptr;
    std::size_t source_pitch = 0;
    std::size_t width = 0;
    std::size_t height = 0;
    std::size_t readable = 0;  // from the source's start

    // One row out of the source, with zeros for what it lacks.
    void read_row(std::size_t row, char* to) const {
        const std::size_t offset = row * source_pitch;
        const std::size_t bytes = std::min(width, readable - std::min(readable, offset));
        if (bytes > 0) std::memmove(to, source + offset, bytes);
        std::memset(to + bytes, 0, width - bytes);
    }

    bool overlaps() const {
        const auto to = reinterpret_cast<uintptr_t>(destination);
        const auto from = reinterpret_cast<uintptr_t>(source);
        return to < from + (height - 1) * source_pitch + width && from < to + (height - 1) * destination_pitch + width;
    }

    void run() const {
        if (!overlaps()) {
            for (std::size_t row = 0; row < height; ++row) read_row(row, destination + row * destination_pitch);
            return;
        }
        std::vector<char> rows(width * height);
        for (std::size_t row = 0; row < height; ++row) read_row(row, rows.data() + row * width);
        for (std::size_t row = 0; row < height; ++row) {
            std::memcpy(destination + row * destination_pitch, rows.data() + row * width, width);
        }
    }
};

// Bytes from the first to the last of `height` rows.
std::size_t extent(const char* pitch_name, std::size_t pitch, std::size_t width, std::size_t height) {
    if (width > pitch) {
        throw Failure{ACL_ERROR_RT_PARAM_INVALID, fmt::format("width {} exceeds {} {}", width, pitch_name, pitch)};
    }
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(pitch, height - 1, &bytes) || __builtin_add_overflow(bytes, width, &bytes) ||
        bytes > static_cast<std::size_t>(PTRDIFF_MAX)) {
        throw Failure{ACL_ERROR_RT_PARAM_INVALID,
                      fmt::format("height {} times {} {} exceeds the address space", height, pitch_name, pitch)};
    }
    return bytes;
}

Copy2d plan_copy_2d(void* dst, std::size_t dpitch, const void* src, std::size_t spitch, std::size_t width,
                    std::size_t height, const aclrtMemcpyKind& kind) {
    require_not_null("dst", dst);
    require_not_null("src", src);
    require_kind(kind, ACL_MEMCPY_DEVICE_TO_DEVICE);
    const std::size_t written = extent("dpitch", dpitch, width, height);
    const std::size_t read = extent("spitch", spitch, width, height);
    const MemoryMap::Pair blocks = runtime().memory.find_both(dst, src);
    require_room("(height - 1) * dpitch + width =", written, dst, bytes_to_end(blocks.first, dst));
    const std::size_t readable = bytes_to_end(blocks.second, src);
    note_over_read(read, readable);
    return {static_cast<char*>(dst), dpitch, static_cast<const char*>(src), spitch, width, height, readable};
}

// ---- fills ---------------------------------------------------------------------------------------------------------

void require_fill(void* pointer, std::size_t max_count, std::size_t count) {
    require_not_null("devPtr", pointer);
    if (count > max_count) {
        throw Failure{ACL_ERROR_RT_PARAM_INVALID, fmt::format("count {} exceeds maxCount {}", count, max_count)};
    }
    require_room("count", count, pointer, bytes_to_end(runtime().memory.find(pointer), pointer));
}

// Runs `work` in the order of the stream.
template <class Work>
void run_on(aclrtStream stream, Work&& work) {
    const std::shared_ptr<Stream> target = resolve_stream("stream", stream);
    const StreamScope scope(*target);
    work();
}

}  // namespace

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind) {
    return api_call(
        "aclrtMemcpy",
        [&] {
            if (count > 0) plan_copy(dst, destMax, src, count, kind).run();
        },
        arg("dst", dst), arg("destMax", destMax), arg("src", src), arg("count", count), arg("kind", kind));
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream) {
    return api_call(
        "aclrtMemcpyAsync",
        [&] {
            if (count == 0) return;
            const Copy copy = plan_copy(dst, destMax, src, count, kind);
            run_on(stream, [&] { copy.run(); });
        },
        arg("dst", dst), arg("destMax", destMax), arg("src", src), arg("count", count), arg("kind", kind),
        arg("stream", stream));
}

aclError aclrtMemcpy2d(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                       aclrtMemcpyKind kind) {
    return api_call(
        "aclrtMemcpy2d",
        [&] {
            if (width > 0 && height > 0) plan_copy_2d(dst, dpitch, src, spitch, width, height, kind).run();
        },
        arg("dst", dst), arg("dpitch", dpitch), arg("src", src), arg("spitch", spitch), arg("width", width),
        arg("height", height), arg("kind", kind));
}

aclError aclrtMemcpy2dAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                            aclrtMemcpyKind kind, aclrtStream stream) {
    return api_call(
        "aclrtMemcpy2dAsync",
        [&] {
            if (width == 0 || height == 0) return;
            const Copy2d copy = plan_copy_2d(dst, dpitch, src, spitch, width, height, kind);
            run_on(stream, [&] { copy.run(); });
        },
        arg("dst", dst), arg("dpitch", dpitch), arg("src", src), arg("spitch", spitch), arg("width", width),
        arg("height", height), arg("kind", kind), arg("stream", stream));
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
    return api_call(
        "aclrtMemset",
        [&] {
            if (count == 0) return;
            require_fill(devPtr, maxCount, count);
            std::memset(devPtr, value, count);
        },
        arg("devPtr", devPtr), arg("maxCount", maxCount), arg("value", value), arg("count", count));
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
    return api_call(
        "aclrtMemsetAsync",
        [&] {
            if (count == 0) return;
            require_fill(devPtr, maxCount, count);
            run_on(stream, [&] { std::memset(devPtr, value, count); });
        },
        arg("devPtr", devPtr), arg("maxCount", maxCount), arg("value", value), arg("count", count),
        arg("stream", stream));
}
