// Events: marked points of streams. Work runs at once, so a recorded point is reached when the recording call returns;
// waiting never blocks, but it orders memory between the threads.
#include <fmt/format.h>

#include <chrono>

#include "acl/acl_rt.h"
#include "call.h"
#include "current.h"
#include "runtime.h"
#include "wait.h"

using namespace ascendcl;

namespace {

constexpr uint32_t kKnownEventFlags = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE |
                                      ACL_EVENT_DEVICE_USE_ONLY | ACL_EVENT_EXTERNAL | ACL_EVENT_IPC;

void create_event(aclrtEvent* event, uint32_t flags) {
    require_not_null("event", event);
    if ((flags & ~kKnownEventFlags) != 0) {
        throw Failure{ACL_ERROR_RT_PARAM_INVALID, fmt::format("flag {:#x} has unknown bits {:#x}: known are {:#x}",
                                                              flags, flags & ~kKnownEventFlags, kKnownEventFlags)};
    }
    const auto created = std::make_shared<Event>();
    runtime().events.add(created);
    *event = created->handle;
}

std::shared_ptr<Event> get_event(const char* argument, aclrtEvent handle) {
    require_not_null(argument, handle);
    return runtime().events.get(argument, handle);
}

int64_t now_ns() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// The recorded time in nanoseconds; 107006 when there is none.
int64_t require_time(const char* argument, aclrtEvent handle) {
    const int64_t time = get_event(argument, handle)->recorded_ns.load();
    if (time == Event::kNeverRecorded) {
        throw Failure{ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                      fmt::format("{} {} has no time: it was never recorded, or reset since", argument, handle)};
    }
    return time;
}

// Stores a time, or kNeverRecorded, in the order of the stream.
template <class Time>
void mark(aclrtEvent event, aclrtStream stream, Time time) {
    const std::shared_ptr<Event> object = get_event("event", event);
    const std::shared_ptr<Stream> target = resolve_stream("stream", stream);
    const StreamScope scope(*target);
    object->recorded_ns.store(time());
}

}  // namespace

aclError aclrtCreateEvent(aclrtEvent* event) {
    return api_call(
        "aclrtCreateEvent", [&] { create_event(event, ACL_EVENT_TIME_LINE); }, out("event", event));
}

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
    return api_call(
        "aclrtCreateEventWithFlag", [&] { create_event(event, flag); }, out("event", event), arg("flag", flag));
}

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) {
    return api_call(
        "aclrtCreateEventExWithFlag", [&] { create_event(event, flag); }, out("event", event), arg("flag", flag));
}

aclError aclrtDestroyEvent(aclrtEvent event) {
    return api_call(
        "aclrtDestroyEvent",
        [&] {
            const std::shared_ptr<Event> object = get_event("event", event);
            if (!runtime().events.remove(*object)) throw_dead_handle(HandleKind::kEvent, "event", event);
        },
        arg("event", event));
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
    return api_call(
        "aclrtRecordEvent", [&] { mark(event, stream, now_ns); }, arg("event", event), arg("stream", stream));
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
    return api_call(
        "aclrtResetEvent", [&] { mark(event, stream, [] { return Event::kNeverRecorded; }); }, arg("event", event),
        arg("stream", stream));
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
    return api_call(
        "aclrtStreamWaitEvent",
        [&] {
            const std::shared_ptr<Event> object = get_event("event", event);
            const std::shared_ptr<Stream> target = resolve_stream("stream", stream);
            const StreamScope scope(*target);
            static_cast<void>(object->recorded_ns.load(std::memory_order_acquire));
        },
        arg("stream", stream), arg("event", event));
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status) {
    return api_call(
        "aclrtQueryEvent",
        [&] {
            require_not_null("status", status);
            const bool recorded = get_event("event", event)->recorded_ns.load() != Event::kNeverRecorded;
            *status = recorded ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
        },
        arg("event", event), out("status", status));
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
    return api_call(
        "aclrtQueryEventStatus",
        [&] {
            require_not_null("status", status);
            const bool recorded = get_event("event", event)->recorded_ns.load() != Event::kNeverRecorded;
            *status = recorded ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
        },
        arg("event", event), out("status", status));
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status) {
    return api_call(
        "aclrtQueryEventWaitStatus",
        [&] {
            require_not_null("status", status);
            get_event("event", event);
            *status = ACL_EVENT_WAIT_STATUS_COMPLETE;  // waits are over when the call that queues them returns
        },
        arg("event", event), out("status", status));
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
    return api_call(
        "aclrtSynchronizeEvent",
        [&] { static_cast<void>(get_event("event", event)->recorded_ns.load(std::memory_order_acquire)); },
        arg("event", event));
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
    return api_call(
        "aclrtSynchronizeEventWithTimeout",
        [&] {
            require_timeout(timeout);
            static_cast<void>(get_event("event", event)->recorded_ns.load(std::memory_order_acquire));
        },
        arg("event", event), arg("timeout", timeout));
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
    return api_call(
        "aclrtEventElapsedTime",
        [&] {
            require_not_null("ms", ms);
            const int64_t start = require_time("startEvent", startEvent);
            const int64_t end = require_time("endEvent", endEvent);
            if (end < start) {
                throw Failure{ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL,
                              fmt::format("endEvent {} was recorded {} ns before startEvent {}", endEvent, start - end,
                                          startEvent)};
            }
            *ms = static_cast<float>(static_cast<double>(end - start) * 1e-6);
        },
        out("ms", ms), arg("startEvent", startEvent), arg("endEvent", endEvent));
}

aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t* timestamp) {
    return api_call(
        "aclrtEventGetTimestamp",
        [&] {
            require_not_null("timestamp", timestamp);
            *timestamp = static_cast<uint64_t>(require_time("event", event)) / 1000;
        },
        arg("event", event), out("timestamp", timestamp));
}
