#include "arguments/views.h"

#include <fmt/format.h>

#include <utility>

#include "arguments/checks.h"
#include "opbase/dtype.h"
#include "opbase/error.h"
#include "opbase/strided_copy.h"

namespace arguments {
namespace {

using opbase::Launch;
using opbase::Shape;
using opbase::Tensor;

constexpr int64_t kAlignment = 64;

bool is_usable(const Tensor& tensor, Need need) {
    switch (need) {
        case Need::kAnything:
            return true;
        case Need::kContiguousRows:
            return last_axis_is_contiguous(tensor);
        case Need::kContiguous:
            return tensor.is_contiguous();
    }
    return false;
}

int64_t packed_bytes(const char* name, const Tensor& tensor) {
    int64_t bytes = opbase::element_size(tensor.dtype);
    for (const int64_t size : tensor.shape) {
        if (!__builtin_mul_overflow(bytes, size, &bytes) && bytes <= kAddressSpace) continue;
        throw opbase::ParameterError(fmt::format("{} view with shape {}, strides {} is too large to be packed", name,
                                                 opbase::to_string(tensor.shape), opbase::to_string(tensor.strides)));
    }
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Shape Views::add(const char* name, const aclTensor* tensor, Need need, bool output) {
    View view;
    view.output = output;
    view.slot = output ? outputs_++ : inputs_++;
    Shape strides;
    if (tensor != nullptr) {
        output ? check_output_view(name, *tensor) : check_view(name, *tensor);
        view.tensor = *tensor;
        strides = tensor->strides;
        if (!is_usable(*tensor, need)) {
            strides = opbase::contiguous_strides(tensor->shape);
            view.copy_strides = strides;
            view.copy_at = workspace_bytes_;
            workspace_bytes_ += packed_bytes(name, *tensor);
        }
    }
    views_.push_back(std::move(view));
    return strides;
}

opbase::Plan Views::plan() const {
    opbase::Plan plan;
    plan.workspace_size = static_cast<uint64_t>(workspace_bytes_);
    for (const View& view : views_) (view.output ? plan.outputs : plan.inputs).push_back(view.tensor.data);
    return plan;
}

std::byte* Views::storage(const View& view, const Launch& launch) {
    void* base = view.output ? launch.outputs[view.slot] : launch.inputs[view.slot];
    if (base == nullptr) return nullptr;
    return static_cast<std::byte*>(base) + view.tensor.offset * opbase::element_size(view.tensor.dtype);
}

void* Views::address(int number, const Launch& launch) const {
    const View& view = views_[number];
    if (view.copy_at >= 0) return static_cast<std::byte*>(launch.workspace) + view.copy_at;
    return storage(view, launch);
}

void Views::copy(const Launch& launch, bool output) const {
    for (const View& view : views_) {
        if (view.copy_at < 0 || view.output != output) continue;
        const Tensor& tensor = view.tensor;
        void* packed = static_cast<std::byte*>(launch.workspace) + view.copy_at;
        if (output) {
            opbase::strided_copy(storage(view, launch), tensor.strides, packed, view.copy_strides, tensor.shape,
                                 opbase::element_size(tensor.dtype));
        } else {
            opbase::strided_copy(packed, view.copy_strides, storage(view, launch), tensor.strides, tensor.shape,
                                 opbase::element_size(tensor.dtype));
        }
    }
}

}  // namespace arguments
