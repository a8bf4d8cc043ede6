#include "op_api/operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "arguments/checks.h"
#include "op_api/checks.h"
#include "opbase/dtype.h"
#include "opbase/error.h"
#include "opbase/strided_copy.h"

namespace flash_attention {
namespace {

using arguments::last_axis_is_contiguous;
using opbase::ParameterError;
using opbase::Shape;
using opbase::Tensor;
using opbase::to_string;

constexpr int64_t kAlignment = 64;

int slot_of(std::span<const ScoreRequest::TensorField> fields, ScoreRequest::TensorField field) {
    return static_cast<int>(std::find(fields.begin(), fields.end(), field) - fields.begin());
}

}  // namespace

Operands::Place Operands::place_of(const ScoreRequest& request, const char* name, ScoreRequest::TensorField field,
                                   bool output) {
    const aclTensor& tensor = *(request.*field);
    output ? arguments::check_output_view(name, tensor) : arguments::check_view(name, tensor);
    const int slot = slot_of(output ? request.outputs : request.inputs, field);
    return {slot, output, tensor.offset * opbase::element_size(tensor.dtype), -1};
}

const Tensor& Operands::add_copy(Operand operand, const char* name, const aclTensor& tensor, Repetition repetition) {
    Copy copy{operand, {}, tensor.shape, tensor.strides, opbase::element_size(tensor.dtype)};
    const size_t foldable = repetition == Repetition::kKeepOnce ? copy.copied.size() : 0;
    for (size_t axis = 0; axis + 1 < foldable; axis++) {
        if (copy.strides[axis] == 0) copy.copied[axis] = 1;
    }
    int64_t bytes = copy.element_size;
    for (const int64_t size : copy.copied) {
        if (__builtin_mul_overflow(bytes, size, &bytes) || bytes > kAddressSpace) {
            throw ParameterError(fmt::format("{} view with shape {}, strides {} is too large to be packed", name,
                                             to_string(tensor.shape), to_string(tensor.strides)));
        }
    }
    copy.packed.shape = tensor.shape;
    copy.packed.strides = opbase::contiguous_strides(copy.copied);
    for (size_t axis = 0; axis + 1 < foldable; axis++) {
        if (copy.strides[axis] == 0) copy.packed.strides[axis] = 0;
    }
    places_[operand].workspace_at = workspace_bytes_;
    workspace_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    copies_.push_back(std::move(copy));
    return copies_.back().packed;
}

const Tensor& Operands::add_input(const ScoreRequest& request, Operand operand, const char* name,
                                  ScoreRequest::TensorField field) {
    const aclTensor& tensor = *(request.*field);
    places_[operand] = place_of(request, name, field, false);
    return last_axis_is_contiguous(tensor) ? tensor : add_copy(operand, name, tensor, Repetition::kKeepOnce);
}

void Operands::add_flat_input(const ScoreRequest& request, Operand operand, const char* name,
                              ScoreRequest::TensorField field) {
    const aclTensor& tensor = *(request.*field);
    places_[operand] = place_of(request, name, field, false);
    if (!tensor.is_contiguous()) add_copy(operand, name, tensor, Repetition::kUnfold);
}

const Tensor& Operands::add_output(const ScoreRequest& request, Operand operand, const char* name,
                                   ScoreRequest::TensorField field) {
    const aclTensor& tensor = *(request.*field);
    places_[operand] = place_of(request, name, field, true);
    return last_axis_is_contiguous(tensor) ? tensor : add_copy(operand, name, tensor, Repetition::kKeepOnce);
}

void Operands::add_flat_output(const ScoreRequest& request, Operand operand, const char* name,
                               ScoreRequest::TensorField field) {
    const aclTensor& tensor = *(request.*field);
    places_[operand] = place_of(request, name, field, true);
    if (!tensor.is_contiguous()) add_copy(operand, name, tensor, Repetition::kUnfold);
}

void Operands::zero_elements(Operand operand, int64_t first, int64_t count, int64_t element_size) {
    if (count > 0) zero_bytes_.push_back({operand, first * element_size, count * element_size});
}

void Operands::add_zeros(const ScoreRequest& request, const char* name, ScoreRequest::TensorField field) {
    const aclTensor& tensor = *(request.*field);
    zeros_.push_back({place_of(request, name, field, true), tensor.shape, tensor.strides, Shape(tensor.shape.size(), 0),
                      opbase::element_size(tensor.dtype)});
}

std::byte* Operands::storage(const Place& place, const opbase::Launch& launch) {
    void* base = place.output ? launch.outputs[place.slot] : launch.inputs[place.slot];
    return static_cast<std::byte*>(base) + place.byte_offset;
}

std::byte* Operands::address(Operand operand, const opbase::Launch& launch, std::byte* area) const {
    const Place& place = places_[operand];
    return place.workspace_at < 0 ? storage(place, launch) : area + place.workspace_at;
}

Addresses Operands::addresses(const opbase::Launch& launch, std::byte* area) const {
    Addresses result{};
    for (int operand = 0; operand < kOperandCount; operand++) {
        if (places_[operand].slot >= 0) result[operand] = address(static_cast<Operand>(operand), launch, area);
    }
    return result;
}

void Operands::before_run(const opbase::Launch& launch, std::byte* area) const {
    for (const Copy& copy : copies_) {
        const Place& place = places_[copy.operand];
        if (place.output) continue;
        opbase::strided_copy(area + place.workspace_at, copy.packed.strides, storage(place, launch), copy.strides,
                             copy.copied, copy.element_size);
    }
    for (const ZeroBytes& zero : zero_bytes_) {
        std::memset(address(zero.operand, launch, area) + zero.byte_offset, 0, zero.bytes);
    }
    for (const Zeros& zeros : zeros_) {
        constexpr std::byte kZero[16] = {};  // one element of any type
        opbase::strided_copy(storage(zeros.place, launch), zeros.strides, kZero, zeros.source_strides, zeros.shape,
                             zeros.element_size);
    }
}

void Operands::after_run(const opbase::Launch& launch, std::byte* area) const {
    for (const Copy& copy : copies_) {
        const Place& place = places_[copy.operand];
        if (!place.output) continue;
        opbase::strided_copy(storage(place, launch), copy.strides, area + place.workspace_at, copy.packed.strides,
                             copy.copied, copy.element_size);
    }
}

}  // namespace flash_attention
