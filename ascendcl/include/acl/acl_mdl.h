// Offline models are not executed on the CPU engine, so this header declares no model functions; it exists because
// acl/acl.h and user programs include it. The hooks that start and stop an operator dump are in acl/acl_rt.h.
#ifndef FUSION_ATTENTION_ACL_ACL_MDL_H_
#define FUSION_ATTENTION_ACL_ACL_MDL_H_

#include "acl/acl_base.h"
#include "acl/acl_rt.h"

#endif  // FUSION_ATTENTION_ACL_ACL_MDL_H_
