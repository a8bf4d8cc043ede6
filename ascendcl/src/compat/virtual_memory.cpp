// Address ranges apart from their memory, and memory shared between processes. torch-npu uses them for
// expandable_segments:True only, and falls on its feet with the text of the refusal.
#include "acl/acl_rt.h"
#include "compat/unsupported.h"

using ascendcl::arg;
using ascendcl::refused_call;

namespace {

constexpr std::string_view kVirtualMemory = "virtual memory functions (expandable_segments) are";
constexpr std::string_view kSharing = "sharing device memory between processes is";

}  // namespace

aclError aclrtReserveMemAddress(void** virPtr, size_t size, size_t alignment, void* expectPtr, uint64_t flags) {
    return refused_call("aclrtReserveMemAddress", kVirtualMemory, arg("virPtr", virPtr), arg("size", size),
                        arg("alignment", alignment), arg("expectPtr", expectPtr), arg("flags", flags));
}

aclError aclrtReleaseMemAddress(void* virPtr) {
    return refused_call("aclrtReleaseMemAddress", kVirtualMemory, arg("virPtr", virPtr));
}

aclError aclrtMallocPhysical(aclrtDrvMemHandle* handle, size_t size, const aclrtPhysicalMemProp* prop, uint64_t flags) {
    return refused_call("aclrtMallocPhysical", kVirtualMemory, arg("handle", handle), arg("size", size),
                        arg("prop", prop), arg("flags", flags));
}

aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
    return refused_call("aclrtFreePhysical", kVirtualMemory, arg("handle", handle));
}

aclError aclrtMapMem(void* virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags) {
    return refused_call("aclrtMapMem", kVirtualMemory, arg("virPtr", virPtr), arg("size", size), arg("offset", offset),
                        arg("handle", handle), arg("flags", flags));
}

aclError aclrtUnmapMem(void* virPtr) {
    return refused_call("aclrtUnmapMem", kVirtualMemory, arg("virPtr", virPtr));
}

aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, aclrtMemHandleType handleType, uint64_t flags,
                                         uint64_t* shareableHandle) {
    return refused_call("aclrtMemExportToShareableHandle", kSharing, arg("handle", handle),
                        arg("handleType", handleType), arg("flags", flags), arg("shareableHandle", shareableHandle));
}

aclError aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t deviceId, aclrtDrvMemHandle* handle) {
    return refused_call("aclrtMemImportFromShareableHandle", kSharing, arg("shareableHandle", shareableHandle),
                        arg("deviceId", deviceId), arg("handle", handle));
}

aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t* pid, size_t pidNum) {
    return refused_call("aclrtMemSetPidToShareableHandle", kSharing, arg("shareableHandle", shareableHandle),
                        arg("pid", pid), arg("pidNum", pidNum));
}
