#include "aliases.h"

#include <c10/core/Allocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include "npu_storage.h"
#include "task_queue.h"

namespace npu_fallback {
namespace {

/// A tensor of the backend `key` that looks at `storage` the way `model` looks at its own.
at::Tensor same_view(const at::Tensor& model, c10::Storage storage, c10::DispatchKey key) {
    const c10::TensorImpl& from = *model.unsafeGetTensorImpl();
    c10::DispatchKeySet keys(key);
    if (model.is_conj()) keys = keys.add(c10::DispatchKey::Conjugate);
    if (model.is_neg()) keys = keys.add(c10::DispatchKey::Negative);
    auto impl = c10::make_intrusive<c10::TensorImpl>(std::move(storage), keys, from.dtype());
    impl->set_sizes_and_strides(from.sizes(), from.strides(), from.storage_offset());
    // A number in disguise takes part in type promotion as a number does.
    if (from.is_wrapped_number()) impl->set_wrapped_number(true);
    return at::Tensor::wrap_tensor_impl(std::move(impl));
}

bool is_same_view(const at::Tensor& one, const at::Tensor& other) {
    return one.sizes() == other.sizes() && one.strides() == other.strides() &&
           one.storage_offset() == other.storage_offset();
}

}  // namespace

c10::DeviceIndex Aliases::device() {
    if (device_ < 0) device_ = c10::impl::VirtualGuardImpl(kNpu).getDevice().index();
    return device_;
}

void Aliases::note_device(const at::Tensor& argument) {
    if (argument.device().type() != kNpu) {
        host_tensor_ |= argument.dim() > 0;
        return;
    }
    const c10::DeviceIndex index = argument.device().index();
    if (first_device_ < 0) {
        first_device_ = index;
        if (device_ < 0) device_ = index;
    } else if (index != first_device_) {
        other_device_ = true;
        other_device_index_ = index;
    }
}

void Aliases::refuse_mixed() const {
    const std::string other = other_device_ ? "npu:" + std::to_string(other_device_index_) : "cpu";
    C10_THROW_ERROR(Error, "Expected all tensors to be on the same device, but found at least two devices, npu:" +
                               std::to_string(first_device_) + " and " + other + "!");
}

void Aliases::remember(c10::Storage npu_storage, c10::Storage cpu_storage) {
    npu_storages_.add(npu_storage.unsafeGetStorageImpl());
    cpu_storages_.add(cpu_storage.unsafeGetStorageImpl());
    storages_.push_back({std::move(npu_storage), std::move(cpu_storage)});
}

const c10::Storage& Aliases::lend(const c10::Storage& npu_storage) {
    // One CPU storage for each npu storage: that is how kernels find out that arguments overlap.
    const size_t known = npu_storages_.find(npu_storage.unsafeGetStorageImpl());
    if (known != AddressIndex::kNone) return storages_[known].cpu;
    // It does not own the memory, but may be resized: then the CPU's allocator gives it new memory, see write_back.
    c10::Storage cpu(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), npu_storage.nbytes(),
        c10::DataPtr(npu_storage.mutable_data(), c10::Device(c10::DeviceType::CPU)),
        c10::GetAllocator(c10::DeviceType::CPU), /*resizable=*/true));
    remember(npu_storage, std::move(cpu));
    return storages_.back().cpu;
}

void Aliases::reserve(size_t count) {
    aliases_.reserve(aliases_.size() + count);
    storages_.reserve(storages_.size() + count);
    npu_storages_.reserve(count);
}

at::Tensor Aliases::to_cpu(const at::Tensor& argument, bool written) {
    if (!argument.defined()) return argument;
    note_device(argument);
    if (argument.device().type() != kNpu) {
        host_arguments_.push_back(argument.unsafeGetTensorImpl());
        return argument;
    }
    TORCH_CHECK_NOT_IMPLEMENTED(argument.has_storage(), "npu_fallback: sparse npu tensors are not supported");
    at::Tensor cpu = same_view(argument, lend(argument.storage()), c10::DispatchKey::CPU);
    cpu_tensors_.add(cpu.unsafeGetTensorImpl());
    aliases_.push_back({argument, cpu, written});
    return cpu;
}

void Aliases::write_back() {
    for (const Alias& alias : aliases_) {
        if (!alias.written) continue;
        c10::StorageImpl* npu = alias.npu.storage().unsafeGetStorageImpl();
        const c10::Storage& cpu = alias.cpu.storage();
        const bool moved = cpu.data() != npu->data();
        if (moved) npu->set_data_ptr_noswap(as_npu_memory(cpu, alias.npu.device().index()));
        if (moved || cpu.nbytes() != npu->nbytes()) npu->set_nbytes(cpu.nbytes());
        if (!is_same_view(alias.cpu, alias.npu)) {
            alias.npu.unsafeGetTensorImpl()->set_sizes_and_strides(alias.cpu.sizes(), alias.cpu.strides(),
                                                                   alias.cpu.storage_offset());
            describe_storage(alias.npu);
        }
    }
}

at::Tensor Aliases::to_npu(const at::Tensor& result, bool results_are_npu) {
    if (!result.defined() || result.device().type() != c10::DeviceType::CPU) return result;
    // As in cpu_tensor.copy_(npu_tensor): a new npu tensor would take the memory of the caller's own.
    for (const c10::TensorImpl* argument : host_arguments_) {
        if (argument == result.unsafeGetTensorImpl()) return result;
    }
    // Memory that nobody else holds is new; all other results may be arguments, or share with them.
    const bool is_new = result.has_storage() && result.storage().use_count() == 1;
    if (!is_new) {
        const size_t alias = cpu_tensors_.find(result.unsafeGetTensorImpl());
        if (alias != AddressIndex::kNone) return aliases_[alias].npu;
    }
    if (!results_are_npu && is_new) return result;
    TORCH_CHECK_NOT_IMPLEMENTED(result.key_set().has(c10::DispatchKey::CPU) || !results_are_npu,
                                "npu_fallback: the result is sparse or quantised, which npu tensors cannot be");
    if (!result.has_storage()) return result;
    const c10::Storage& cpu = result.storage();
    if (!is_new) {
        const size_t known = cpu_storages_.find(cpu.unsafeGetStorageImpl());
        if (known != AddressIndex::kNone) return same_view(result, storages_[known].npu, c10::DispatchKey::PrivateUse1);
        if (!results_are_npu) return result;
    }
    c10::Storage npu = make_npu_storage(as_npu_memory(cpu, device()), cpu.nbytes());
    if (!is_new) remember(npu, cpu);  // a second result may share it
    at::Tensor tensor = same_view(result, std::move(npu), c10::DispatchKey::PrivateUse1);
    describe_storage(tensor);
    return tensor;
}

}  // namespace npu_fallback
