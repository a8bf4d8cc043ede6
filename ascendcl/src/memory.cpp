// Allocation: device and host blocks, both in ordinary memory.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "acl/acl_rt.h"
#include "call.h"
#include "current.h"
#include "machine_memory.h"
#include "runtime.h"
#include "wait.h"

using namespace ascendcl;

namespace {

constexpr std::size_t kSmallAlignment = 64;    // the widest vector register
constexpr std::size_t kPage = 4096;            // from one page on: page aligned
constexpr std::size_t kHugePage = 2ULL << 20;  // from one huge page on: aligned to it, so that it can be one
constexpr std::size_t kSizeStep = 32;
constexpr std::size_t kPadding = 32;  // what aclrtMalloc adds to the rounded size; programs may use it

struct FreeAndTotal {
    std::size_t free = 0;
    std::size_t total = 0;
};

// The system hands out pages at their first use, so blocks that are not written yet still count as available there.
// They are promised, though: free is never more than what is left of the total after all live blocks.
FreeAndTotal memory_figures() {
    const MachineMemory machine = read_machine_memory();
    const std::size_t promised = std::min(machine.total, runtime().memory.live_bytes());
    return {std::min(machine.available, machine.total - promised), machine.total};
}

// Looking at the free memory takes reading several files, hundreds of times the cost of a small allocation. So one look
// serves for a while: for a second, and until a sixteenth of what it found has been handed out.
class Budget {
  public:
    // Whether `size` bytes may be handed out without looking again.
    bool take(std::size_t size) {
        if (steady_clock::now().time_since_epoch().count() >= expires_.load()) return false;
        const auto wanted = static_cast<int64_t>(std::min<std::size_t>(size, INT64_MAX));
        if (left_.load() < wanted) return false;
        return left_.fetch_sub(wanted) >= wanted;
    }

    void renew(std::size_t free) {
        left_.store(static_cast<int64_t>(free / 16));
        expires_.store((steady_clock::now() + std::chrono::seconds(1)).time_since_epoch().count());
    }

  private:
    using steady_clock = std::chrono::steady_clock;
    std::atomic<int64_t> left_{0};
    std::atomic<steady_clock::rep> expires_{0};
};
Budget budget;

void require_free_memory(std::size_t size) {
    if (budget.take(size)) return;
    const FreeAndTotal figures = memory_figures();
    budget.renew(figures.free);
    if (size > figures.free) {
        throw Failure{ACL_ERROR_RT_MEMORY_ALLOCATION,
                      fmt::format("out of memory: size {} exceeds the free memory of {} bytes (total {})", size,
                                  figures.free, figures.total)};
    }
}

bool wants_huge_pages(const aclrtMemMallocPolicy& policy) {
    const int pages = number_of(policy) & 0xFF;  // the higher bits choose banks of the device
    return pages != ACL_MEM_MALLOC_NORMAL_ONLY && pages != ACL_MEM_MALLOC_NORMAL_ONLY_P2P;
}

// Allocates and registers a block; nothing is written on failure.
void allocate(const char* name, void** pointer, std::size_t size, std::size_t padding, BlockKind kind,
              bool huge_pages) {
    require_not_null(name, pointer);
    if (size == 0) throw Failure{ACL_ERROR_INVALID_PARAM, "size must be positive: got 0"};
    require_free_memory(size);
    const std::size_t bytes = (size + kSizeStep - 1) / kSizeStep * kSizeStep + padding;
    const std::size_t alignment = bytes >= kHugePage ? kHugePage : bytes >= kPage ? kPage : kSmallAlignment;
    void* memory = nullptr;
    if (posix_memalign(&memory, alignment, bytes) != 0) {
        throw Failure{ACL_ERROR_RT_MEMORY_ALLOCATION,
                      fmt::format("out of memory: the system refused {} bytes (size {})", bytes, size)};
    }
    if (bytes >= kHugePage && huge_pages) madvise(memory, bytes, MADV_HUGEPAGE);  // a hint: failing is no error
    // A copy that reads past the requested size sees zeros, not what the bytes held before.
    std::memset(static_cast<char*>(memory) + size, 0, bytes - size);
    try {
        runtime().memory.add({reinterpret_cast<uintptr_t>(memory), bytes, kind, current_device_or_first()});
    } catch (const std::bad_alloc&) {
        std::free(memory);
        throw Failure{ACL_ERROR_RT_MEMORY_ALLOCATION, "out of memory: the block cannot be recorded"};
    }
    *pointer = memory;
}

void allocate_device(void** pointer, std::size_t size, std::size_t padding, const aclrtMemMallocPolicy& policy) {
    allocate("devPtr", pointer, size, padding, BlockKind::kDevice, wants_huge_pages(policy));
}

// What the allocators of the two kinds are called in messages.
struct KindNames {
    const char* argument;
    const char* allocate;
    const char* free;
};
constexpr KindNames kDeviceNames = {"devPtr", "aclrtMalloc", "aclrtFree"};
constexpr KindNames kHostNames = {"hostPtr", "aclrtMallocHost", "aclrtFreeHost"};

const KindNames& names_of(BlockKind kind) {
    return kind == BlockKind::kDevice ? kDeviceNames : kHostNames;
}

// Why `pointer` is not the start of a block of `kind`.
[[noreturn]] void throw_not_a_block(const void* pointer, BlockKind kind) {
    const std::optional<Block> block = runtime().memory.find(pointer);
    std::string text;
    if (!block) {
        text = fmt::format("pointer {} was not allocated by {} or was already freed", pointer, names_of(kind).allocate);
    } else if (block->kind != kind) {
        const KindNames& other = names_of(block->kind);
        text = fmt::format("pointer {} was allocated by {}: free it with {}", pointer, other.allocate, other.free);
    } else {
        text = fmt::format("pointer {} lies inside a block that starts at {:#x}: only the start can be freed", pointer,
                           block->begin);
    }
    throw Failure{ACL_ERROR_RT_PARAM_INVALID, std::move(text)};
}

void release(void* pointer, BlockKind kind) {
    require_not_null(names_of(kind).argument, pointer);
    if (!runtime().memory.take(pointer, kind)) throw_not_a_block(pointer, kind);
    std::free(pointer);
}

// Waits for the device first. A pointer that cannot be freed is refused without waiting.
void release_after_device(void* pointer, BlockKind kind) {
    require_not_null(names_of(kind).argument, pointer);
    const std::optional<Block> block = runtime().memory.find(pointer);
    if (!block || block->kind != kind || block->begin != reinterpret_cast<uintptr_t>(pointer)) {
        throw_not_a_block(pointer, kind);
    }
    wait_for_device(block->device, kNoTimeout);
    release(pointer, kind);
}

// For calls that act on caches, which a CPU keeps coherent by itself.
void require_range(const void* pointer, std::size_t size) {
    require_not_null("devPtr", pointer);
    if (size == 0) throw Failure{ACL_ERROR_INVALID_PARAM, "size must be positive: got 0"};
}

}  // namespace

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
    return api_call(
        "aclrtMalloc", [&] { allocate_device(devPtr, size, kPadding, policy); }, out("devPtr", devPtr),
        arg("size", size), arg("policy", policy));
}

aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
    return api_call(
        "aclrtMallocAlign32", [&] { allocate_device(devPtr, size, 0, policy); }, out("devPtr", devPtr),
        arg("size", size), arg("policy", policy));
}

aclError aclrtMallocCached(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
    return api_call(
        "aclrtMallocCached", [&] { allocate_device(devPtr, size, kPadding, policy); }, out("devPtr", devPtr),
        arg("size", size), arg("policy", policy));
}

aclError aclrtMemFlush(void* devPtr, size_t size) {
    return api_call(
        "aclrtMemFlush", [&] { require_range(devPtr, size); }, arg("devPtr", devPtr), arg("size", size));
}

aclError aclrtMemInvalidate(void* devPtr, size_t size) {
    return api_call(
        "aclrtMemInvalidate", [&] { require_range(devPtr, size); }, arg("devPtr", devPtr), arg("size", size));
}

aclError aclrtFree(void* devPtr) {
    return api_call(
        "aclrtFree", [&] { release(devPtr, BlockKind::kDevice); }, arg("devPtr", devPtr));
}

aclError aclrtFreeWithDevSync(void* devPtr) {
    return api_call(
        "aclrtFreeWithDevSync", [&] { release_after_device(devPtr, BlockKind::kDevice); }, arg("devPtr", devPtr));
}

aclError aclrtMallocHost(void** hostPtr, size_t size) {
    return api_call(
        "aclrtMallocHost", [&] { allocate("hostPtr", hostPtr, size, 0, BlockKind::kHost, true); },
        out("hostPtr", hostPtr), arg("size", size));
}

aclError aclrtFreeHost(void* hostPtr) {
    return api_call(
        "aclrtFreeHost", [&] { release(hostPtr, BlockKind::kHost); }, arg("hostPtr", hostPtr));
}

aclError aclrtFreeHostWithDevSync(void* hostPtr) {
    return api_call(
        "aclrtFreeHostWithDevSync", [&] { release_after_device(hostPtr, BlockKind::kHost); }, arg("hostPtr", hostPtr));
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
    return api_call(
        "aclrtGetMemInfo",
        [&] {
            require_not_null("free", free);
            require_not_null("total", total);
            const int number = number_of(attr);
            constexpr int kLast = ACL_MEM_P2P_HUGE1G;
            if (number < 0 || number > kLast) {
                throw Failure{ACL_ERROR_INVALID_PARAM,
                              fmt::format("attr {} is not supported: expected 0..{}", number, kLast)};
            }
            const FreeAndTotal figures = memory_figures();
            *free = figures.free;
            *total = figures.total;
        },
        arg("attr", attr), out("free", free), out("total", total));
}

aclError aclrtPointerGetAttributes(const void* ptr, aclrtPtrAttributes* attributes) {
    return api_call(
        "aclrtPointerGetAttributes",
        [&] {
            require_not_null("ptr", ptr);
            require_not_null("attributes", attributes);
            const std::optional<Block> block = runtime().memory.find(ptr);
            aclrtPtrAttributes found{};
            found.location.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED;
            if (block) {
                found.location.id = static_cast<uint32_t>(block->device);
                found.location.type =
                    block->kind == BlockKind::kDevice ? ACL_MEM_LOCATION_TYPE_DEVICE : ACL_MEM_LOCATION_TYPE_HOST;
            }
            found.pageSize = static_cast<uint32_t>(sysconf(_SC_PAGESIZE));
            *attributes = found;
        },
        arg("ptr", ptr), out("attributes", attributes));
}
