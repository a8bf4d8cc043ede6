// Devices: current device, counting, reset orders, synchronising, figures.
#include <atomic>
#include <thread>

#include "ascendcl/processors.h"
#include "support.h"

namespace {

// Threads start without a device, which the main thread of the tests may no longer be.
template <class Body>
void on_fresh_thread(Body body) {
    std::thread(body).join();
}

constexpr const char* kNoContext = "this thread has no context; call aclrtSetDevice or aclrtSetCurrentContext first";

TEST(Device, FreshThreadHasNone) {
    on_fresh_thread([] {
        int32_t device = 77;
        expect_failure(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL, {"aclrtGetDevice", kNoContext});
        EXPECT_EQ(device, 77) << "nothing is written on failure";
        expect_failure(aclrtSynchronizeDevice(), ACL_ERROR_RT_CONTEXT_NULL, {kNoContext});
        expect_failure(aclrtSynchronizeDeviceWithTimeout(-1), ACL_ERROR_RT_CONTEXT_NULL, {kNoContext});
    });
}

TEST(Device, SetMakesItCurrent) {
    on_fresh_thread([] {
        ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
        int32_t device = 77;
        EXPECT_EQ(aclrtGetDevice(&device), ACL_SUCCESS);
        EXPECT_EQ(device, 0);
        EXPECT_EQ(aclrtSynchronizeDevice(), ACL_SUCCESS);
        EXPECT_EQ(aclrtResetDevice(0), ACL_SUCCESS);
    });
}

TEST(Device, OutOfRange) {
    for (const int32_t id : {-1, 1, 1000, INT32_MIN, INT32_MAX}) {
        const std::string text = "deviceId " + std::to_string(id) + " is out of range, valid 0..0";
        expect_failure(aclrtSetDevice(id), ACL_ERROR_RT_INVALID_DEVICEID, {text});
        expect_failure(aclrtResetDevice(id), ACL_ERROR_RT_INVALID_DEVICEID, {text});
        expect_failure(aclrtResetDeviceForce(id), ACL_ERROR_RT_INVALID_DEVICEID, {text});
        int32_t active = 77;
        expect_failure(aclrtGetPrimaryCtxState(id, nullptr, &active), ACL_ERROR_RT_INVALID_DEVICEID, {text});
        EXPECT_EQ(active, 77);
    }
}

TEST(Device, NullPointers) {
    expect_failure(aclrtGetDevice(nullptr), ACL_ERROR_INVALID_PARAM, {"deviceId cannot be nullptr"});
    expect_failure(aclrtGetDeviceCount(nullptr), ACL_ERROR_INVALID_PARAM, {"count cannot be nullptr"});
    expect_failure(aclrtGetDeviceUtilizationRate(0, nullptr), ACL_ERROR_INVALID_PARAM, {"utilizationInfo"});
    expect_failure(aclGetDeviceCapability(0, ACL_DEVICE_INFO_AI_CORE_NUM, nullptr), ACL_ERROR_INVALID_PARAM, {"value"});
    expect_failure(aclrtDeviceCanAccessPeer(nullptr, 0, 0), ACL_ERROR_INVALID_PARAM, {"canAccessPeer"});
    expect_failure(aclrtDeviceGetBareTgid(nullptr), ACL_ERROR_INVALID_PARAM, {"pid"});
}

int32_t active() {
    uint32_t flags = 77;
    int32_t active = 77;
    EXPECT_EQ(aclrtGetPrimaryCtxState(0, &flags, &active), ACL_SUCCESS);
    EXPECT_EQ(flags, 0U);
    EXPECT_EQ(aclrtGetPrimaryCtxState(0, nullptr, nullptr), ACL_SUCCESS);
    return active;
}

TEST(Device, ResetCountsSets) {
    on_fresh_thread([] {
        EXPECT_EQ(active(), 0);
        expect_failure(aclrtResetDevice(0), ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, {"deviceId 0 is not in use"});
        ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
        ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
        EXPECT_EQ(active(), 1);
        EXPECT_EQ(aclrtResetDevice(0), ACL_SUCCESS);
        int32_t device = 77;
        EXPECT_EQ(aclrtGetDevice(&device), ACL_SUCCESS) << "one use is left";
        EXPECT_EQ(active(), 1);
        EXPECT_EQ(aclrtResetDevice(0), ACL_SUCCESS);
        EXPECT_EQ(active(), 0);
        expect_failure(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL, {kNoContext});
        expect_failure(aclrtResetDevice(0), ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, {"deviceId 0 is not in use"});
    });
}

TEST(Device, ForcedResetEndsAtOnce) {
    on_fresh_thread([] {
        expect_failure(aclrtResetDeviceForce(0), ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, {"deviceId 0 is not in use"});
        for (int i = 0; i < 3; ++i) ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
        EXPECT_EQ(aclrtResetDeviceForce(0), ACL_SUCCESS);
        EXPECT_EQ(active(), 0);
    });
}

TEST(Device, ThreadsShareTheDefaultContextAndStream) {
    aclrtContext contexts[2] = {};
    aclrtStream streams[2] = {};
    for (int i = 0; i < 2; ++i) {
        on_fresh_thread([&] {
            ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
            ASSERT_EQ(aclrtGetCurrentContext(&contexts[i]), ACL_SUCCESS);
            ASSERT_EQ(aclrtCtxGetCurrentDefaultStream(&streams[i]), ACL_SUCCESS);
        });
    }
    EXPECT_NE(contexts[0], nullptr);
    EXPECT_EQ(contexts[0], contexts[1]);
    EXPECT_NE(streams[0], nullptr);
    EXPECT_EQ(streams[0], streams[1]);
    EXPECT_EQ(aclrtResetDeviceForce(0), ACL_SUCCESS);
}

TEST(Device, ResetReachesOtherThreads) {
    std::atomic<int> step{0};
    aclError before = -1;
    aclError after = -1;
    std::thread other([&] {
        aclrtSetDevice(0);
        int32_t device = 0;
        before = aclrtGetDevice(&device);
        step = 1;
        while (step != 2) std::this_thread::yield();
        after = aclrtGetDevice(&device);
    });
    while (step != 1) std::this_thread::yield();
    EXPECT_EQ(aclrtResetDeviceForce(0), ACL_SUCCESS);
    step = 2;
    other.join();
    EXPECT_EQ(before, ACL_SUCCESS);
    EXPECT_EQ(after, ACL_ERROR_RT_CONTEXT_NULL);
}

// The usual order of teardown, and the one that people get wrong: streams, contexts and memory outlive the reset.
TEST(Device, ResetBeforeDestroying) {
    on_fresh_thread([] {
        ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
        aclrtContext context = nullptr;
        aclrtStream stream = nullptr;
        aclrtEvent event = nullptr;
        void* block = nullptr;
        ASSERT_EQ(aclrtCreateContext(&context, 0), ACL_SUCCESS);
        ASSERT_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
        ASSERT_EQ(aclrtCreateEvent(&event), ACL_SUCCESS);
        ASSERT_EQ(aclrtMalloc(&block, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
        EXPECT_EQ(aclrtResetDevice(0), ACL_SUCCESS);
        EXPECT_EQ(aclrtMemsetAsync(block, 64, 1, 64, stream), ACL_SUCCESS);
        EXPECT_EQ(aclrtRecordEvent(event, stream), ACL_SUCCESS);
        EXPECT_EQ(aclrtFree(block), ACL_SUCCESS);
        EXPECT_EQ(aclrtDestroyEvent(event), ACL_SUCCESS);
        EXPECT_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
        EXPECT_EQ(aclrtDestroyContext(context), ACL_SUCCESS);
    });
}

TEST(Device, Timeouts) {
    on_fresh_thread([] {
        ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
        for (const int32_t timeout : {0, -2, INT32_MIN}) {
            expect_failure(aclrtSynchronizeDeviceWithTimeout(timeout), ACL_ERROR_RT_PARAM_INVALID,
                           {"timeout must be -1", "got " + std::to_string(timeout)});
        }
        EXPECT_EQ(aclrtSynchronizeDeviceWithTimeout(-1), ACL_SUCCESS);
        EXPECT_EQ(aclrtSynchronizeDeviceWithTimeout(1), ACL_SUCCESS);
        EXPECT_EQ(aclrtSynchronizeDeviceWithTimeout(INT32_MAX), ACL_SUCCESS);
        EXPECT_EQ(aclrtResetDevice(0), ACL_SUCCESS);
    });
}

TEST(Device, Capability) {
    int64_t cores = 0;
    ASSERT_EQ(aclGetDeviceCapability(0, ACL_DEVICE_INFO_AI_CORE_NUM, &cores), ACL_SUCCESS);
    EXPECT_EQ(cores, ascendcl::default_threads());
    int64_t vector_cores = 0;
    ASSERT_EQ(aclGetDeviceCapability(0, ACL_DEVICE_INFO_VECTOR_CORE_NUM, &vector_cores), ACL_SUCCESS);
    EXPECT_EQ(vector_cores, cores);
    int64_t cache = -1;
    ASSERT_EQ(aclGetDeviceCapability(0, ACL_DEVICE_INFO_L2_SIZE, &cache), ACL_SUCCESS);
    EXPECT_GE(cache, 0);
    expect_failure(aclGetDeviceCapability(0, static_cast<aclDeviceInfo>(3), &cache), ACL_ERROR_INVALID_PARAM,
                   {"deviceInfo 3"});
    expect_failure(aclGetDeviceCapability(0, ACL_DEVICE_INFO_UNDEFINED, &cache), ACL_ERROR_INVALID_PARAM,
                   {"deviceInfo -1"});
    expect_failure(aclGetDeviceCapability(4000000000U, ACL_DEVICE_INFO_L2_SIZE, &cache), ACL_ERROR_RT_INVALID_DEVICEID,
                   {"deviceId 4000000000"});
}

TEST(Device, Peers) {
    int32_t can = 77;
    EXPECT_EQ(aclrtDeviceCanAccessPeer(&can, 0, 0), ACL_SUCCESS);
    EXPECT_EQ(can, 0) << "a device is no peer of itself";
    expect_failure(aclrtDeviceCanAccessPeer(&can, 0, 1), ACL_ERROR_RT_INVALID_DEVICEID, {"peerDeviceId 1"});
    expect_failure(aclrtDeviceCanAccessPeer(&can, 5, 0), ACL_ERROR_RT_INVALID_DEVICEID, {"deviceId 5"});
    EXPECT_EQ(aclrtDeviceEnablePeerAccess(0, 0), ACL_SUCCESS);
    expect_failure(aclrtDeviceEnablePeerAccess(1, 0), ACL_ERROR_RT_INVALID_DEVICEID, {"peerDeviceId 1"});
    expect_failure(aclrtDeviceEnablePeerAccess(0, 2), ACL_ERROR_INVALID_PARAM, {"flags must be 0", "got 2"});
}

TEST(Device, SatMode) {
    EXPECT_EQ(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN), ACL_SUCCESS);
    EXPECT_EQ(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_SATURATION), ACL_SUCCESS);
    expect_failure(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_UNDEF), ACL_ERROR_INVALID_PARAM, {"mode 2"});
}

TEST(Device, SmallQuestions) {
    aclrtUtilizationInfo info{1, 2, 3, 4, nullptr};
    EXPECT_EQ(aclrtGetDeviceUtilizationRate(0, &info), ACL_SUCCESS);
    EXPECT_EQ(info.cubeUtilization + info.vectorUtilization + info.aicpuUtilization + info.memoryUtilization, 0);
    expect_failure(aclrtGetDeviceUtilizationRate(1, &info), ACL_ERROR_RT_INVALID_DEVICEID, {"deviceId 1"});
    int32_t pid = 0;
    EXPECT_EQ(aclrtDeviceGetBareTgid(&pid), ACL_SUCCESS);
    EXPECT_EQ(pid, getpid());
    aclrtRunMode mode = ACL_DEVICE;
    EXPECT_EQ(aclrtGetRunMode(&mode), ACL_SUCCESS);
    EXPECT_EQ(mode, ACL_HOST);
    expect_failure(aclrtGetRunMode(nullptr), ACL_ERROR_INVALID_PARAM, {"runMode cannot be nullptr"});
    EXPECT_EQ(aclrtSetOpExecuteTimeOut(547), ACL_SUCCESS);
    EXPECT_EQ(aclrtSetOpWaitTimeout(547), ACL_SUCCESS);
}

TEST(Device, Versions) {
    int32_t major = 0;
    int32_t minor = 0;
    int32_t patch = -1;
    EXPECT_EQ(aclrtGetVersion(&major, &minor, &patch), ACL_SUCCESS);
    EXPECT_EQ(major, 1);
    EXPECT_EQ(minor, 17);
    EXPECT_EQ(patch, 0);
    expect_failure(aclrtGetVersion(&major, nullptr, &patch), ACL_ERROR_INVALID_PARAM, {"minorVersion"});
    char package[] = "runtime";
    int32_t number = 0;
    EXPECT_EQ(aclsysGetVersionNum(package, &number), ACL_SUCCESS);
    EXPECT_EQ(number, 80500000);
    expect_failure(aclsysGetVersionNum(nullptr, &number), ACL_ERROR_INVALID_PARAM, {"pkgName"});
    expect_failure(aclsysGetVersionNum(package, nullptr), ACL_ERROR_INVALID_PARAM, {"versionNum"});
}

}  // namespace
