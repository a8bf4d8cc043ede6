#include "current.h"

#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "first_answer.h"
#include "runtime.h"

namespace ascendcl {
namespace {

// More than anybody has in one machine; a typing error should not make thousands of streams.
constexpr int kMaxDevices = 64;

// By handle and not by pointer, so that a context that was destroyed elsewhere is noticed.
thread_local constinit aclrtContext thread_context = nullptr;

std::optional<int> parse_int(std::string_view text) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

int installed_devices() {
    const char* const text = std::getenv("ASCEND_CPU_DEVICES");
    if (text == nullptr || *text == '\0') return 1;
    const std::optional<int> count = parse_int(text);
    if (count && *count >= 1 && *count <= kMaxDevices) return *count;
    warn_once("ASCEND_CPU_DEVICES",
              fmt::format("ASCEND_CPU_DEVICES is \"{}\": expected a number from 1 to {}; using 1", text, kMaxDevices));
    return 1;
}

// The devices are alike, so only the length of the list matters. Like on the real system the list ends at its first
// entry that is no device.
int visible_devices(int installed) {
    const char* const text = std::getenv("ASCEND_RT_VISIBLE_DEVICES");
    if (text == nullptr || *text == '\0') return installed;
    std::set<int> seen;
    std::string_view rest = text;
    for (bool more = true; more;) {
        const std::size_t comma = rest.find(',');
        const std::string_view entry = rest.substr(0, comma);
        const std::optional<int> id = parse_int(entry);
        if (!id || *id < 0 || *id >= installed || !seen.insert(*id).second) {
            warn_once("ASCEND_RT_VISIBLE_DEVICES",
                      fmt::format("ASCEND_RT_VISIBLE_DEVICES is \"{}\": \"{}\" is not a device id from 0 to {} that is "
                                  "named once; it and what follows is ignored, {} device(s) are visible",
                                  text, entry, installed - 1, seen.size()));
            break;
        }
        more = comma != std::string_view::npos;
        if (more) rest.remove_prefix(comma + 1);
    }
    return static_cast<int>(seen.size());
}

// The entry of a device; the caller holds devices_mutex.
Device& device_locked(int32_t device) {
    std::vector<Device>& devices = runtime().devices;
    const auto index = static_cast<std::size_t>(device);
    if (devices.size() <= index) devices.resize(index + 1);
    return devices[index];
}

const std::shared_ptr<Context>& default_context_locked(int32_t device) {
    Device& entry = device_locked(device);
    if (entry.default_context == nullptr) entry.default_context = make_context(device, true);
    return entry.default_context;
}

}  // namespace

int device_count() {
    constexpr int kUnknown = -1;
    static constinit std::atomic<int> kept{kUnknown};
    return first_answer(kept, kUnknown, [] { return visible_devices(installed_devices()); });
}

void require_device(std::string_view name, int64_t id) {
    const int count = device_count();
    if (id >= 0 && id < count) return;
    if (count == 0) {
        throw Failure{
            ACL_ERROR_RT_INVALID_DEVICEID,
            fmt::format("{} {} is out of range: ASCEND_RT_VISIBLE_DEVICES leaves no device visible", name, id)};
    }
    throw Failure{ACL_ERROR_RT_INVALID_DEVICEID,
                  fmt::format("{} {} is out of range, valid 0..{}", name, id, count - 1)};
}

std::shared_ptr<Stream> make_stream(int32_t device, uint32_t priority, uint32_t flags, bool is_default) {
    static constinit std::atomic<int32_t> next_id{0};
    auto stream = std::make_shared<Stream>();
    stream->id = next_id.fetch_add(1);
    stream->device = device;
    stream->priority = priority;
    stream->flags = flags;
    stream->is_default = is_default;
    runtime().streams.add(stream);
    return stream;
}

std::shared_ptr<Context> make_context(int32_t device, bool is_default) {
    auto context = std::make_shared<Context>();
    context->device = device;
    context->is_default = is_default;
    context->default_stream = make_stream(device, 0, 0, true);
    runtime().contexts.add(context);
    return context;
}

bool retire_context(const Context& context) {
    if (!runtime().contexts.remove(context)) return false;
    runtime().streams.remove(*context.default_stream);
    return true;
}

std::shared_ptr<Context> default_context(int32_t device) {
    const std::lock_guard guard(runtime().devices_mutex);
    return default_context_locked(device);
}

std::shared_ptr<Context> retain_device(int32_t device) {
    const std::lock_guard guard(runtime().devices_mutex);
    std::shared_ptr<Context> context = default_context_locked(device);
    ++device_locked(device).set_count;
    return context;
}

void release_device(int32_t device, bool all) {
    const std::lock_guard guard(runtime().devices_mutex);
    Device& entry = device_locked(device);
    if (entry.set_count == 0) {
        throw Failure{ACL_ERROR_RT_CONTEXT_RELEASE_ERROR,
                      fmt::format("deviceId {} is not in use: aclrtSetDevice was not called for it, or it was reset as "
                                  "often as it was set",
                                  device)};
    }
    entry.set_count = all ? 0 : entry.set_count - 1;
    if (entry.set_count > 0) return;
    retire_context(*entry.default_context);
    entry.default_context.reset();
}

bool device_is_retained(int32_t device) {
    const std::lock_guard guard(runtime().devices_mutex);
    return device_locked(device).set_count > 0;
}

std::shared_ptr<Context> current_context() {
    return thread_context == nullptr ? nullptr : runtime().contexts.find(thread_context);
}

std::shared_ptr<Context> require_current_context() {
    std::shared_ptr<Context> context = current_context();
    if (context == nullptr) {
        throw Failure{ACL_ERROR_RT_CONTEXT_NULL,
                      "this thread has no context; call aclrtSetDevice or aclrtSetCurrentContext first",
                      LogLevel::kDebug};
    }
    return context;
}

void set_current_context(const Context& context) {
    thread_context = context.handle;
}

int32_t current_device_or_first() {
    const std::shared_ptr<Context> context = current_context();
    return context == nullptr ? 0 : context->device;
}

std::shared_ptr<Stream> resolve_stream(const char* argument, aclrtStream handle) {
    if (handle != nullptr) return runtime().streams.get(argument, handle);
    const std::shared_ptr<Context> context = current_context();
    if (context != nullptr) return context->default_stream;
    require_device("the default device", 0);
    return default_context(0)->default_stream;
}

}  // namespace ascendcl
