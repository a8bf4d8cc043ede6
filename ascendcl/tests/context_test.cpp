// Contexts: current per thread, dead handles, parameters.
#include <thread>

#include "support.h"

namespace {

using ContextTest = RuntimeTest;

TEST_F(ContextTest, CreatedContextIsCurrent) {
    std::thread([] {
        aclrtContext created = nullptr;
        aclrtContext current = nullptr;
        int32_t device = 77;
        ASSERT_EQ(aclrtCreateContext(&created, 0), ACL_SUCCESS) << "without aclrtSetDevice before";
        EXPECT_EQ(aclrtGetCurrentContext(&current), ACL_SUCCESS);
        EXPECT_EQ(current, created);
        EXPECT_EQ(aclrtSetCurrentContext(created), ACL_SUCCESS) << "repeating it is harmless";
        EXPECT_EQ(aclrtGetDevice(&device), ACL_SUCCESS);
        EXPECT_EQ(device, 0);
        EXPECT_EQ(aclrtDestroyContext(created), ACL_SUCCESS);
        expect_failure(aclrtGetCurrentContext(&current), ACL_ERROR_RT_CONTEXT_NULL, {"this thread has no context"});
    }).join();
}

TEST_F(ContextTest, OneContextOnManyThreads) {
    aclrtContext mine = nullptr;
    ASSERT_EQ(aclrtGetCurrentContext(&mine), ACL_SUCCESS);
    std::thread([mine] {
        aclrtContext current = nullptr;
        expect_failure(aclrtGetCurrentContext(&current), ACL_ERROR_RT_CONTEXT_NULL, {"this thread has no context"});
        EXPECT_EQ(aclrtSetCurrentContext(mine), ACL_SUCCESS);
        EXPECT_EQ(aclrtGetCurrentContext(&current), ACL_SUCCESS);
        EXPECT_EQ(current, mine);
    }).join();
}

TEST_F(ContextTest, SwitchingBackAndForth) {
    aclrtContext original = nullptr;
    aclrtContext created = nullptr;
    aclrtContext current = nullptr;
    aclrtStream streams[2] = {};
    ASSERT_EQ(aclrtGetCurrentContext(&original), ACL_SUCCESS);
    ASSERT_EQ(aclrtCtxGetCurrentDefaultStream(&streams[0]), ACL_SUCCESS);
    ASSERT_EQ(aclrtCreateContext(&created, 0), ACL_SUCCESS);
    ASSERT_EQ(aclrtCtxGetCurrentDefaultStream(&streams[1]), ACL_SUCCESS);
    EXPECT_NE(original, created);
    EXPECT_NE(streams[0], streams[1]) << "each context has its own default stream";
    EXPECT_EQ(aclrtSetCurrentContext(original), ACL_SUCCESS);
    EXPECT_EQ(aclrtGetCurrentContext(&current), ACL_SUCCESS);
    EXPECT_EQ(current, original);
    EXPECT_EQ(aclrtDestroyContext(created), ACL_SUCCESS);
    EXPECT_EQ(aclrtGetCurrentContext(&current), ACL_SUCCESS) << "another context's end does not matter here";
    expect_failure(aclrtSynchronizeStream(streams[1]), ACL_ERROR_RT_INVALID_HANDLE, {"stream", "already destroyed"});
}

TEST_F(ContextTest, BadArguments) {
    aclrtContext context = nullptr;
    expect_failure(aclrtCreateContext(nullptr, 0), ACL_ERROR_INVALID_PARAM, {"context cannot be nullptr"});
    expect_failure(aclrtCreateContext(&context, 1), ACL_ERROR_RT_INVALID_DEVICEID, {"deviceId 1 is out of range"});
    EXPECT_EQ(context, nullptr);
    expect_failure(aclrtDestroyContext(nullptr), ACL_ERROR_INVALID_PARAM, {"context cannot be nullptr"});
    expect_failure(aclrtSetCurrentContext(nullptr), ACL_ERROR_INVALID_PARAM, {"context cannot be nullptr"});
    expect_failure(aclrtGetCurrentContext(nullptr), ACL_ERROR_INVALID_PARAM, {"context cannot be nullptr"});
    expect_failure(aclrtCtxGetCurrentDefaultStream(nullptr), ACL_ERROR_INVALID_PARAM, {"stream cannot be nullptr"});
}

TEST_F(ContextTest, DefaultContextIsNotDestroyed) {
    aclrtContext context = nullptr;
    ASSERT_EQ(aclrtGetCurrentContext(&context), ACL_SUCCESS);
    expect_failure(aclrtDestroyContext(context), ACL_ERROR_RT_PARAM_INVALID,
                   {"is the default context of device 0", "aclrtResetDevice"});
    EXPECT_EQ(aclrtSetCurrentContext(context), ACL_SUCCESS) << "it is still alive";
}

TEST_F(ContextTest, DeadAndForeignHandles) {
    aclrtContext original = nullptr;
    ASSERT_EQ(aclrtGetCurrentContext(&original), ACL_SUCCESS);
    aclrtContext context = nullptr;
    ASSERT_EQ(aclrtCreateContext(&context, 0), ACL_SUCCESS);
    ASSERT_EQ(aclrtDestroyContext(context), ACL_SUCCESS);
    ASSERT_EQ(aclrtSetCurrentContext(original), ACL_SUCCESS);
    expect_failure(aclrtDestroyContext(context), ACL_ERROR_RT_INVALID_HANDLE,
                   {"is a context that was already destroyed"});
    expect_failure(aclrtSetCurrentContext(context), ACL_ERROR_RT_INVALID_HANDLE, {"already destroyed"});
    int local = 0;
    expect_failure(aclrtSetCurrentContext(&local), ACL_ERROR_RT_INVALID_HANDLE, {"is not a handle of a context"});
    expect_failure(aclrtSetCurrentContext(stream_), ACL_ERROR_RT_INVALID_HANDLE,
                   {"is a handle of a stream", "context"});
    aclrtContext current = nullptr;
    EXPECT_EQ(aclrtGetCurrentContext(&current), ACL_SUCCESS);
    EXPECT_EQ(current, original) << "a refused handle changes nothing";
}

TEST_F(ContextTest, HandlesAreNotUsedTwice) {
    aclrtContext original = nullptr;
    ASSERT_EQ(aclrtGetCurrentContext(&original), ACL_SUCCESS);
    aclrtContext contexts[2] = {};
    for (aclrtContext& context : contexts) {
        ASSERT_EQ(aclrtCreateContext(&context, 0), ACL_SUCCESS);
        ASSERT_EQ(aclrtDestroyContext(context), ACL_SUCCESS);
    }
    EXPECT_NE(contexts[0], contexts[1]);
    EXPECT_EQ(aclrtSetCurrentContext(original), ACL_SUCCESS);
}

TEST_F(ContextTest, ParametersOfTheContext) {
    aclrtContext original = nullptr;
    ASSERT_EQ(aclrtGetCurrentContext(&original), ACL_SUCCESS);
    aclrtContext context = nullptr;
    ASSERT_EQ(aclrtCreateContext(&context, 0), ACL_SUCCESS);
    int64_t value = 77;
    expect_failure(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), ACL_ERROR_RT_SYSPARAMOPT_NOT_SET,
                   {"opt 0 was not set"});
    EXPECT_EQ(value, 77);
    EXPECT_EQ(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 3), ACL_SUCCESS);
    EXPECT_EQ(aclrtCtxSetSysParamOpt(ACL_OPT_ENABLE_KERNEL_EARLY_START, -5), ACL_SUCCESS);
    EXPECT_EQ(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), ACL_SUCCESS);
    EXPECT_EQ(value, 3);
    EXPECT_EQ(aclrtCtxGetSysParamOpt(ACL_OPT_ENABLE_KERNEL_EARLY_START, &value), ACL_SUCCESS);
    EXPECT_EQ(value, -5);
    for (const int opt : {-1, 4}) {
        const std::string text = "opt " + std::to_string(opt) + " is not supported: expected 0..3";
        expect_failure(aclrtCtxSetSysParamOpt(static_cast<aclSysParamOpt>(opt), 1), ACL_ERROR_INVALID_PARAM, {text});
        expect_failure(aclrtCtxGetSysParamOpt(static_cast<aclSysParamOpt>(opt), &value), ACL_ERROR_INVALID_PARAM,
                       {text});
        expect_failure(aclrtSetSysParamOpt(static_cast<aclSysParamOpt>(opt), 1), ACL_ERROR_INVALID_PARAM, {text});
        expect_failure(aclrtGetSysParamOpt(static_cast<aclSysParamOpt>(opt), &value), ACL_ERROR_INVALID_PARAM, {text});
    }
    expect_failure(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, nullptr), ACL_ERROR_INVALID_PARAM, {"value"});
    EXPECT_EQ(aclrtDestroyContext(context), ACL_SUCCESS);
    expect_failure(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1), ACL_ERROR_RT_CONTEXT_NULL, {"no context"});
    EXPECT_EQ(aclrtSetCurrentContext(original), ACL_SUCCESS);
}

TEST_F(ContextTest, ParametersOfTheProcess) {
    int64_t value = 77;
    EXPECT_EQ(aclrtGetSysParamOpt(ACL_OPT_ENABLE_DEBUG_KERNEL, &value), ACL_SUCCESS);
    EXPECT_EQ(value, 0) << "0 before it is set";
    EXPECT_EQ(aclrtSetSysParamOpt(ACL_OPT_ENABLE_DEBUG_KERNEL, 1), ACL_SUCCESS);
    std::thread([] {
        int64_t seen = 77;
        EXPECT_EQ(aclrtGetSysParamOpt(ACL_OPT_ENABLE_DEBUG_KERNEL, &seen), ACL_SUCCESS) << "needs no context";
        EXPECT_EQ(seen, 1);
    }).join();
    EXPECT_EQ(aclrtSetSysParamOpt(ACL_OPT_ENABLE_DEBUG_KERNEL, 0), ACL_SUCCESS);
    expect_failure(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, nullptr), ACL_ERROR_INVALID_PARAM, {"value"});
}

}  // namespace
