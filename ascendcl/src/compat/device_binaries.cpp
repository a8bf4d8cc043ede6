// Programs for the NPU's own cores: loading, registering and launching them.
#include "acl/acl_rt.h"
#include "compat/unsupported.h"

using ascendcl::arg;
using ascendcl::refused_call;

namespace {

constexpr std::string_view kBinaries = "programs compiled for NPU cores are";

}  // namespace

aclError aclrtBinaryLoadFromData(const void* data, size_t length, const aclrtBinaryLoadOptions* options,
                                 aclrtBinHandle* binHandle) {
    return refused_call("aclrtBinaryLoadFromData", kBinaries, arg("data", data), arg("length", length),
                        arg("options", options), arg("binHandle", binHandle));
}

aclError aclrtBinaryGetFunction(const aclrtBinHandle binHandle, const char* kernelName, aclrtFuncHandle* funcHandle) {
    return refused_call("aclrtBinaryGetFunction", kBinaries, arg("binHandle", binHandle), arg("kernelName", kernelName),
                        arg("funcHandle", funcHandle));
}

aclError aclrtGetFunctionAddr(aclrtFuncHandle funcHandle, void** aicAddr, void** aivAddr) {
    return refused_call("aclrtGetFunctionAddr", kBinaries, arg("funcHandle", funcHandle), arg("aicAddr", aicAddr),
                        arg("aivAddr", aivAddr));
}

// The layer under AscendCL has no public header; these are its four functions that torch-npu links. Their structures
// are seen as addresses only.
extern "C" {

ASCENDCL_API int32_t rtDevBinaryRegister(const void* binary, void** handle) {
    return refused_call("rtDevBinaryRegister", kBinaries, arg("binary", binary), arg("handle", handle));
}

ASCENDCL_API int32_t rtFunctionRegister(void* handle, const void* stub, const char* name, const void* device_name,
                                        uint32_t mode) {
    return refused_call("rtFunctionRegister", kBinaries, arg("handle", handle), arg("stub", stub), arg("name", name),
                        arg("device_name", device_name), arg("mode", mode));
}

ASCENDCL_API int32_t rtKernelLaunch(const void* stub, uint32_t blocks, void* args, uint32_t args_size, void* sm_desc,
                                    void* stream) {
    return refused_call("rtKernelLaunch", kBinaries, arg("stub", stub), arg("blocks", blocks), arg("args", args),
                        arg("args_size", args_size), arg("sm_desc", sm_desc), arg("stream", stream));
}

ASCENDCL_API int32_t rtGetC2cCtrlAddr(uint64_t* address, uint32_t* length) {
    return refused_call("rtGetC2cCtrlAddr", "the address for synchronising NPU cores is", arg("address", address),
                        arg("length", length));
}

}  // extern "C"
