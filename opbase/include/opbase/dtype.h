// Element types and formats: sizes and the names that messages use.
#pragma once

#include <string>

#include "acl/acl_base.h"
#include "ascendcl/dtype.h"
#include "opbase/api.h"

namespace opbase {

using ascendcl::dtype_name;
using ascendcl::element_size;

// "ND", "NCHW", "FRACTAL_NZ", ...; "unknown (5)" for numbers that the enumeration does not have.
OPBASE_API std::string format_name(aclFormat format);

// Plain formats are stored as their shape says; ND, NCL, NCHW, NCDHW, NHWC, ... all count as ND.
OPBASE_API bool is_plain_format(aclFormat format) noexcept;

}  // namespace opbase
