// The vendor's dump and profiler. Dumps are refused, so that nobody waits for files that never come. The profiler's
// hooks succeed: torch-npu calls them around every operator whether or not somebody profiles.
#include <chrono>

#include "acl/acl_rt.h"
#include "compat/unsupported.h"

using ascendcl::arg;
using ascendcl::refused_call;

namespace {

constexpr std::string_view kDump = "dumping the tensors of operators is";

}  // namespace

aclError aclmdlInitDump() {
    return refused_call("aclmdlInitDump", kDump);
}

aclError aclmdlSetDump(const char* dumpCfgPath) {
    return refused_call("aclmdlSetDump", kDump, arg("dumpCfgPath", dumpCfgPath));
}

aclError aclmdlFinalizeDump() {
    return refused_call("aclmdlFinalizeDump", kDump);
}

// The profiler's library has no public header here; its structures are seen as addresses only. Nothing is recorded, and
// the registered command handler is never called, because no profiling session ever starts.
extern "C" {

ASCENDCL_API int32_t MsprofRegisterCallback(uint32_t, int32_t (*)(uint32_t, void*, uint32_t)) {
    return 0;
}
ASCENDCL_API int32_t MsprofReportApi(uint32_t, const void*) {
    return 0;
}
ASCENDCL_API int32_t MsprofReportCompactInfo(uint32_t, const void*, uint32_t) {
    return 0;
}
ASCENDCL_API int32_t MsprofReportAdditionalInfo(uint32_t, const void*, uint32_t) {
    return 0;
}

// A number that stands for a text, the same for the same text (64-bit FNV-1a: offset basis and prime as published).
ASCENDCL_API uint64_t MsprofGetHashId(const char* text, size_t length) {
    uint64_t hash = 0xcbf29ce484222325ULL;
    for (size_t i = 0; text != nullptr && i < length; ++i) {
        hash = (hash ^ static_cast<unsigned char>(text[i])) * 0x100000001b3ULL;
    }
    return hash;
}

// Ticks of a clock that never goes back; one tick is a nanosecond.
ASCENDCL_API uint64_t MsprofSysCycleTime() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // extern "C"
