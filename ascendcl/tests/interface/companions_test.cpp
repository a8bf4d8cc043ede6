// The libraries that torch-npu links or opens by name: each file is there, opens, and what is asked of its handle is
// found or absent as torch-npu expects.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "acl/acl.h"

namespace {

void* open(const std::string& name) {
    void* const handle = dlopen((FUSION_LIBRARY_DIR "/" + name).c_str(), RTLD_LAZY);
    EXPECT_NE(handle, nullptr) << dlerror();
    return handle;
}

TEST(Companions, EmptyLibrariesOpen) {
    for (const char* name :
         {"libhccl.so", "libge_runner.so", "libgraph.so", "libacl_tdt_channel.so", "libmspti.so", "libmsprofiler.so",
          "libms_tools_ext.so", "libascend_hal.so", "libdcmi.so", "libascend_ml.so"}) {
        SCOPED_TRACE(name);
        void* const handle = open(name);
        ASSERT_NE(handle, nullptr);
        // Present names would switch on what nobody implemented.
        EXPECT_EQ(dlsym(handle, "HcclGetRootInfo"), nullptr);
        EXPECT_EQ(dlsym(handle, "aclrtMalloc"), nullptr);
    }
}

// torch-npu looks these up on the handle of libacl_op_compiler.so, although they live in libascendcl.so.
TEST(Companions, OpCompilerLeadsToTheRuntime) {
    void* const handle = open("libacl_op_compiler.so");
    ASSERT_NE(handle, nullptr);
    for (const char* name : {"aclrtSetSysParamOpt", "aclrtGetSysParamOpt", "aclrtCtxSetSysParamOpt", "aclSetCompileopt",
                             "aclGetCompileoptSize", "aclGetCompileopt", "aclopCompileAndExecute"}) {
        EXPECT_NE(dlsym(handle, name), nullptr) << name;
    }
    // The same runtime, not a second copy of it.
    EXPECT_EQ(dlsym(handle, "aclrtMalloc"), reinterpret_cast<void*>(&aclrtMalloc));
}

}  // namespace
