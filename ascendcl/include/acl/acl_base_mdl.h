// Tensor descriptors of the single-operator interface. Valid C99 and C++11.
//
// A descriptor holds an element type, a format, a shape and a name; it owns no tensor memory. The aclnn operators do
// not use it (they take aclTensor, see aclnn/acl_meta.h); torch-npu builds descriptors for aclopCompileAndExecute.
#ifndef FUSION_ATTENTION_ACL_ACL_BASE_MDL_H_
#define FUSION_ATTENTION_ACL_ACL_BASE_MDL_H_

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aclTensorDesc aclTensorDesc;

// Returns a new descriptor, to be freed with aclDestroyTensorDesc. `dims` holds `numDims` sizes in elements and is
// copied; -1 stands for a size that is not known yet. numDims 0 describes a scalar, `dims` may then be null. Negative
// numDims, or null `dims` with numDims > 0: null and a queued error.
ACL_FUNC_VISIBILITY aclTensorDesc* aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t* dims,
                                                       aclFormat format);

// Frees a descriptor; null is allowed.
ACL_FUNC_VISIBILITY void aclDestroyTensorDesc(const aclTensorDesc* desc);

// Sets the format of the stored data, which may differ from the format given at creation; aclGetTensorDescFormat goes
// on to report the latter. Null descriptor: ACL_ERROR_INVALID_PARAM (100000).
ACL_FUNC_VISIBILITY aclError aclSetTensorFormat(aclTensorDesc* desc, aclFormat format);

// Sets the shape of the stored data; the shape given at creation stays. Null descriptor, negative numDims, or null
// `dims` with numDims > 0: 100000.
ACL_FUNC_VISIBILITY aclError aclSetTensorShape(aclTensorDesc* desc, int numDims, const int64_t* dims);

// Says where the data lies; device and host memory are the same memory here. Null descriptor, or a value that is no
// aclMemType: 100000.
ACL_FUNC_VISIBILITY aclError aclSetTensorPlaceMent(aclTensorDesc* desc, aclMemType memType);

// Names the descriptor; the text is copied. A null descriptor is ignored, a null name clears the name.
ACL_FUNC_VISIBILITY void aclSetTensorDescName(aclTensorDesc* desc, const char* name);

// The element type; ACL_DT_UNDEFINED for a null descriptor.
ACL_FUNC_VISIBILITY aclDataType aclGetTensorDescType(const aclTensorDesc* desc);

// The format given at creation; ACL_FORMAT_UNDEFINED for a null descriptor.
ACL_FUNC_VISIBILITY aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc);

// The number of dimensions given at creation; 0 for a scalar and for a null descriptor.
ACL_FUNC_VISIBILITY size_t aclGetTensorDescNumDims(const aclTensorDesc* desc);

// Writes the size of dimension `index` (from 0) in elements. Null pointer or `index` out of range: 100000.
ACL_FUNC_VISIBILITY aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* dimSize);

#ifdef __cplusplus
}
#endif

#endif  // FUSION_ATTENTION_ACL_ACL_BASE_MDL_H_
