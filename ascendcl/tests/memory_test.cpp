// Allocation, freeing, the figures, and what is known about addresses.
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "support.h"

namespace {

using MallocFunction = aclError (*)(void**, size_t, aclrtMemMallocPolicy);
struct Allocator {
    const char* name;
    MallocFunction call;
    std::size_t padding;  // beyond the size rounded up to 32
};
constexpr Allocator kAllocators[] = {{"aclrtMalloc", aclrtMalloc, 32},
                                     {"aclrtMallocAlign32", aclrtMallocAlign32, 0},
                                     {"aclrtMallocCached", aclrtMallocCached, 32}};

bool aligned(const void* pointer, uintptr_t alignment) {
    return reinterpret_cast<uintptr_t>(pointer) % alignment == 0;
}

TEST(Memory, AllocatesOnAnyThreadWithoutADevice) {
    std::thread([] {
        void* block = nullptr;
        ASSERT_EQ(aclrtMalloc(&block, 100, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
        std::memset(block, 1, 100);  // it is ordinary memory
        EXPECT_EQ(aclrtFree(block), ACL_SUCCESS);
    }).join();
}

TEST(Memory, Alignment) {
    for (const Allocator& allocator : kAllocators) {
        for (const std::size_t size : {1UL, 31UL, 32UL, 33UL, 100UL, 4096UL, 1UL << 20, 2UL << 20, (4UL << 20) + 1}) {
            void* block = nullptr;
            ASSERT_EQ(allocator.call(&block, size, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS) << allocator.name;
            EXPECT_TRUE(aligned(block, 64)) << allocator.name << ' ' << size;
            EXPECT_TRUE(size < 4096 || aligned(block, 4096)) << allocator.name << ' ' << size;
            EXPECT_EQ(aclrtFree(block), ACL_SUCCESS);
        }
    }
}

// The whole block belongs to the program: the size rounded up to 32, and 32 more except with Align32.
TEST(Memory, SizeOfTheBlock) {
    for (const Allocator& allocator : kAllocators) {
        for (const std::size_t size : {1UL, 32UL, 33UL, 1000UL}) {
            void* block = nullptr;
            ASSERT_EQ(allocator.call(&block, size, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_SUCCESS);
            const std::size_t whole = (size + 31) / 32 * 32 + allocator.padding;
            EXPECT_EQ(aclrtMemset(block, whole, 1, whole), ACL_SUCCESS) << allocator.name << ' ' << size;
            expect_failure(aclrtMemset(block, whole + 1, 1, whole + 1), ACL_ERROR_RT_PARAM_INVALID,
                           {"reaches past the end of the destination block"});
            EXPECT_EQ(aclrtFree(block), ACL_SUCCESS);
        }
    }
}

TEST(Memory, EveryPolicyIsAccepted) {
    for (const int policy : {0, 1, 2, 3, 4, 5, 6, 7, 0x100, 0x1000 | 2, 0x100000, 99}) {
        void* block = nullptr;
        EXPECT_EQ(aclrtMalloc(&block, 3 << 20, static_cast<aclrtMemMallocPolicy>(policy)), ACL_SUCCESS) << policy;
        EXPECT_EQ(aclrtFree(block), ACL_SUCCESS);
    }
}

TEST(Memory, BadRequests) {
    for (const Allocator& allocator : kAllocators) {
        void* block = &block;
        expect_failure(allocator.call(nullptr, 16, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM,
                       {allocator.name, "devPtr cannot be nullptr"});
        expect_failure(allocator.call(&block, 0, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM,
                       {allocator.name, "size must be positive: got 0"});
        EXPECT_EQ(block, &block) << "nothing is written on failure";
    }
    void* block = nullptr;
    expect_failure(aclrtMallocHost(nullptr, 16), ACL_ERROR_INVALID_PARAM, {"hostPtr cannot be nullptr"});
    expect_failure(aclrtMallocHost(&block, 0), ACL_ERROR_INVALID_PARAM, {"size must be positive: got 0"});
    EXPECT_EQ(block, nullptr);
}

TEST(Memory, OutOfMemory) {
    std::size_t free = 0;
    std::size_t total = 0;
    ASSERT_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total), ACL_SUCCESS);
    for (const std::size_t size : {total + 1, std::size_t{1} << 60, std::numeric_limits<std::size_t>::max(),
                                   std::numeric_limits<std::size_t>::max() - 31}) {
        void* block = nullptr;
        for (const Allocator& allocator : kAllocators) {
            expect_failure(allocator.call(&block, size, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION,
                           {"out of memory: size " + std::to_string(size) + " exceeds the free memory of"});
        }
        expect_failure(aclrtMallocHost(&block, size), ACL_ERROR_RT_MEMORY_ALLOCATION, {"out of memory"});
        EXPECT_EQ(block, nullptr);
    }
    void* block = nullptr;
    EXPECT_EQ(aclrtMalloc(&block, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS) << "the process works on";
    EXPECT_EQ(aclrtFree(block), ACL_SUCCESS);
}

// Blocks that were not written yet take no pages; they are promised all the same. In large pieces, and in pieces so
// small that not every one of them makes the runtime look at the machine again.
TEST(Memory, PromisedMemoryIsNotFree) {
    for (const std::size_t pieces : {2, 40}) {
        std::size_t free = 0;
        std::size_t total = 0;
        ASSERT_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total), ACL_SUCCESS);
        const std::size_t size = free / pieces;
        std::vector<void*> blocks;
        aclError code = ACL_SUCCESS;
        // All live blocks together are never more than the total, so one of these fails.
        for (std::size_t i = 0; i <= total / size && code == ACL_SUCCESS; ++i) {
            void* block = nullptr;
            code = aclrtMallocAlign32(&block, size, ACL_MEM_MALLOC_NORMAL_ONLY);
            if (code == ACL_SUCCESS) blocks.push_back(block);
        }
        EXPECT_EQ(code, ACL_ERROR_RT_MEMORY_ALLOCATION);
        EXPECT_GE(blocks.size(), 1U);
        std::size_t free_now = 0;
        EXPECT_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &free_now, &total), ACL_SUCCESS);
        EXPECT_LE(free_now, total - blocks.size() * size);
        for (void* const block : blocks) EXPECT_EQ(aclrtFree(block), ACL_SUCCESS);
        take_errors();
    }
}

TEST(Memory, FiguresOfTheMachine) {
    std::size_t reference_total = 0;
    for (int attr = ACL_DDR_MEM; attr <= ACL_MEM_P2P_HUGE1G; ++attr) {
        std::size_t free = 0;
        std::size_t total = 0;
        ASSERT_EQ(aclrtGetMemInfo(static_cast<aclrtMemAttr>(attr), &free, &total), ACL_SUCCESS) << attr;
        EXPECT_GT(free, 0U);
        EXPECT_LE(free, total);
        EXPECT_LE(total,
                  static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
        if (attr == ACL_DDR_MEM) reference_total = total;
        EXPECT_EQ(total, reference_total);
    }
    std::size_t number = 0;
    expect_failure(aclrtGetMemInfo(ACL_HBM_MEM, nullptr, &number), ACL_ERROR_INVALID_PARAM, {"free cannot be nullptr"});
    expect_failure(aclrtGetMemInfo(ACL_HBM_MEM, &number, nullptr), ACL_ERROR_INVALID_PARAM,
                   {"total cannot be nullptr"});
    expect_failure(aclrtGetMemInfo(static_cast<aclrtMemAttr>(18), &number, &number), ACL_ERROR_INVALID_PARAM,
                   {"attr 18"});
}

// Every wrong way to free, for both kinds.
TEST(Memory, BadFrees) {
    const struct {
        aclError (*free)(void*);
        aclError (*other_free)(void*);
        const char* argument;
        const char* allocator;
        const char* other;
        bool device;
    } kinds[] = {{aclrtFree, aclrtFreeHost, "devPtr", "aclrtMalloc", "aclrtFreeHost", true},
                 {aclrtFreeWithDevSync, aclrtFreeHostWithDevSync, "devPtr", "aclrtMalloc", "aclrtFreeHost", true},
                 {aclrtFreeHost, aclrtFree, "hostPtr", "aclrtMallocHost", "aclrtFree", false},
                 {aclrtFreeHostWithDevSync, aclrtFreeWithDevSync, "hostPtr", "aclrtMallocHost", "aclrtFree", false}};
    for (const auto& kind : kinds) {
        void* block = nullptr;
        ASSERT_EQ(kind.device ? aclrtMalloc(&block, 256, ACL_MEM_MALLOC_HUGE_FIRST) : aclrtMallocHost(&block, 256),
                  ACL_SUCCESS);
        const std::string unknown = std::string("was not allocated by ") + kind.allocator + " or was already freed";
        expect_failure(kind.free(nullptr), ACL_ERROR_INVALID_PARAM, {kind.argument, "cannot be nullptr"});
        expect_failure(kind.other_free(block), ACL_ERROR_RT_PARAM_INVALID,
                       {"was allocated by " + std::string(kind.allocator) + ": free it with"});
        expect_failure(kind.free(static_cast<char*>(block) + 32), ACL_ERROR_RT_PARAM_INVALID, {"lies inside a block"});
        int local = 0;
        expect_failure(kind.free(&local), ACL_ERROR_RT_PARAM_INVALID, {unknown});
        EXPECT_EQ(kind.free(block), ACL_SUCCESS) << "the refused calls changed nothing";
        expect_failure(kind.free(block), ACL_ERROR_RT_PARAM_INVALID, {unknown});
    }
}

TEST(Memory, FlushAndInvalidate) {
    void* block = nullptr;
    ASSERT_EQ(aclrtMallocCached(&block, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    for (const auto call : {aclrtMemFlush, aclrtMemInvalidate}) {
        EXPECT_EQ(call(block, 64), ACL_SUCCESS);
        expect_failure(call(nullptr, 64), ACL_ERROR_INVALID_PARAM, {"devPtr cannot be nullptr"});
        expect_failure(call(block, 0), ACL_ERROR_INVALID_PARAM, {"size must be positive: got 0"});
    }
    EXPECT_EQ(aclrtFree(block), ACL_SUCCESS);
}

TEST(Memory, Attributes) {
    void* device = nullptr;
    void* host = nullptr;
    int local = 0;
    ASSERT_EQ(aclrtMallocAlign32(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    ASSERT_EQ(aclrtMallocHost(&host, 64), ACL_SUCCESS);
    const auto type_of = [](const void* pointer) {
        aclrtPtrAttributes attributes;
        EXPECT_EQ(aclrtPointerGetAttributes(pointer, &attributes), ACL_SUCCESS);
        EXPECT_EQ(attributes.location.id, 0U);
        EXPECT_EQ(attributes.pageSize, static_cast<uint32_t>(sysconf(_SC_PAGESIZE)));
        return attributes.location.type;
    };
    EXPECT_EQ(type_of(device), ACL_MEM_LOCATION_TYPE_DEVICE);
    EXPECT_EQ(type_of(static_cast<char*>(device) + 63), ACL_MEM_LOCATION_TYPE_DEVICE);
    EXPECT_EQ(type_of(host), ACL_MEM_LOCATION_TYPE_HOST);
    EXPECT_EQ(type_of(&local), ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    EXPECT_EQ(aclrtFree(device), ACL_SUCCESS);
    EXPECT_EQ(type_of(device), ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    EXPECT_EQ(aclrtFreeHost(host), ACL_SUCCESS);
    aclrtPtrAttributes attributes;
    expect_failure(aclrtPointerGetAttributes(nullptr, &attributes), ACL_ERROR_INVALID_PARAM, {"ptr cannot be nullptr"});
    expect_failure(aclrtPointerGetAttributes(&local, nullptr), ACL_ERROR_INVALID_PARAM,
                   {"attributes cannot be nullptr"});
}

// Blocks come and go on several threads; each checks that nobody else writes into its own.
TEST(Memory, ManyThreads) {
    std::vector<std::thread> threads;
    for (unsigned id = 0; id < 4; ++id) {
        threads.emplace_back([id] {
            std::mt19937 random(id);  // the seed is the thread's number
            std::vector<std::pair<unsigned char*, std::size_t>> blocks;
            const auto value = static_cast<unsigned char>(id + 1);
            for (int round = 0; round < 1000; ++round) {
                const std::size_t size = 1 + random() % 2000;
                void* block = nullptr;
                ASSERT_EQ(aclrtMallocAlign32(&block, size, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
                ASSERT_EQ(aclrtMemset(block, size, value, size), ACL_SUCCESS);
                blocks.emplace_back(static_cast<unsigned char*>(block), size);
                if (blocks.size() < 20) continue;
                std::swap(blocks[random() % blocks.size()], blocks.back());
                const auto [oldest, bytes] = blocks.back();
                for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(oldest[i], value) << "thread " << id;
                ASSERT_EQ(aclrtFree(oldest), ACL_SUCCESS);
                blocks.pop_back();
            }
            for (const auto& [block, bytes] : blocks) ASSERT_EQ(aclrtFree(block), ACL_SUCCESS);
        });
    }
    for (std::thread& thread : threads) thread.join();
}

}  // namespace
