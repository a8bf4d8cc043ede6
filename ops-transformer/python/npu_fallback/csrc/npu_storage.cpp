#include "npu_storage.h"

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>
#include <c10/util/SmallVector.h>

namespace npu_fallback {
namespace {

constexpr int32_t kFormatUndefined = -1;
constexpr int32_t kFormatPlain = 2;  // ACL_FORMAT_ND

// The members of the wheel's NPUStorageDesc, in its order.
struct Description {
    struct Unused {};
    c10::SmallVector<int64_t, 5> base_sizes;
    c10::SmallVector<int64_t, 5> base_strides;
    c10::SmallVector<int64_t, 5> storage_sizes;
    int64_t base_offset = 0;
    Unused base_type;
    int32_t origin_format = kFormatUndefined;
    int32_t npu_format = kFormatPlain;
    caffe2::TypeMeta data_type;
};

// The beginning of the wheel's NPUStorageImpl. Never made here: a view of what its factory makes.
struct NpuStorage : c10::StorageImpl {
    Description description;
};

Description& description_of(const c10::Storage& storage) {
    return static_cast<NpuStorage*>(storage.unsafeGetStorageImpl())->description;
}

bool is_fresh(const c10::SmallVector<int64_t, 5>& list) {
    // An empty list that was never moved to the heap points at the elements inside itself, right behind its header. No
    // other member looks like that.
    const char* begin = reinterpret_cast<const char*>(&list);
    const char* elements = reinterpret_cast<const char*>(list.data());
    return list.empty() && list.capacity() == 5 && elements > begin && elements < begin + sizeof(list);
}

}  // namespace

void check_storage_layout() {
    TORCH_CHECK(c10::GetStorageImplCreate(kNpu) != nullptr, "npu_fallback: torch_npu is not loaded");
    // What the factory leaves in a new storage is known, and different enough from member to member. With memory of some
    // kind: for a storage without any, the factory would ask the device, of which there may be none.
    static char memory;
    c10::Storage storage = make_npu_storage(c10::DataPtr(&memory, c10::Device(kNpu, 0)), sizeof(memory));
    const Description& fresh = description_of(storage);
    bool agrees = is_fresh(fresh.base_sizes) && is_fresh(fresh.base_strides) && is_fresh(fresh.storage_sizes) &&
                  fresh.base_offset == 0 && fresh.origin_format == kFormatUndefined &&
                  fresh.npu_format == kFormatPlain && fresh.data_type == caffe2::TypeMeta::Make<uint8_t>();
    TORCH_CHECK(agrees, "npu_fallback: this torch_npu keeps its storage descriptions in another form than 2.13.0 does");
}

c10::Storage make_npu_storage(c10::DataPtr memory, size_t bytes) {
    return c10::Storage(c10::GetStorageImplCreate(kNpu)(c10::StorageImpl::use_byte_size_t(),
                                                        static_cast<int64_t>(bytes), std::move(memory),
                                                        c10::GetAllocator(kNpu), /*resizable=*/true));
}

void describe_storage(const at::Tensor& npu_tensor) {
    Description& description = description_of(npu_tensor.storage());
    const c10::IntArrayRef sizes = npu_tensor.sizes(), strides = npu_tensor.strides();
    description.base_sizes.assign(sizes.begin(), sizes.end());
    description.base_strides.assign(strides.begin(), strides.end());
    description.storage_sizes.assign(sizes.begin(), sizes.end());
    description.origin_format = kFormatPlain;
    description.npu_format = kFormatPlain;
    description.data_type = npu_tensor.dtype();
}

}  // namespace npu_fallback
