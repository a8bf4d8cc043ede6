#include "arguments/checks.h"

#include <fmt/format.h>

#include <functional>
#include <numeric>

#include "arguments/overlap.h"
#include "opbase/dtype.h"
#include "opbase/error.h"

namespace arguments {
namespace {

using opbase::ParameterError;
using opbase::Tensor;
using opbase::to_string;

// Elements of the storage, whose shape is known.
int64_t storage_count(const Tensor& tensor) {
    return std::accumulate(tensor.storage_shape.begin(), tensor.storage_shape.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

void require_plain_format(const char* name, const Tensor& tensor) {
    if (opbase::is_plain_format(tensor.format)) return;
    throw ParameterError(
        fmt::format("{} format {} is not supported: expected ND", name, opbase::format_name(tensor.format)));
}

// (That the view starts inside its storage is a condition for creating the tensor.)
void check_view(const char* name, const Tensor& tensor) {
    const int64_t reach = tensor.reach();
    if (!tensor.storage_shape.empty() && reach > storage_count(tensor)) {
        throw ParameterError(fmt::format("{} view exceeds its storage: needs element {}, storage has {}", name,
                                         reach - 1, storage_count(tensor)));
    }
    if (reach > kAddressSpace) {
        throw ParameterError(
            fmt::format("{} view needs element {}: that is beyond any address space", name, reach - 1));
    }
    if (tensor.data == nullptr) {
        throw ParameterError(
            fmt::format("{} has shape {}, but its data address is nullptr", name, to_string(tensor.shape)));
    }
}

void check_output_view(const char* name, const Tensor& tensor) {
    check_view(name, tensor);
    if (tensor.is_contiguous() || !elements_overlap(tensor)) return;
    throw ParameterError(
        fmt::format("{} view has overlapping elements, so it cannot be an output: shape {}, strides {}", name,
                    to_string(tensor.shape), to_string(tensor.strides)));
}

bool last_axis_is_contiguous(const Tensor& tensor) {
    return tensor.shape.empty() || tensor.shape.back() <= 1 || tensor.strides.back() == 1;
}

}  // namespace arguments
