// The types of user-defined allocators (the handles are in acl/acl_base_rt.h). The CPU engine allocates workspaces
// itself and registers no allocators: there are types here and no functions.
#ifndef FUSION_ATTENTION_ACL_ACL_RT_ALLOCATOR_H_
#define FUSION_ATTENTION_ACL_ACL_RT_ALLOCATOR_H_

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void* (*aclrtAllocatorAllocFunc)(aclrtAllocator allocator, size_t size);
typedef void (*aclrtAllocatorFreeFunc)(aclrtAllocator allocator, aclrtAllocatorBlock block);
typedef void* (*aclrtAllocatorAllocAdviseFunc)(aclrtAllocator allocator, size_t size, aclrtAllocatorAddr addr);
typedef void* (*aclrtAllocatorGetAddrFromBlockFunc)(aclrtAllocatorBlock block);

#ifdef __cplusplus
}
#endif

#endif  // FUSION_ATTENTION_ACL_ACL_RT_ALLOCATOR_H_
