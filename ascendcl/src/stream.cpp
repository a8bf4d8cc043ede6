// Streams: creation, waiting, and the one seam through which work runs on them.
#include "ascendcl/stream.h"

#include <fmt/format.h>

#include "acl/acl_rt.h"
#include "call.h"
#include "current.h"
#include "runtime.h"
#include "wait.h"

using namespace ascendcl;

namespace {

constexpr uint32_t kKnownStreamFlags = ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC | ACL_STREAM_PERSISTENT |
                                       ACL_STREAM_HUGE | ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY;

void create_stream(aclrtStream* stream, uint32_t priority, uint32_t flags) {
    require_not_null("stream", stream);
    if ((flags & ~kKnownStreamFlags) != 0) {
        throw Failure{ACL_ERROR_RT_PARAM_INVALID, fmt::format("flag {:#x} has unknown bits {:#x}: known are {:#x}",
                                                              flags, flags & ~kKnownStreamFlags, kKnownStreamFlags)};
    }
    *stream = make_stream(require_current_context()->device, priority, flags, false)->handle;
}

// The stream that may be destroyed under `handle`; its handle is dead afterwards.
std::shared_ptr<Stream> retire_stream(aclrtStream handle) {
    require_not_null("stream", handle);
    std::shared_ptr<Stream> stream = runtime().streams.get("stream", handle);
    if (stream->is_default) {
        throw Failure{ACL_ERROR_RT_PARAM_INVALID,
                      fmt::format("stream {} is the default stream of its context: it ends with the context", handle)};
    }
    require_not_inside(*stream);
    if (!runtime().streams.remove(*stream)) throw_dead_handle(HandleKind::kStream, "stream", handle);
    return stream;
}

}  // namespace

namespace ascendcl {

aclError submit(aclrtStream stream, TaskRef task, std::string& problem) noexcept {
    try {
        const std::shared_ptr<Stream> target = resolve_stream("stream", stream);
        const StreamScope scope(*target);
        task.call(task.context);
        return ACL_SUCCESS;
    } catch (Failure& failure) {
        problem = std::move(failure.text);
        return failure.code;
    } catch (...) {  // only memory can run out here, so nothing is formatted
        return ACL_ERROR_BAD_ALLOC;
    }
}

void prepare_default_stream() noexcept {
    try {
        resolve_stream("stream", nullptr);
    } catch (...) {  // submit() fails in the same way and says why
    }
}

aclrtStream thread_stream() noexcept {
    struct Owner {
        std::shared_ptr<Stream> stream;
        ~Owner() {
            if (stream != nullptr) runtime().streams.remove(*stream);
        }
    };
    static thread_local Owner owner;
    try {
        if (owner.stream == nullptr) {
            require_device("the default device", 0);
            owner.stream = make_stream(0, 0, 0, false);
        }
        return owner.stream->handle;
    } catch (...) {
        return nullptr;
    }
}

}  // namespace ascendcl

aclError aclrtCreateStream(aclrtStream* stream) {
    return api_call(
        "aclrtCreateStream", [&] { create_stream(stream, 0, 0); }, out("stream", stream));
}

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag) {
    return api_call(
        "aclrtCreateStreamWithConfig", [&] { create_stream(stream, priority, flag); }, out("stream", stream),
        arg("priority", priority), arg("flag", flag));
}

aclError aclrtDestroyStream(aclrtStream stream) {
    return api_call(
        "aclrtDestroyStream", [&] { wait_for_stream(*retire_stream(stream), kNoTimeout); }, arg("stream", stream));
}

aclError aclrtDestroyStreamForce(aclrtStream stream) {
    return api_call(
        "aclrtDestroyStreamForce", [&] { retire_stream(stream); }, arg("stream", stream));
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
    return api_call(
        "aclrtSynchronizeStream", [&] { wait_for_stream(*resolve_stream("stream", stream), kNoTimeout); },
        arg("stream", stream));
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
    return api_call(
        "aclrtSynchronizeStreamWithTimeout",
        [&] {
            require_timeout(timeout);
            wait_for_stream(*resolve_stream("stream", stream), timeout);
        },
        arg("stream", stream), arg("timeout", timeout));
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
    return api_call(
        "aclrtStreamQuery",
        [&] {
            require_not_null("status", status);
            const bool busy = resolve_stream("stream", stream)->execution.busy();
            *status = busy ? ACL_STREAM_STATUS_NOT_READY : ACL_STREAM_STATUS_COMPLETE;
        },
        arg("stream", stream), out("status", status));
}

aclError aclrtStreamGetId(aclrtStream stream, int32_t* streamId) {
    return api_call(
        "aclrtStreamGetId",
        [&] {
            require_not_null("streamId", streamId);
            *streamId = resolve_stream("stream", stream)->id;
        },
        arg("stream", stream), out("streamId", streamId));
}

aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t* priority) {
    return api_call(
        "aclrtStreamGetPriority",
        [&] {
            require_not_null("priority", priority);
            *priority = resolve_stream("stream", stream)->priority;
        },
        arg("stream", stream), out("priority", priority));
}

aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t* flags) {
    return api_call(
        "aclrtStreamGetFlags",
        [&] {
            require_not_null("flags", flags);
            *flags = resolve_stream("stream", stream)->flags;
        },
        arg("stream", stream), out("flags", flags));
}

aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
    return api_call(
        "aclrtSetStreamFailureMode",
        [&] {
            if (stream == nullptr) {
                throw Failure{ACL_ERROR_INVALID_PARAM,
                              "stream cannot be nullptr: the failure mode of a default stream cannot be changed"};
            }
            if (mode != ACL_CONTINUE_ON_FAILURE && mode != ACL_STOP_ON_FAILURE) {
                throw Failure{ACL_ERROR_INVALID_PARAM,
                              fmt::format("mode {} is not supported: expected 0 (continue) or 1 (stop)", mode)};
            }
            runtime().streams.get("stream", stream);  // must be alive
        },
        arg("stream", stream), arg("mode", mode));
}

aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag) {
    return api_call(
        "aclrtSetStreamOverflowSwitch",
        [&] {
            if (flag > 1) {
                throw Failure{ACL_ERROR_INVALID_PARAM,
                              fmt::format("flag {} is not supported: expected 0 (off) or 1 (on)", flag)};
            }
            resolve_stream("stream", stream)->overflow_switch.store(flag);
        },
        arg("stream", stream), arg("flag", flag));
}

aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t* flag) {
    return api_call(
        "aclrtGetStreamOverflowSwitch",
        [&] {
            require_not_null("flag", flag);
            *flag = resolve_stream("stream", stream)->overflow_switch.load();
        },
        arg("stream", stream), out("flag", flag));
}

aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void* args) {
    return api_call(
        "aclrtLaunchHostFunc",
        [&] {
            if (fn == nullptr) throw Failure{ACL_ERROR_INVALID_PARAM, "fn cannot be nullptr"};
            const std::shared_ptr<Stream> target = resolve_stream("stream", stream);
            const StreamScope scope(*target);
            fn(args);
        },
        arg("stream", stream), arg("fn", fn), arg("args", args));
}

aclError aclrtProcessReport(int32_t timeout) {
    return api_call(
        "aclrtProcessReport",
        [&] {
            throw Failure{ACL_ERROR_INTERNAL_ERROR,
                          "callbacks that a subscribed thread processes are not available on the CPU engine; use "
                          "aclrtLaunchHostFunc"};
        },
        arg("timeout", timeout));
}
