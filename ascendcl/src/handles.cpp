#include "handles.h"

#include <fmt/format.h>

#include <atomic>

namespace ascendcl {
namespace {

constexpr uintptr_t kKindBits = 4;
constexpr uintptr_t kKindMask = (uintptr_t{1} << kKindBits) - 1;
std::atomic<uintptr_t> next_serial{1};

std::string_view name_of(uintptr_t kind) {
    switch (static_cast<HandleKind>(kind)) {
        case HandleKind::kContext:
            return "a context";
        case HandleKind::kStream:
            return "a stream";
        case HandleKind::kEvent:
            return "an event";
    }
    return "";
}

}  // namespace

void* new_handle(HandleKind kind) {
    return reinterpret_cast<void*>((next_serial.fetch_add(1) << kKindBits) | static_cast<uintptr_t>(kind));
}

void throw_dead_handle(HandleKind kind, const char* argument, const void* handle) {
    const auto value = reinterpret_cast<uintptr_t>(handle);
    const std::string_view expected = name_of(static_cast<uintptr_t>(kind));
    const std::string_view found = name_of(value & kKindMask);
    const bool issued = !found.empty() && value >> kKindBits >= 1 && value >> kKindBits < next_serial.load();
    std::string text;
    if (!issued) {
        text = fmt::format("{} {} is not a handle of {}", argument, handle, expected);
    } else if (found == expected) {
        text = fmt::format("{} {} is {} that was already destroyed", argument, handle, expected);
    } else {
        text = fmt::format("{} {} is a handle of {}: expected {}", argument, handle, found, expected);
    }
    throw Failure{ACL_ERROR_RT_INVALID_HANDLE, std::move(text)};
}

}  // namespace ascendcl
