// AscendCL, all of it: runtime, single operators and models.
#ifndef FUSION_ATTENTION_ACL_ACL_H_
#define FUSION_ATTENTION_ACL_ACL_H_

#include "acl/acl_mdl.h"
#include "acl/acl_op.h"
#include "acl/acl_rt.h"

#endif  // FUSION_ATTENTION_ACL_ACL_H_
