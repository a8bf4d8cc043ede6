// The base types of AscendCL: handles, element types, formats, error codes, tensor descriptors.
#ifndef FUSION_ATTENTION_ACL_ACL_BASE_H_
#define FUSION_ATTENTION_ACL_ACL_BASE_H_

#include "acl/acl_base_mdl.h"
#include "acl/acl_base_rt.h"
#include "acl/error_codes/ge_error_codes.h"
#include "acl/error_codes/rt_error_codes.h"

#endif  // FUSION_ATTENTION_ACL_ACL_BASE_H_
