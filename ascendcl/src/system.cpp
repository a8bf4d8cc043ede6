// What the engine says about itself, and limits that have no meaning for work that runs at once.
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "acl/acl_rt.h"
#include "call.h"
#include "first_answer.h"

using namespace ascendcl;

namespace {

// Chooses the classic operator versions in programs that branch on the name.
constexpr const char* kDefaultSocName = "Ascend910B2";

// The version of the stack that this one stands for: 8.5.0.
constexpr int32_t kStackVersion = 8 * 10000000 + 5 * 100000 + 0 * 1000;

const char* read_soc_name() {
    const char* const asked = std::getenv("ASCEND_CPU_SOC");
    if (asked == nullptr || *asked == '\0') return kDefaultSocName;
    if (std::string_view(asked).substr(0, 6) != "Ascend") {
        warn_once("ASCEND_CPU_SOC",
                  fmt::format("ASCEND_CPU_SOC is \"{}\": expected a name that starts with Ascend; using {}", asked,
                              kDefaultSocName));
        return kDefaultSocName;
    }
    // A copy, because the environment may change under the returned pointer. Never freed: a thread that looks at the
    // same time as the first one leaves its own behind.
    const char* const copy = strdup(asked);
    return copy == nullptr ? kDefaultSocName : copy;
}

const char* soc_name() {
    static constinit std::atomic<const char*> kept{nullptr};
    return first_answer<const char*>(kept, nullptr, read_soc_name);
}

}  // namespace

aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion) {
    return api_call(
        "aclrtGetVersion",
        [&] {
            require_not_null("majorVersion", majorVersion);
            require_not_null("minorVersion", minorVersion);
            require_not_null("patchVersion", patchVersion);
            *majorVersion = ACL_MAJOR_VERSION;
            *minorVersion = ACL_MINOR_VERSION;
            *patchVersion = ACL_PATCH_VERSION;
        },
        out("majorVersion", majorVersion), out("minorVersion", minorVersion), out("patchVersion", patchVersion));
}

aclError aclsysGetVersionNum(char* pkgName, int32_t* versionNum) {
    return api_call(
        "aclsysGetVersionNum",
        [&] {
            require_not_null("pkgName", pkgName);
            require_not_null("versionNum", versionNum);
            *versionNum = kStackVersion;
        },
        arg("pkgName", static_cast<const char*>(pkgName)), out("versionNum", versionNum));
}

aclError aclrtGetRunMode(aclrtRunMode* runMode) {
    return api_call(
        "aclrtGetRunMode",
        [&] {
            require_not_null("runMode", runMode);
            *runMode = ACL_HOST;
        },
        out("runMode", runMode));
}

const char* aclrtGetSocName(void) {
    return api_value("aclrtGetSocName", kDefaultSocName, [] { return soc_name(); });
}

// Work runs to its end on the calling thread: there is nothing that these limits could stop.
aclError aclrtSetOpExecuteTimeOut(uint32_t timeout) {
    return api_call(
        "aclrtSetOpExecuteTimeOut", [] {}, arg("timeout", timeout));
}

aclError aclrtSetOpWaitTimeout(uint32_t timeout) {
    return api_call(
        "aclrtSetOpWaitTimeout", [] {}, arg("timeout", timeout));
}
