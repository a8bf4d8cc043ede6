// Element types and formats: sizes and the names that messages use.
#pragma once

#include <cstdint>
#include <string_view>

#include "acl/acl_base.h"
#include "opbase/api.h"

namespace opbase {

// Bytes of one element; 0 for types of less than a byte and for unknown values.
OPBASE_API int64_t element_size(aclDataType dtype) noexcept;

// The name in messages: "FLOAT16", "BFLOAT16", "FLOAT", ... ("unknown" for values outside the enum).
OPBASE_API std::string_view dtype_name(aclDataType dtype) noexcept;

// The name in messages: "ND", "NCHW", "FRACTAL_NZ", ...
OPBASE_API std::string_view format_name(aclFormat format) noexcept;

// Plain formats are stored as their shape says; ND, NCL, NCHW, NCDHW, NHWC, ... all count as ND.
OPBASE_API bool is_plain_format(aclFormat format) noexcept;

}  // namespace opbase
