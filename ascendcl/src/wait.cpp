#include "wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "call.h"
#include "runtime.h"

namespace ascendcl {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

}  // namespace

void require_timeout(int32_t timeout) {
    if (timeout == kNoTimeout || timeout > 0) return;
    throw Failure{ACL_ERROR_RT_PARAM_INVALID,
                  fmt::format("timeout must be -1 (no limit) or a positive number of milliseconds: got {}", timeout)};
}

void require_not_inside(Stream& stream) {
    if (!stream.execution.held_by_this_thread()) return;
    throw Failure{ACL_ERROR_RT_PARAM_INVALID,
                  fmt::format("called from a callback that runs on stream {} ({}): it would wait for itself",
                              stream.handle, stream.is_default ? "a default stream" : "created by the program")};
}

void wait_for_stream(Stream& stream, int32_t timeout) {
    require_not_inside(stream);
    const std::optional<milliseconds> limit =
        timeout == kNoTimeout ? std::nullopt : std::optional(milliseconds(timeout));
    if (stream.execution.wait_idle(limit)) return;
    throw Failure{ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                  fmt::format("stream {} did not finish within timeout {} ms", stream.handle, timeout)};
}

void wait_for_device(int32_t device, int32_t timeout) {
    std::vector<std::shared_ptr<Stream>> streams;
    runtime().streams.for_each([&](const std::shared_ptr<Stream>& stream) {
        if (stream->device == device) streams.push_back(stream);
    });
    for (const auto& stream : streams) require_not_inside(*stream);
    const auto deadline = steady_clock::now() + milliseconds(std::max(timeout, 0));
    for (const auto& stream : streams) {
        std::optional<milliseconds> limit;
        if (timeout != kNoTimeout) {
            // Rounded up, so that the whole limit is waited for; past the deadline a stream may still prove idle.
            limit = std::max(std::chrono::ceil<milliseconds>(deadline - steady_clock::now()), milliseconds(0));
        }
        if (!stream->execution.wait_idle(limit)) {
            throw Failure{ACL_ERROR_RT_WAIT_TIMEOUT,
                          fmt::format("stream {} of device {} did not finish within timeout {} ms", stream->handle,
                                      device, timeout)};
        }
    }
}

}  // namespace ascendcl
