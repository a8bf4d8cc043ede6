// The runtime: initialisation, devices, contexts, streams, events, and parameters. Memory is in acl/acl_rt_memory.h,
// which this header includes. Valid C99 and C++11; all functions have C linkage and may be called from any thread.
//
// The engine runs on the CPU and shows itself as a device:
//  * Streams execute at once, on the thread that submits and under the stream's lock: when a call that queues work
//    returns, the work is done. Programs must still synchronise as on a device; every observable order holds.
//  * Device memory is ordinary process memory.
//  * Every non-zero return queues exactly one text for aclGetRecentErrMsg() on the calling thread. A text names the
//    argument, its value and the rule. ACL_ERROR_RT_FEATURE_NOT_SUPPORT (207000) is never returned.
//
// Codes used below: INVALID_PARAM 100000 (null pointer or value that is no member of its enumeration), PARAM_INVALID
// 107000, INVALID_DEVICEID 107001, CONTEXT_NULL 107002, INVALID_HANDLE 107017 (a handle that is not, or no longer,
// alive), INTERNAL_ERROR 500000 ("not supported on the CPU engine").
#ifndef FUSION_ATTENTION_ACL_ACL_RT_H_
#define FUSION_ATTENTION_ACL_ACL_RT_H_

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"
#include "acl/acl_rt_allocator.h"
#include "acl/acl_rt_memory.h"

#ifdef __cplusplus
extern "C" {
#endif

// Version of this interface; aclrtGetVersion reports the same three numbers.
#define ACL_MAJOR_VERSION 1
#define ACL_MINOR_VERSION 17
#define ACL_PATCH_VERSION 0

// Event flags. They are hints here: every event can be waited for and carries a time stamp.
#define ACL_EVENT_SYNC 0x00000001U
#define ACL_EVENT_CAPTURE_STREAM_PROGRESS 0x00000002U
#define ACL_EVENT_TIME_LINE 0x00000008U
#define ACL_EVENT_DEVICE_USE_ONLY 0x00000010U
#define ACL_EVENT_EXTERNAL 0x00000020U
#define ACL_EVENT_IPC 0x00000040U

// Stream flags, hints as well.
#define ACL_STREAM_FAST_LAUNCH 0x00000001U
#define ACL_STREAM_FAST_SYNC 0x00000002U
#define ACL_STREAM_PERSISTENT 0x00000004U
#define ACL_STREAM_HUGE 0x00000008U
#define ACL_STREAM_CPU_SCHEDULE 0x00000010U
#define ACL_STREAM_DEVICE_USE_ONLY 0x00000020U

// Modes of aclrtSetStreamFailureMode.
#define ACL_CONTINUE_ON_FAILURE 0x00000000U
#define ACL_STOP_ON_FAILURE 0x00000001U

typedef void* aclmdlRI;  // captured graphs: the type only
typedef void (*aclrtCallback)(void* userData);
typedef void (*aclrtHostFunc)(void* args);

// Where the program runs, seen from the device. The engine reports ACL_HOST.
typedef enum aclrtRunMode { ACL_DEVICE = 0, ACL_HOST = 1 } aclrtRunMode;

typedef enum aclrtTsId { ACL_TS_ID_AICORE = 0, ACL_TS_ID_AIVECTOR = 1, ACL_TS_ID_RESERVED = 2 } aclrtTsId;

typedef enum aclrtDeviceStatus {
    ACL_RT_DEVICE_STATUS_NORMAL = 0,
    ACL_RT_DEVICE_STATUS_ABNORMAL = 1,
    ACL_RT_DEVICE_STATUS_END = 0xFFFF
} aclrtDeviceStatus;

typedef enum aclrtEventStatus {
    ACL_EVENT_STATUS_COMPLETE = 0,
    ACL_EVENT_STATUS_NOT_READY = 1,
    ACL_EVENT_STATUS_RESERVED = 2
} aclrtEventStatus;

// Mind the order: here 1 means complete.
typedef enum aclrtEventRecordedStatus {
    ACL_EVENT_RECORDED_STATUS_NOT_READY = 0,
    ACL_EVENT_RECORDED_STATUS_COMPLETE = 1
} aclrtEventRecordedStatus;

typedef enum aclrtEventWaitStatus {
    ACL_EVENT_WAIT_STATUS_COMPLETE = 0,
    ACL_EVENT_WAIT_STATUS_NOT_READY = 1,
    ACL_EVENT_WAIT_STATUS_RESERVED = 0xFFFF
} aclrtEventWaitStatus;

typedef enum aclrtStreamStatus {
    ACL_STREAM_STATUS_COMPLETE = 0,
    ACL_STREAM_STATUS_NOT_READY = 1,
    ACL_STREAM_STATUS_RESERVED = 0xFFFF
} aclrtStreamStatus;

typedef enum aclrtCallbackBlockType { ACL_CALLBACK_NO_BLOCK = 0, ACL_CALLBACK_BLOCK = 1 } aclrtCallbackBlockType;

typedef enum aclrtFloatOverflowMode {
    ACL_RT_OVERFLOW_MODE_SATURATION = 0,
    ACL_RT_OVERFLOW_MODE_INFNAN = 1,
    ACL_RT_OVERFLOW_MODE_UNDEF = 2
} aclrtFloatOverflowMode;

typedef enum aclrtLastErrLevel { ACL_RT_THREAD_LEVEL = 0 } aclrtLastErrLevel;

typedef struct aclrtStreamConfigHandle {
    void* workptr;
    size_t workSize;
    size_t flag;
    uint32_t priority;
} aclrtStreamConfigHandle;

typedef struct aclrtUtilizationExtendInfo aclrtUtilizationExtendInfo;

// Load in percent; utilizationExtend is reserved.
typedef struct aclrtUtilizationInfo {
    int32_t cubeUtilization;
    int32_t vectorUtilization;
    int32_t aicpuUtilization;
    int32_t memoryUtilization;
    aclrtUtilizationExtendInfo* utilizationExtend;
} aclrtUtilizationInfo;

// Versions of the vendor's packages; the types only.
typedef enum aclCANNPackageName {
    ACL_PKG_NAME_CANN = 0,
    ACL_PKG_NAME_RUNTIME = 1,
    ACL_PKG_NAME_COMPILER = 2,
    ACL_PKG_NAME_HCCL = 3,
    ACL_PKG_NAME_TOOLKIT = 4,
    ACL_PKG_NAME_OPP = 5,
    ACL_PKG_NAME_OPP_KERNEL = 6,
    ACL_PKG_NAME_DRIVER = 7
} aclCANNPackageName;

#define ACL_PKG_VERSION_MAX_SIZE 128
#define ACL_PKG_VERSION_PARTS_MAX_SIZE 64

typedef struct aclCANNPackageVersion {
    char version[ACL_PKG_VERSION_MAX_SIZE];
    char majorVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char minorVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char releaseVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char patchVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char reserved[ACL_PKG_VERSION_MAX_SIZE];
} aclCANNPackageVersion;

// ---- Initialisation -------------------------------------------------------------------------------------------------

// Starts the engine. `configPath`: null or "" for the defaults, or a JSON file, of which "err_msg_mode" is read ("0":
// error texts per thread, the default; "1": one queue per process). Devices, memory and operators work without this
// call. Already initialised: ACL_ERROR_REPEAT_INITIALIZE (100002), which callers may ignore; a count goes up. A file
// that cannot be read: 100003; no JSON object, or another "err_msg_mode": 100006; other content than at the first call
// of the process: 100000.
ACL_FUNC_VISIBILITY aclError aclInit(const char* configPath);

// Ends the engine whatever the count is, also 0. A second call: ACL_ERROR_REPEAT_FINALIZE (100037). aclInit may follow.
// What the program did not destroy stays usable.
ACL_FUNC_VISIBILITY aclError aclFinalize(void);

// Takes one from the count and ends the engine with the last. `refCount` may be null and receives what is left, also
// when nothing was left to take: 100037.
ACL_FUNC_VISIBILITY aclError aclFinalizeReference(uint64_t* refCount);

// Writes ACL_MAJOR_VERSION, ACL_MINOR_VERSION, ACL_PATCH_VERSION. Null pointer: 100000.
ACL_FUNC_VISIBILITY aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion);

// Writes the version of the stack as one number, major * 10000000 + minor * 100000 + release * 1000. `pkgName` names a
// package of the vendor's stack; all packages of this engine have the same version. Null pointer: 100000.
ACL_FUNC_VISIBILITY aclError aclsysGetVersionNum(char* pkgName, int32_t* versionNum);

// Writes ACL_HOST. Null pointer: 100000.
ACL_FUNC_VISIBILITY aclError aclrtGetRunMode(aclrtRunMode* runMode);

// The queued error texts of the calling thread (of the process in err_msg_mode "1"), newest first, one a line; null
// when there are none. Reading clears them. The text stays valid until the next call on this thread and is not freed by
// the caller. A line reads "[PID:<pid>] <time> <category>(<code>): <text>".
ACL_FUNC_VISIBILITY const char* aclGetRecentErrMsg(void);

// ---- Devices --------------------------------------------------------------------------------------------------------
// Device ids run from 0 to count - 1. The count is 1 unless the environment raises it; ASCEND_RT_VISIBLE_DEVICES
// selects and numbers the devices. All devices share the memory of the host. A device id out of range:
// INVALID_DEVICEID.

// Makes the device current on this thread and binds its default context, which is created at the first use. Counted.
ACL_FUNC_VISIBILITY aclError aclrtSetDevice(int32_t deviceId);

// Takes one from the count; the default context and stream go with the last. Streams and contexts that the program
// created stay usable until they are destroyed. Never set: ACL_ERROR_RT_CONTEXT_RELEASE_ERROR (507007).
ACL_FUNC_VISIBILITY aclError aclrtResetDevice(int32_t deviceId);

// As aclrtResetDevice with the count brought to 0 at once.
ACL_FUNC_VISIBILITY aclError aclrtResetDeviceForce(int32_t deviceId);

// Writes the current device of this thread. Null: INVALID_PARAM; no device and no context: CONTEXT_NULL.
ACL_FUNC_VISIBILITY aclError aclrtGetDevice(int32_t* deviceId);

// Writes the number of devices; works before aclInit. Null: INVALID_PARAM.
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceCount(uint32_t* count);

// Waits for all streams of the current device. No context: CONTEXT_NULL; inside a callback of one of them:
// PARAM_INVALID.
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeDevice(void);

// The same with a limit in milliseconds, -1 for none. Below -1 or 0: PARAM_INVALID; expired: ACL_ERROR_RT_WAIT_TIMEOUT
// (107019).
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout);

// Fills the figures with 0: the engine does not measure load. Null: INVALID_PARAM; device out of range:
// INVALID_DEVICEID.
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo* utilizationInfo);

// Writes whether the device is set: `active` 1 or 0. `flags` is reserved and receives 0. Either pointer may be null.
// Device out of range: INVALID_DEVICEID.
ACL_FUNC_VISIBILITY aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t* flags, int32_t* active);

// Stores how overflow is meant to show. The engine always computes with infinities and NaN
// (ACL_RT_OVERFLOW_MODE_INFNAN); asking for saturation is logged once. Other modes: INVALID_PARAM.
ACL_FUNC_VISIBILITY aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode);

// Writes 1 when `deviceId` can read the memory of `peerDeviceId`, which holds for two different devices in range, 0 for
// equal ones. Null: INVALID_PARAM; out of range: INVALID_DEVICEID.
ACL_FUNC_VISIBILITY aclError aclrtDeviceCanAccessPeer(int32_t* canAccessPeer, int32_t deviceId, int32_t peerDeviceId);

// Nothing to enable, memory is shared: success. `flags` must be 0, else INVALID_PARAM; out of range: INVALID_DEVICEID.
ACL_FUNC_VISIBILITY aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags);

// Writes the process id as the system outside of containers sees it; here the id of this process. Null: INVALID_PARAM.
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetBareTgid(int32_t* pid);

// ---- Contexts -------------------------------------------------------------------------------------------------------
// The current context is a property of the thread; one context may be current on many threads.

// Creates a context on the device and makes it current on this thread. Null: INVALID_PARAM; bad device:
// INVALID_DEVICEID.
ACL_FUNC_VISIBILITY aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId);

// Destroys a context made by aclrtCreateContext, and its default stream; threads on which it was current have none
// then. The other streams of the program stay usable. Null: INVALID_PARAM; the default context of a device:
// PARAM_INVALID; unknown handle: INVALID_HANDLE.
ACL_FUNC_VISIBILITY aclError aclrtDestroyContext(aclrtContext context);

// Makes a context, and with it its device, current on this thread. Null: INVALID_PARAM; unknown: INVALID_HANDLE.
ACL_FUNC_VISIBILITY aclError aclrtSetCurrentContext(aclrtContext context);

// Writes the current context. Null: INVALID_PARAM; none: CONTEXT_NULL.
ACL_FUNC_VISIBILITY aclError aclrtGetCurrentContext(aclrtContext* context);

// Writes the default stream of the current context. Null: INVALID_PARAM; no context: CONTEXT_NULL.
ACL_FUNC_VISIBILITY aclError aclrtCtxGetCurrentDefaultStream(aclrtStream* stream);

// Parameters of the current context and of the process. They are stored and returned; no result depends on them.
// Unknown option or null pointer: INVALID_PARAM; a parameter of the context without one: CONTEXT_NULL. Reading a
// context parameter that was never set: ACL_ERROR_RT_SYSPARAMOPT_NOT_SET (107021); a process parameter that was never
// set reads as 0.
ACL_FUNC_VISIBILITY aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value);
ACL_FUNC_VISIBILITY aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value);
ACL_FUNC_VISIBILITY aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value);
ACL_FUNC_VISIBILITY aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value);

// Limits in seconds for one operator and for a wait, 0 for none. Accepted without effect: work is done when its call
// returns.
ACL_FUNC_VISIBILITY aclError aclrtSetOpExecuteTimeOut(uint32_t timeout);
ACL_FUNC_VISIBILITY aclError aclrtSetOpWaitTimeout(uint32_t timeout);

// ---- Streams --------------------------------------------------------------------------------------------------------
// A stream is an in-order queue; two streams are ordered by events only. A null stream stands for the default stream of
// the current context or, on a thread without one, of device 0. Unknown handle: INVALID_HANDLE.

// Creates a stream of the current context. Null: INVALID_PARAM; no context: CONTEXT_NULL.
ACL_FUNC_VISIBILITY aclError aclrtCreateStream(aclrtStream* stream);

// The same with a priority (0 is the highest and the default) and ACL_STREAM_ flags. Unknown flag bits: PARAM_INVALID.
ACL_FUNC_VISIBILITY aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag);

// Waits for the stream's work and destroys it. Null: INVALID_PARAM; a default stream, or inside a callback of the
// stream: PARAM_INVALID.
ACL_FUNC_VISIBILITY aclError aclrtDestroyStream(aclrtStream stream);

// The same without waiting: what another thread executes on the stream at the moment ends undisturbed.
ACL_FUNC_VISIBILITY aclError aclrtDestroyStreamForce(aclrtStream stream);

// Waits for the stream's work. Errors of the work have been returned by the calls that submitted it. Inside a callback
// of the same stream: PARAM_INVALID.
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeStream(aclrtStream stream);

// The same with a limit in milliseconds, -1 for none. Below -1 or 0: PARAM_INVALID; expired:
// ACL_ERROR_RT_STREAM_SYNC_TIMEOUT (507046).
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout);

// Writes whether all work of the stream is done; inside a callback of the stream it is not. Null status: INVALID_PARAM.
ACL_FUNC_VISIBILITY aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status);

// Lets later work of the stream wait for what the event recorded last; an event never recorded does not block.
// Null event: INVALID_PARAM.
ACL_FUNC_VISIBILITY aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);

// Write the number, the priority and the flags of the stream. Null pointer: INVALID_PARAM.
ACL_FUNC_VISIBILITY aclError aclrtStreamGetId(aclrtStream stream, int32_t* streamId);
ACL_FUNC_VISIBILITY aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t* priority);
ACL_FUNC_VISIBILITY aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t* flags);

// ACL_CONTINUE_ON_FAILURE (the default) or ACL_STOP_ON_FAILURE: checked, without further effect, because work runs at
// once and the call that submits it returns its error. Other modes and the null stream: INVALID_PARAM.
ACL_FUNC_VISIBILITY aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode);

// Overflow detection of a stream: 0 off, 1 on. Stored and returned. Null pointer or other values: INVALID_PARAM.
ACL_FUNC_VISIBILITY aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag);
ACL_FUNC_VISIBILITY aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t* flag);

// Calls fn(args) in the order of the stream. `fn` cannot synchronise its own stream (PARAM_INVALID there); what it
// submits to that stream runs at once, inside of it. Null fn: INVALID_PARAM.
ACL_FUNC_VISIBILITY aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void* args);

// Would run callbacks queued for a subscribed thread. The engine has no subscriptions: always INTERNAL_ERROR.
ACL_FUNC_VISIBILITY aclError aclrtProcessReport(int32_t timeout);

// ---- Events ---------------------------------------------------------------------------------------------------------
// An event marks a point in a stream. Never recorded: complete for waits, without a time. An event may be destroyed
// while waits on it are pending. Null event: INVALID_PARAM; unknown handle: INVALID_HANDLE.

// Create an event; `flag` is an OR of ACL_EVENT_ values. Null pointer: INVALID_PARAM; unknown bits: PARAM_INVALID.
ACL_FUNC_VISIBILITY aclError aclrtCreateEvent(aclrtEvent* event);
ACL_FUNC_VISIBILITY aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag);
ACL_FUNC_VISIBILITY aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag);

// Ends the handle at once; calls that hold the event on other threads finish undisturbed.
ACL_FUNC_VISIBILITY aclError aclrtDestroyEvent(aclrtEvent event);

// Marks the present end of the stream and takes the time when the work before it is done.
ACL_FUNC_VISIBILITY aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);

// Makes the event unrecorded again, in the order of the stream.
ACL_FUNC_VISIBILITY aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream);

// Write the state of the event: whether the recorded point was reached (aclrtQueryEvent is the deprecated spelling),
// and whether the waits that were queued for it are over, which they always are. Null pointer: INVALID_PARAM.
ACL_FUNC_VISIBILITY aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status);
ACL_FUNC_VISIBILITY aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status);
ACL_FUNC_VISIBILITY aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status);

// Blocks the calling thread until the recorded point is reached.
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeEvent(aclrtEvent event);

// The same with a limit in milliseconds, -1 for none. Below -1 or 0: PARAM_INVALID. Recorded events are complete, so
// the limit never expires.
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout);

// Writes the milliseconds from `startEvent` to `endEvent`. Null pointer: INVALID_PARAM; an event never recorded:
// ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID (107006); end before start: ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL (107007).
// Nothing is written then.
ACL_FUNC_VISIBILITY aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent);

// Writes the time of the recorded point in microseconds of a steady clock. Null: INVALID_PARAM; never recorded: 107006.
ACL_FUNC_VISIBILITY aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t* timestamp);

// ---- Device binaries and dump ---------------------------------------------------------------------------------------
// Programs for the NPU's own cores cannot run here: these functions return INTERNAL_ERROR (null arguments too) and
// write nothing. They exist because torch-npu links them.
typedef void* aclrtBinHandle;
typedef void* aclrtFuncHandle;

typedef enum aclrtBinaryLoadOptionType {
    ACL_RT_BINARY_LOAD_OPT_LAZY_LOAD = 1,
    ACL_RT_BINARY_LOAD_OPT_LAZY_MAGIC = 2,
    ACL_RT_BINARY_LOAD_OPT_MAGIC = 2,
    ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE = 3
} aclrtBinaryLoadOptionType;

typedef union aclrtBinaryLoadOptionValue {
    uint32_t isLazyLoad;
    uint32_t magic;
    int32_t cpuKernelMode;
    uint32_t rsv[4];
} aclrtBinaryLoadOptionValue;

typedef struct {
    aclrtBinaryLoadOptionType type;
    aclrtBinaryLoadOptionValue value;
} aclrtBinaryLoadOption;

typedef struct aclrtBinaryLoadOptions {
    aclrtBinaryLoadOption* options;
    size_t numOpt;
} aclrtBinaryLoadOptions;

ACL_FUNC_VISIBILITY aclError aclrtBinaryLoadFromData(const void* data, size_t length,
                                                     const aclrtBinaryLoadOptions* options, aclrtBinHandle* binHandle);
ACL_FUNC_VISIBILITY aclError aclrtBinaryGetFunction(const aclrtBinHandle binHandle, const char* kernelName,
                                                    aclrtFuncHandle* funcHandle);
ACL_FUNC_VISIBILITY aclError aclrtGetFunctionAddr(aclrtFuncHandle funcHandle, void** aicAddr, void** aivAddr);

// Operator dump: the engine writes none, so all three are refused and nobody waits for files that never come.
ACL_FUNC_VISIBILITY aclError aclmdlInitDump(void);
ACL_FUNC_VISIBILITY aclError aclmdlSetDump(const char* dumpCfgPath);
ACL_FUNC_VISIBILITY aclError aclmdlFinalizeDump(void);

#ifdef __cplusplus
}
#endif

#endif  // FUSION_ATTENTION_ACL_ACL_RT_H_
