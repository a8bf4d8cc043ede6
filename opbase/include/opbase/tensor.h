// The objects behind the opaque handles of acl_meta.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "aclnn/acl_meta.h"
#include "opbase/api.h"

namespace opbase {

using Shape = std::vector<int64_t>;

// A strided view of a storage: element (i0, i1, ...) lies at data + (offset + sum of ik * stridek) * element size.
// Copied by value in phase one, so that the caller may destroy the aclTensor before phase two (the data stays his).
struct Tensor {
    Shape shape;
    Shape strides;       // in elements, one per dimension, any value
    int64_t offset = 0;  // in elements
    aclDataType dtype = ACL_DT_UNDEFINED;
    aclFormat format = ACL_FORMAT_ND;
    Shape storage_shape;  // only for the check that the view fits; empty means unknown
    void* data = nullptr;

    int64_t rank() const { return static_cast<int64_t>(shape.size()); }
    // Number of elements; 1 for rank 0, 0 when a dimension is 0. aclCreateTensor refuses shapes that overflow.
    OPBASE_API int64_t count() const;
    // Row-major without gaps (dimensions of size 1 may have any stride).
    OPBASE_API bool is_contiguous() const;
    // Elements that the storage must have so that every element of the view lies inside: offset + largest reach + 1.
    OPBASE_API int64_t reach() const;
};

OPBASE_API Shape contiguous_strides(const Shape& shape);
// "[1, 8, 512, 64]"
OPBASE_API std::string to_string(const Shape& shape);

// Optional arguments: a null pointer, a rank-0 tensor and a tensor of shape [0] all mean "absent".
OPBASE_API bool is_absent(const aclTensor* tensor);
// An empty list means the same as a null pointer.
OPBASE_API bool is_absent(const aclIntArray* array);

}  // namespace opbase

struct aclTensor : opbase::Tensor {};

struct aclScalar {
    aclDataType dtype;
    alignas(16) std::byte value[16];
};

struct aclIntArray {
    std::vector<int64_t> values;
};
struct aclFloatArray {
    std::vector<float> values;
};
struct aclBoolArray {
    std::vector<uint8_t> values;
};
struct aclTensorList {  // owns its elements
    std::vector<const aclTensor*> tensors;
};
struct aclScalarList {  // owns its elements
    std::vector<const aclScalar*> scalars;
};
