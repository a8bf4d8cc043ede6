// What every operator header includes: the descriptions of acl_meta.h, and the start and end of the operator library.
// Valid C99 and C++11.
#ifndef FUSION_ATTENTION_ACLNN_ACLNN_BASE_H_
#define FUSION_ATTENTION_ACLNN_ACLNN_BASE_H_

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

// Prepares the operators; optional, and may be repeated. `configPath` names a configuration file of the operator
// library or is nullptr: there is nothing to configure on the CPU, so the file is not opened. Returns 0.
ACL_FUNC_VISIBILITY aclnnStatus aclnnInit(const char* configPath);

// The counterpart of aclnnInit; optional, and may be repeated. Executors and descriptions stay usable. Returns 0.
ACL_FUNC_VISIBILITY aclnnStatus aclnnFinalize(void);

#ifdef __cplusplus
}
#endif

#endif  // FUSION_ATTENTION_ACLNN_ACLNN_BASE_H_
