// Facts about element types: sizes, and the names that messages use.
#pragma once

#include <cstdint>
#include <string>

#include "acl/acl_base.h"
#include "ascendcl/api.h"

namespace ascendcl {

// Bytes of one element; 0 for types of less than a byte, for strings and for unknown numbers.
ASCENDCL_API int64_t element_size(aclDataType dtype) noexcept;

// "FLOAT16", "BFLOAT16", "FLOAT", ...; "unknown (77)" for numbers that the enumeration does not have.
ASCENDCL_API std::string dtype_name(aclDataType dtype);

}  // namespace ascendcl
