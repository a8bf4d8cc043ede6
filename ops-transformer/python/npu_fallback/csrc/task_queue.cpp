#include "task_queue.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "npu_storage.h"

namespace npu_fallback {
namespace {

uint32_t (*queue_mode)() = nullptr;

const c10::impl::VirtualGuardImpl& npu_guard() {
    static const c10::impl::VirtualGuardImpl guard(kNpu);
    return guard;
}

// Memory whose tensors are gone while an operator that reads it may still be queued. torch_npu's own allocator keeps
// freed blocks for the next operator, which comes later in the queue too; malloc would hand them to anybody. So they
// wait until the queues have been drained.
class Parked {
  public:
    void add(c10::Storage storage) {
        std::lock_guard<std::mutex> lock(mutex_);
        storages_.push_back(std::move(storage));
        waiting_.store(true, std::memory_order_relaxed);
    }

    bool any() const { return waiting_.load(std::memory_order_relaxed); }

    std::vector<c10::Storage> take() {
        std::lock_guard<std::mutex> lock(mutex_);
        waiting_.store(false, std::memory_order_relaxed);
        return std::exchange(storages_, {});
    }

  private:
    std::mutex mutex_;
    std::vector<c10::Storage> storages_;
    std::atomic<bool> waiting_{false};
};

Parked& parked() {
    static Parked* instance = new Parked;  // never destroyed: tensors may outlive every static object
    return *instance;
}

void give_back(void* context) {
    c10::Storage storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim(static_cast<c10::StorageImpl*>(context)));
    if (queue_mode() != 0) parked().add(std::move(storage));
}

}  // namespace

void find_task_queue() {
    void* library = dlopen("libtorch_npu.so", RTLD_LAZY | RTLD_NOLOAD);
    TORCH_CHECK(library != nullptr, "npu_fallback: torch_npu is not loaded");
    queue_mode = reinterpret_cast<uint32_t (*)()>(dlsym(library, "_Z23OpApiGetTaskQueueEnablev"));
    TORCH_CHECK(queue_mode != nullptr,
                "npu_fallback: this torch_npu does not tell the mode of its task queue; 2.13.0 does");
}

void drain_task_queue(c10::DeviceIndex device) {
    if (queue_mode() == 0 && !parked().any()) return;
    if (parked().any()) {
        // Taken first: what another thread parks from now on may belong to an operator that is queued from now on.
        const std::vector<c10::Storage> released = parked().take();
        npu_guard().synchronizeDevice(device);  // drains the queues of all streams and devices
    } else {
        npu_guard().synchronizeStream(npu_guard().getStream(c10::Device(kNpu, device)));
    }
}

c10::DataPtr as_npu_memory(c10::Storage storage, c10::DeviceIndex device) {
    void* data = storage.mutable_data();
    void* context = storage.unsafeReleaseStorageImpl();
    return c10::DataPtr(data, context, &give_back, c10::Device(kNpu, device));
}

}  // namespace npu_fallback
