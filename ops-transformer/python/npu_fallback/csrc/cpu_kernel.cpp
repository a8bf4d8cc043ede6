#include "cpu_kernel.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>

#include <optional>
#include <string_view>

#include "aliases.h"
#include "generators.h"
#include "npu_storage.h"
#include "task_queue.h"

namespace npu_fallback {
namespace {

// Operators that take tensors of several devices on real devices too: copies, indices, scalars of optimizers, and
// lengths of packed sequences. With all others it is a mistake of the caller, which a CPU kernel would not notice.
bool mixes_devices(std::string_view name) {
    constexpr std::string_view kNames[] = {"_copy_from",
                                           "_copy_from_and_resize",
                                           "_foreach_addcdiv",
                                           "_foreach_addcmul",
                                           "_foreach_copy",
                                           "_index_put_impl",
                                           "_pack_padded_sequence",
                                           "_pad_packed_sequence",
                                           "_to_copy",
                                           "_unsafe_index",
                                           "_unsafe_index_put",
                                           "copy",
                                           "index",
                                           "index_put",
                                           "lstm",
                                           "gru",
                                           "masked_fill",
                                           "rnn_relu",
                                           "rnn_tanh",
                                           "set",
                                           "_pack_padded_sequence_backward",
                                           "_unsafe_masked_index",
                                           "_unsafe_masked_index_put_accumulate"};
    if (name.substr(0, 6) == "aten::") name.remove_prefix(6);
    if (name.substr(0, 7) == "_fused_") return true;  // the step counters of fused optimizers
    if (!name.empty() && name.back() == '_') name.remove_suffix(1);
    for (std::string_view mixing : kNames) {
        if (name == mixing) return true;
    }
    return false;
}

c10::TypePtr without_optional(const c10::TypePtr& type) {
    auto optional = type->cast<c10::OptionalType>();
    return optional ? optional->getElementType() : type;
}

// Replaces the tensors of a list. Nearly always nobody else has it: then in place, otherwise a copy of it.
template <class Replace>
void replace_tensors(c10::IValue& value, Replace&& replace) {
    c10::List<c10::IValue> list = std::move(value).toList();
    if (list.use_count() > 1) list = list.copy();
    for (size_t i = 0; i < list.size(); ++i) {
        const c10::IValue element = list.extract(i);
        if (element.isTensor()) list.set(i, c10::IValue(replace(element.toTensor())));
    }
    value = std::move(list);
}

void list_to_cpu(c10::IValue& list, bool written, Aliases& aliases) {
    aliases.reserve(list.toListRef().size());
    replace_tensors(list, [&](const at::Tensor& tensor) { return aliases.to_cpu(tensor, written); });
}

void give_results(c10::IValue* results, size_t count, size_t host_result, Aliases& aliases, bool results_are_npu) {
    for (size_t i = 0; i < count; ++i) {
        c10::IValue& value = results[i];
        if (i == host_result) continue;
        if (value.isTensor()) {
            value = aliases.to_npu(value.toTensor(), results_are_npu);
        } else if (value.isTensorList()) {
            replace_tensors(value, [&](const at::Tensor& tensor) { return aliases.to_npu(tensor, results_are_npu); });
        }
    }
}

}  // namespace

CpuKernel::CpuKernel(const c10::FunctionSchema& schema)
    : argument_count_(schema.arguments().size()),
      result_count_(schema.returns().size()),
      // The lengths of a packed sequence stay with the program that loops over them.
      host_result_(schema.name() == "aten::_pack_padded_sequence" ? 1 : result_count_),
      mixes_devices_(mixes_devices(schema.name())) {
    for (size_t i = 0; i < argument_count_; ++i) {
        const c10::Argument& argument = schema.arguments()[i];
        const bool written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
        const c10::TypePtr type = without_optional(argument.type());
        std::optional<Kind> kind;
        if (type->kind() == c10::TypeKind::TensorType) kind = Kind::kTensor;
        if (type->kind() == c10::TypeKind::DeviceObjType) kind = Kind::kDevice;
        if (type->kind() == c10::TypeKind::GeneratorType) kind = Kind::kGenerator;
        if (auto list = type->cast<c10::ListType>()) {
            const c10::TypePtr element = without_optional(list->getElementType());
            if (element->kind() == c10::TypeKind::TensorType) kind = Kind::kTensorList;
        }
        if (kind) arguments_.push_back({static_cast<uint16_t>(i), *kind, written});
    }
}

bool CpuKernel::take_arguments(c10::IValue* arguments, Aliases& aliases) const {
    const Argument* generator = nullptr;
    bool results_are_npu = true;
    for (const Argument& argument : arguments_) {
        c10::IValue& value = arguments[argument.position];
        switch (argument.kind) {
            case Kind::kTensor:
                if (value.isTensor()) value = aliases.to_cpu(value.toTensor(), argument.written);
                break;
            case Kind::kTensorList:
                if (!value.isNone()) list_to_cpu(value, argument.written, aliases);
                break;
            case Kind::kDevice:
                if (value.isNone() || value.toDevice().type() == kNpu) {
                    if (!value.isNone() && value.toDevice().has_index()) aliases.set_device(value.toDevice().index());
                    value = c10::Device(c10::DeviceType::CPU);
                } else {
                    results_are_npu = false;  // zeros_like(npu_tensor, device="cpu")
                }
                break;
            case Kind::kGenerator:
                generator = &argument;  // its default depends on the device, which a later argument may tell
                break;
        }
    }
    if (generator != nullptr && results_are_npu) {
        c10::IValue& value = arguments[generator->position];
        if (value.isNone()) {
            value = draw_host_generator(default_npu_generator(aliases.device()));
        } else if (value.toGenerator().device().type() == kNpu) {
            value = draw_host_generator(value.toGenerator());
        }
    }
    return results_are_npu;
}

void CpuKernel::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    Aliases aliases;
    const bool results_are_npu = take_arguments(stack->data() + (stack->size() - argument_count_), aliases);
    if (aliases.is_mixed() && !mixes_devices_) aliases.refuse_mixed();
    drain_task_queue(aliases.device());
    {
        // Not callBoxedForDispatchKey: it does not find the composite kernels, which serve the CPU for many operators.
        at::AutoDispatchBelowADInplaceOrView below_autograd;
        op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    }
    aliases.write_back();
    give_results(stack->data() + (stack->size() - result_count_), result_count_, host_result_, aliases,
                 results_are_npu);
}

}  // namespace npu_fallback
