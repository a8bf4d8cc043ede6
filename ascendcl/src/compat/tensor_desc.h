// The structure behind aclTensorDesc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "acl/acl_base_mdl.h"

struct aclTensorDesc {
    aclDataType data_type;
    aclFormat format;
    std::vector<int64_t> dims;  // -1: not known yet
    std::string name;
    aclMemType placement = ACL_MEMTYPE_DEVICE;
    // Of the stored data, when they differ from the above.
    std::optional<aclFormat> storage_format;
    std::optional<std::vector<int64_t>> storage_dims;
};

namespace ascendcl {

// "float16[2,3] ND", with the name in front and what differs in storage behind; "nullptr" for a null descriptor.
std::string describe(const aclTensorDesc* desc);

}  // namespace ascendcl
