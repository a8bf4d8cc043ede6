// Devices: which one a thread uses, how many there are, and what they are like.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "acl/acl_rt.h"
#include "ascendcl/processors.h"
#include "call.h"
#include "current.h"
#include "wait.h"

using namespace ascendcl;

aclError aclrtSetDevice(int32_t deviceId) {
    return api_call(
        "aclrtSetDevice",
        [&] {
            require_device("deviceId", deviceId);
            set_current_context(*retain_device(deviceId));
        },
        arg("deviceId", deviceId));
}

aclError aclrtResetDevice(int32_t deviceId) {
    return api_call(
        "aclrtResetDevice",
        [&] {
            require_device("deviceId", deviceId);
            release_device(deviceId, false);
        },
        arg("deviceId", deviceId));
}

aclError aclrtResetDeviceForce(int32_t deviceId) {
    return api_call(
        "aclrtResetDeviceForce",
        [&] {
            require_device("deviceId", deviceId);
            release_device(deviceId, true);
        },
        arg("deviceId", deviceId));
}

aclError aclrtGetDevice(int32_t* deviceId) {
    return api_call(
        "aclrtGetDevice",
        [&] {
            require_not_null("deviceId", deviceId);
            *deviceId = require_current_context()->device;
        },
        out("deviceId", deviceId));
}

aclError aclrtGetDeviceCount(uint32_t* count) {
    return api_call(
        "aclrtGetDeviceCount",
        [&] {
            require_not_null("count", count);
            *count = static_cast<uint32_t>(device_count());
        },
        out("count", count));
}

aclError aclrtSynchronizeDevice(void) {
    return api_call("aclrtSynchronizeDevice", [] { wait_for_device(require_current_context()->device, kNoTimeout); });
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
    return api_call(
        "aclrtSynchronizeDeviceWithTimeout",
        [&] {
            require_timeout(timeout);
            wait_for_device(require_current_context()->device, timeout);
        },
        arg("timeout", timeout));
}

aclError aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo* utilizationInfo) {
    return api_call(
        "aclrtGetDeviceUtilizationRate",
        [&] {
            require_not_null("utilizationInfo", utilizationInfo);
            require_device("deviceId", deviceId);
            *utilizationInfo = {};
        },
        arg("deviceId", deviceId), out("utilizationInfo", utilizationInfo));
}

aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t* flags, int32_t* active) {
    return api_call(
        "aclrtGetPrimaryCtxState",
        [&] {
            require_device("deviceId", deviceId);
            if (flags != nullptr) *flags = 0;
            if (active != nullptr) *active = device_is_retained(deviceId) ? 1 : 0;
        },
        arg("deviceId", deviceId), out("flags", flags), out("active", active));
}

aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
    return api_call(
        "aclrtSetDeviceSatMode",
        [&] {
            const int number = number_of(mode);
            if (number != ACL_RT_OVERFLOW_MODE_SATURATION && number != ACL_RT_OVERFLOW_MODE_INFNAN) {
                throw Failure{ACL_ERROR_INVALID_PARAM,
                              fmt::format("mode {} is not supported: expected 0 (saturation) or 1 (INF/NaN)", number)};
            }
            if (number == ACL_RT_OVERFLOW_MODE_SATURATION) {
                warn_once("aclrtSetDeviceSatMode",
                          "aclrtSetDeviceSatMode: saturation has no effect, results overflow to infinities and NaN");
            }
        },
        arg("mode", mode));
}

aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t* value) {
    return api_call(
        "aclGetDeviceCapability",
        [&] {
            require_not_null("value", value);
            require_device("deviceId", deviceId);
            const int number = number_of(deviceInfo);
            switch (number) {
                case ACL_DEVICE_INFO_AI_CORE_NUM:
                case ACL_DEVICE_INFO_VECTOR_CORE_NUM:
                    *value = default_threads();
                    return;
                case ACL_DEVICE_INFO_L2_SIZE:
                    // 0 or -1 where the system does not tell.
                    *value = std::max(0L, sysconf(_SC_LEVEL2_CACHE_SIZE));
                    return;
                default:
                    throw Failure{ACL_ERROR_INVALID_PARAM,
                                  fmt::format("deviceInfo {} is not supported: expected 0 (AI cores), 1 (vector cores) "
                                              "or 2 (L2 size)",
                                              number)};
            }
        },
        arg("deviceId", deviceId), arg("deviceInfo", deviceInfo), out("value", value));
}

aclError aclrtDeviceCanAccessPeer(int32_t* canAccessPeer, int32_t deviceId, int32_t peerDeviceId) {
    return api_call(
        "aclrtDeviceCanAccessPeer",
        [&] {
            require_not_null("canAccessPeer", canAccessPeer);
            require_device("deviceId", deviceId);
            require_device("peerDeviceId", peerDeviceId);
            *canAccessPeer = deviceId != peerDeviceId ? 1 : 0;
        },
        out("canAccessPeer", canAccessPeer), arg("deviceId", deviceId), arg("peerDeviceId", peerDeviceId));
}

aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags) {
    return api_call(
        "aclrtDeviceEnablePeerAccess",
        [&] {
            require_device("peerDeviceId", peerDeviceId);
            if (flags != 0) {
                throw Failure{ACL_ERROR_INVALID_PARAM, fmt::format("flags must be 0 (reserved): got {}", flags)};
            }
        },
        arg("peerDeviceId", peerDeviceId), arg("flags", flags));
}

aclError aclrtDeviceGetBareTgid(int32_t* pid) {
    return api_call(
        "aclrtDeviceGetBareTgid",
        [&] {
            require_not_null("pid", pid);
            *pid = getpid();
        },
        out("pid", pid));
}
