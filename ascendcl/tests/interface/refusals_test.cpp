// What needs an NPU is refused with 500000 and a text that says so; nothing is written.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "recent_error.h"

// Linked by torch-npu, without a public header.
extern "C" {
int32_t rtDevBinaryRegister(const void* binary, void** handle);
int32_t rtFunctionRegister(void* handle, const void* stub, const char* name, const void* device_name, uint32_t mode);
int32_t rtKernelLaunch(const void* stub, uint32_t blocks, void* args, uint32_t args_size, void* sm_desc, void* stream);
int32_t rtGetC2cCtrlAddr(uint64_t* address, uint32_t* length);
}

namespace {

// One place that every output pointer below leads to; its bytes must stay.
struct Outputs {
    void* pointer = reinterpret_cast<void*>(0x1234);
    uint64_t number = 0x5678;
    uint32_t length = 0x9abc;
    int32_t pid = 42;
    bool operator==(const Outputs&) const = default;
};

struct Refusal {
    const char* function;
    const char* what;
    std::function<aclError(Outputs&)> call;
};

const std::vector<Refusal> kRefusals = {
    {"aclrtReserveMemAddress", "virtual memory",
     [](Outputs& o) { return aclrtReserveMemAddress(&o.pointer, 64, 0, nullptr, 0); }},
    {"aclrtReleaseMemAddress", "virtual memory", [](Outputs& o) { return aclrtReleaseMemAddress(&o); }},
    {"aclrtMallocPhysical", "virtual memory",
     [](Outputs& o) {
         const aclrtPhysicalMemProp prop = {};
         return aclrtMallocPhysical(&o.pointer, 64, &prop, 0);
     }},
    {"aclrtFreePhysical", "virtual memory", [](Outputs& o) { return aclrtFreePhysical(&o); }},
    {"aclrtMapMem", "virtual memory", [](Outputs& o) { return aclrtMapMem(&o, 64, 0, &o, 0); }},
    {"aclrtUnmapMem", "virtual memory", [](Outputs& o) { return aclrtUnmapMem(&o); }},
    {"aclrtMemExportToShareableHandle", "between processes",
     [](Outputs& o) { return aclrtMemExportToShareableHandle(&o, ACL_MEM_HANDLE_TYPE_NONE, 0, &o.number); }},
    {"aclrtMemImportFromShareableHandle", "between processes",
     [](Outputs& o) { return aclrtMemImportFromShareableHandle(1, 0, &o.pointer); }},
    {"aclrtMemSetPidToShareableHandle", "between processes",
     [](Outputs& o) { return aclrtMemSetPidToShareableHandle(1, &o.pid, 1); }},
    {"aclrtBinaryLoadFromData", "NPU cores",
     [](Outputs& o) { return aclrtBinaryLoadFromData("x", 1, nullptr, &o.pointer); }},
    {"aclrtBinaryGetFunction", "NPU cores", [](Outputs& o) { return aclrtBinaryGetFunction(&o, "f", &o.pointer); }},
    {"aclrtGetFunctionAddr", "NPU cores", [](Outputs& o) { return aclrtGetFunctionAddr(&o, &o.pointer, &o.pointer); }},
    {"rtDevBinaryRegister", "NPU cores", [](Outputs& o) { return rtDevBinaryRegister(&o, &o.pointer); }},
    {"rtFunctionRegister", "NPU cores", [](Outputs& o) { return rtFunctionRegister(&o, &o, "f", nullptr, 0); }},
    {"rtKernelLaunch", "NPU cores", [](Outputs& o) { return rtKernelLaunch(&o, 1, &o, 8, nullptr, nullptr); }},
    {"rtGetC2cCtrlAddr", "NPU cores", [](Outputs& o) { return rtGetC2cCtrlAddr(&o.number, &o.length); }},
    {"aclmdlInitDump", "dumping", [](Outputs&) { return aclmdlInitDump(); }},
    {"aclmdlSetDump", "dumping", [](Outputs&) { return aclmdlSetDump("acl.json"); }},
    {"aclmdlFinalizeDump", "dumping", [](Outputs&) { return aclmdlFinalizeDump(); }},
    {"aclrtProcessReport", "aclrtLaunchHostFunc", [](Outputs&) { return aclrtProcessReport(-1); }},
};

TEST(Refusals, CodeTextAndNoSideEffect) {
    for (const Refusal& refusal : kRefusals) {
        SCOPED_TRACE(refusal.function);
        Outputs outputs;
        EXPECT_EQ(refusal.call(outputs), ACL_ERROR_INTERNAL_ERROR);
        EXPECT_EQ(outputs, Outputs{});
        const std::string text = recent_error();
        EXPECT_NE(text.find(std::string(refusal.function) + ": "), std::string::npos) << text;
        EXPECT_NE(text.find(refusal.what), std::string::npos) << text;
        EXPECT_NE(text.find("not available on the CPU engine"), std::string::npos) << text;
        EXPECT_EQ(text.find('\n'), std::string::npos) << "more than one entry: " << text;
    }
}

}  // namespace
