// Arguments of any operator as data, legal or not.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "acl/acl.h"

namespace flash_attention::testing {

struct TensorSpec {
    std::vector<int64_t> shape;
    aclDataType dtype = ACL_FLOAT;
    std::vector<int64_t> strides = {};  // empty: contiguous
    int64_t offset = 0;
    aclFormat format = ACL_FORMAT_ND;
    std::vector<int64_t> storage = {};  // empty: unknown to the operator
    bool without_data = false;          // null data address
};
using Tensor = std::optional<TensorSpec>;  // nothing: a null pointer
using List = std::optional<std::vector<int64_t>>;
inline List list(std::initializer_list<int64_t> values) {
    return std::vector<int64_t>(values);
}

}  // namespace flash_attention::testing
