// The structure behind aclopAttr.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "acl/acl_op.h"

namespace ascendcl {

// One alternative a setter.
using AttrValue = std::variant<bool, int64_t, float, std::string, aclDataType, std::vector<bool>, std::vector<int64_t>,
                               std::vector<float>, std::vector<std::vector<int64_t>>>;

}  // namespace ascendcl

struct aclopAttr {
    std::map<std::string, ascendcl::AttrValue, std::less<>> values;
};

namespace ascendcl {

// "axis=1, keep_dims=true", in the order of the names; "none" for a null or empty set.
std::string describe(const aclopAttr* attr);

}  // namespace ascendcl
