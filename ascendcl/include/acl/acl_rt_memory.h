// Memory of the runtime: allocation, copies, fills, and what is known about addresses. Included by acl/acl_rt.h.
// Valid C99 and C++11.
//
// Device memory is ordinary process memory: the program may read and write it directly. Codes as in acl/acl_rt.h.
#ifndef FUSION_ATTENTION_ACL_ACL_RT_MEMORY_H_
#define FUSION_ATTENTION_ACL_ACL_RT_MEMORY_H_

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

// The direction of a copy. The engine finds the direction from the addresses; a kind that does not fit is no error.
typedef enum aclrtMemcpyKind {
    ACL_MEMCPY_HOST_TO_HOST = 0,
    ACL_MEMCPY_HOST_TO_DEVICE = 1,
    ACL_MEMCPY_DEVICE_TO_HOST = 2,
    ACL_MEMCPY_DEVICE_TO_DEVICE = 3,
    ACL_MEMCPY_DEFAULT = 4,
    ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE = 5,
    ACL_MEMCPY_INNER_DEVICE_TO_DEVICE = 6,  // internal to the vendor's runtime, refused
    ACL_MEMCPY_INTER_DEVICE_TO_DEVICE = 7   // likewise
} aclrtMemcpyKind;

// Page hints for allocations, all accepted. The last three may be OR-ed in.
typedef enum aclrtMemMallocPolicy {
    ACL_MEM_MALLOC_HUGE_FIRST = 0,
    ACL_MEM_MALLOC_HUGE_ONLY = 1,
    ACL_MEM_MALLOC_NORMAL_ONLY = 2,
    ACL_MEM_MALLOC_HUGE_FIRST_P2P = 3,
    ACL_MEM_MALLOC_HUGE_ONLY_P2P = 4,
    ACL_MEM_MALLOC_NORMAL_ONLY_P2P = 5,
    ACL_MEM_MALLOC_HUGE1G_ONLY = 6,
    ACL_MEM_MALLOC_HUGE1G_ONLY_P2P = 7,
    ACL_MEM_TYPE_LOW_BAND_WIDTH = 0x0100,
    ACL_MEM_TYPE_HIGH_BAND_WIDTH = 0x1000,
    ACL_MEM_ACCESS_USER_SPACE_READONLY = 0x100000
} aclrtMemMallocPolicy;

// The kinds of memory that aclrtGetMemInfo is asked about; all are the memory of the host.
typedef enum aclrtMemAttr {
    ACL_DDR_MEM = 0,
    ACL_HBM_MEM = 1,
    ACL_DDR_MEM_HUGE = 2,
    ACL_DDR_MEM_NORMAL = 3,
    ACL_HBM_MEM_HUGE = 4,
    ACL_HBM_MEM_NORMAL = 5,
    ACL_DDR_MEM_P2P_HUGE = 6,
    ACL_DDR_MEM_P2P_NORMAL = 7,
    ACL_HBM_MEM_P2P_HUGE = 8,
    ACL_HBM_MEM_P2P_NORMAL = 9,
    ACL_HBM_MEM_HUGE1G = 10,
    ACL_HBM_MEM_P2P_HUGE1G = 11,
    ACL_MEM_NORMAL = 12,
    ACL_MEM_HUGE = 13,
    ACL_MEM_HUGE1G = 14,
    ACL_MEM_P2P_NORMAL = 15,
    ACL_MEM_P2P_HUGE = 16,
    ACL_MEM_P2P_HUGE1G = 17
} aclrtMemAttr;

typedef enum aclrtMemLocationType {
    ACL_MEM_LOCATION_TYPE_HOST = 0,          // from aclrtMallocHost
    ACL_MEM_LOCATION_TYPE_DEVICE = 1,        // from aclrtMalloc and its variants
    ACL_MEM_LOCATION_TYPE_UNREGISTERED = 2,  // any other address
    ACL_MEM_LOCATION_TYPE_MANAGED = 3,
    ACL_MEM_LOCATION_TYPE_HOST_NUMA = 4
} aclrtMemLocationType;

typedef struct aclrtMemLocation {
    uint32_t id;  // device id
    aclrtMemLocationType type;
} aclrtMemLocation;

typedef struct aclrtPtrAttributes {
    aclrtMemLocation location;
    uint32_t pageSize;  // bytes
    uint32_t rsv[4];
} aclrtPtrAttributes;

// Attributes of one batch of copies; the type only.
typedef struct {
    aclrtMemLocation dstLoc;
    aclrtMemLocation srcLoc;
    uint8_t rsv[16];
} aclrtMemcpyBatchAttr;

// ---- Allocation -----------------------------------------------------------------------------------------------------

// Allocates `size` bytes of device memory, not initialised, aligned to 64 bytes or more; the block is the request
// rounded up to a multiple of 32 plus 32 bytes. Works on a thread without a context. Null pointer or size 0:
// INVALID_PARAM; out of memory: ACL_ERROR_RT_MEMORY_ALLOCATION (207001), when the request exceeds the free figure of
// aclrtGetMemInfo too. Nothing is written on failure.
ACL_FUNC_VISIBILITY aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy);

// The same without the extra 32 bytes.
ACL_FUNC_VISIBILITY aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy policy);

// The same as aclrtMalloc. Device and host share their caches, so the flush and the invalidation that go with it have
// nothing to do: they succeed. Null pointer or size 0: INVALID_PARAM.
ACL_FUNC_VISIBILITY aclError aclrtMallocCached(void** devPtr, size_t size, aclrtMemMallocPolicy policy);
ACL_FUNC_VISIBILITY aclError aclrtMemFlush(void* devPtr, size_t size);
ACL_FUNC_VISIBILITY aclError aclrtMemInvalidate(void* devPtr, size_t size);

// Frees device memory, at once. Null: INVALID_PARAM; an address that is not the start of a live device block:
// PARAM_INVALID. Allowed after aclrtResetDevice and after aclFinalize.
ACL_FUNC_VISIBILITY aclError aclrtFree(void* devPtr);

// The same after waiting for the device.
ACL_FUNC_VISIBILITY aclError aclrtFreeWithDevSync(void* devPtr);

// The same pair for host memory: blocks of the one kind are refused by the free of the other (PARAM_INVALID).
ACL_FUNC_VISIBILITY aclError aclrtMallocHost(void** hostPtr, size_t size);
ACL_FUNC_VISIBILITY aclError aclrtFreeHost(void* hostPtr);
ACL_FUNC_VISIBILITY aclError aclrtFreeHostWithDevSync(void* hostPtr);

// Writes free and total bytes, the same for every attribute: total is the smaller of RAM and the limit of the control
// group. Null pointer: INVALID_PARAM.
ACL_FUNC_VISIBILITY aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total);

// Writes where an address belongs. Null pointer: INVALID_PARAM.
ACL_FUNC_VISIBILITY aclError aclrtPointerGetAttributes(const void* ptr, aclrtPtrAttributes* attributes);

// ---- Copies and fills -----------------------------------------------------------------------------------------------
// Checked in this order: count 0: success, nothing else is looked at; null pointer, or kind not 0 to 5: INVALID_PARAM;
// destMax 0, count above destMax, or a copy past the end of a known destination block: PARAM_INVALID.
// A source inside a known device block that is shorter than `count` is copied as far as it goes and the rest of the
// destination becomes zero. Overlapping ranges are copied as if through a buffer.

ACL_FUNC_VISIBILITY aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count,
                                         aclrtMemcpyKind kind);

// In the order of the stream; keep both buffers alive until it is synchronised.
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count,
                                              aclrtMemcpyKind kind, aclrtStream stream);

// Copies `height` rows of `width` bytes whose starts lie dpitch and spitch bytes apart. width 0 or height 0: success.
// width above a pitch: PARAM_INVALID; kinds other than 0 to 3: INVALID_PARAM.
ACL_FUNC_VISIBILITY aclError aclrtMemcpy2d(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                                           size_t height, aclrtMemcpyKind kind);
ACL_FUNC_VISIBILITY aclError aclrtMemcpy2dAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                                                size_t height, aclrtMemcpyKind kind, aclrtStream stream);

// Sets `count` bytes to the low byte of `value`. count 0: success; null: INVALID_PARAM; count above maxCount:
// PARAM_INVALID.
ACL_FUNC_VISIBILITY aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count);
ACL_FUNC_VISIBILITY aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count,
                                              aclrtStream stream);

// ---- Virtual memory -------------------------------------------------------------------------------------------------
// Address ranges apart from their memory, and memory shared between processes, are not offered: all functions below
// return INTERNAL_ERROR and write nothing. They exist because torch-npu links them (it uses them with
// expandable_segments:True only).
typedef void* aclrtDrvMemHandle;

typedef enum aclrtMemAllocationType { ACL_MEM_ALLOCATION_TYPE_PINNED = 0 } aclrtMemAllocationType;

typedef enum aclrtMemHandleType { ACL_MEM_HANDLE_TYPE_NONE = 0, ACL_MEM_HANDLE_TYPE_POSIX = 2 } aclrtMemHandleType;

typedef struct aclrtPhysicalMemProp {
    aclrtMemHandleType handleType;
    aclrtMemAllocationType allocationType;
    aclrtMemAttr memAttr;
    aclrtMemLocation location;
    uint64_t reserve;
} aclrtPhysicalMemProp;

ACL_FUNC_VISIBILITY aclError aclrtReserveMemAddress(void** virPtr, size_t size, size_t alignment, void* expectPtr,
                                                    uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtReleaseMemAddress(void* virPtr);
ACL_FUNC_VISIBILITY aclError aclrtMallocPhysical(aclrtDrvMemHandle* handle, size_t size,
                                                 const aclrtPhysicalMemProp* prop, uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtFreePhysical(aclrtDrvMemHandle handle);
ACL_FUNC_VISIBILITY aclError aclrtMapMem(void* virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
                                         uint64_t flags);
ACL_FUNC_VISIBILITY aclError aclrtUnmapMem(void* virPtr);
ACL_FUNC_VISIBILITY aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, aclrtMemHandleType handleType,
                                                             uint64_t flags, uint64_t* shareableHandle);
ACL_FUNC_VISIBILITY aclError aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t deviceId,
                                                               aclrtDrvMemHandle* handle);
ACL_FUNC_VISIBILITY aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t* pid, size_t pidNum);

#ifdef __cplusplus
}
#endif

#endif  // FUSION_ATTENTION_ACL_ACL_RT_MEMORY_H_
