#include "acl_objects.h"

#include <c10/util/Exception.h>

namespace ops_transformer {
namespace {

aclDataType data_type(at::ScalarType type) {
    switch (type) {
        case at::kFloat:
            return ACL_FLOAT;
        case at::kHalf:
            return ACL_FLOAT16;
        case at::kBFloat16:
            return ACL_BF16;
        case at::kBool:
            return ACL_BOOL;
        case at::kByte:
            return ACL_UINT8;
        default:
            TORCH_CHECK_TYPE(false, "ops_transformer: no operator takes tensors of type ", type);
    }
}

}  // namespace

TensorHandle make_handle(const at::Tensor& tensor) {
    if (!tensor.defined()) return nullptr;
    const int64_t elements = static_cast<int64_t>(tensor.storage().nbytes() / tensor.element_size());
    // Inputs are not written; the interface has one type for both.
    void* data = tensor.storage().unsafeGetStorageImpl()->mutable_data();
    return TensorHandle(aclCreateTensor(tensor.sizes().data(), tensor.dim(), data_type(tensor.scalar_type()),
                                        tensor.strides().data(), tensor.storage_offset(), ACL_FORMAT_ND, &elements, 1,
                                        data));
}

TensorHandle make_handle(const std::optional<at::Tensor>& tensor) {
    return make_handle(tensor.value_or(at::Tensor()));
}

ListHandle make_handle(at::IntArrayRef list) {
    return list.empty() ? nullptr : ListHandle(aclCreateIntArray(list.data(), list.size()));
}

}  // namespace ops_transformer
