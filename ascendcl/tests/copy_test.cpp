// Copies and fills: the order of the checks, limits of blocks, over-reading, two dimensions.
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "support.h"

namespace {

constexpr aclError kParam = ACL_ERROR_INVALID_PARAM;
constexpr aclError kRange = ACL_ERROR_RT_PARAM_INVALID;

class CopyTest : public RuntimeTest {
  protected:
    // A block of exactly `size` bytes (a multiple of 32) that is freed with the test.
    char* device(std::size_t size) {
        void* block = nullptr;
        EXPECT_EQ(aclrtMallocAlign32(&block, size, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
        blocks_.push_back(block);
        return static_cast<char*>(block);
    }

    void TearDown() override {
        for (void* const block : blocks_) EXPECT_EQ(aclrtFree(block), ACL_SUCCESS);
        RuntimeTest::TearDown();
    }

    // Both forms of the copy.
    template <class Check>
    void with_both(Check check) {
        check([](void* dst, size_t max, const void* src, size_t count, int kind) {
            return aclrtMemcpy(dst, max, src, count, static_cast<aclrtMemcpyKind>(kind));
        });
        check([this](void* dst, size_t max, const void* src, size_t count, int kind) {
            return aclrtMemcpyAsync(dst, max, src, count, static_cast<aclrtMemcpyKind>(kind), stream_);
        });
        check([](void* dst, size_t max, const void* src, size_t count, int kind) {
            return aclrtMemcpyAsync(dst, max, src, count, static_cast<aclrtMemcpyKind>(kind), nullptr);
        });
    }

  private:
    std::vector<void*> blocks_;
};

std::string numbers(std::size_t count) {
    std::string bytes(count, '\0');
    std::iota(bytes.begin(), bytes.end(), static_cast<char>(1));
    return bytes;
}

TEST_F(CopyTest, EveryKindCopiesInEveryDirection) {
    char* const on_device = device(64);
    with_both([&](auto copy) {
        for (int kind = 0; kind <= 5; ++kind) {
            const std::string source = numbers(64);
            std::string back(64, '\0');
            std::memset(on_device, 0, 64);
            EXPECT_EQ(copy(on_device, 64, source.data(), 64, kind), ACL_SUCCESS) << kind;
            EXPECT_EQ(copy(back.data(), 64, on_device, 64, kind), ACL_SUCCESS) << kind;
            EXPECT_EQ(back, source) << "a kind that does not fit is no error";
        }
    });
}

TEST_F(CopyTest, ZeroBytesLookAtNothingElse) {
    int local = 0;
    with_both([&](auto copy) {
        EXPECT_EQ(copy(nullptr, 0, nullptr, 0, 99), ACL_SUCCESS);
        EXPECT_EQ(copy(&local, 0, nullptr, 0, -1), ACL_SUCCESS);
    });
    EXPECT_EQ(aclrtMemcpyAsync(nullptr, 0, nullptr, 0, ACL_MEMCPY_DEFAULT, &local), ACL_SUCCESS);
    EXPECT_EQ(aclrtMemset(nullptr, 0, 0, 0), ACL_SUCCESS);
    EXPECT_EQ(aclrtMemsetAsync(nullptr, 0, 0, 0, &local), ACL_SUCCESS);
    EXPECT_EQ(aclrtMemcpy2d(nullptr, 0, nullptr, 0, 0, 5, ACL_MEMCPY_DEFAULT), ACL_SUCCESS);
    EXPECT_EQ(aclrtMemcpy2dAsync(nullptr, 0, nullptr, 0, 5, 0, ACL_MEMCPY_DEFAULT, &local), ACL_SUCCESS);
}

TEST_F(CopyTest, ChecksInOrder) {
    char source[4] = {1, 2, 3, 4};
    char destination[4] = {};
    with_both([&](auto copy) {
        expect_failure(copy(nullptr, 0, nullptr, 4, 9), kParam, {"dst cannot be nullptr"});
        expect_failure(copy(destination, 0, nullptr, 4, 9), kParam, {"src cannot be nullptr"});
        expect_failure(copy(destination, 0, source, 4, 6), kParam, {"kind 6 is not supported: expected 0..5"});
        expect_failure(copy(destination, 0, source, 4, 7), kParam, {"kind 7"});
        expect_failure(copy(destination, 0, source, 4, -1), kParam, {"kind -1"});
        expect_failure(copy(destination, 0, source, 4, 1), kRange, {"count 4 exceeds destMax 0"});
        expect_failure(copy(destination, 3, source, 4, 1), kRange, {"count 4 exceeds destMax 3"});
    });
    EXPECT_EQ(std::string(destination, 4), std::string(4, '\0')) << "nothing is written on failure";
}

TEST_F(CopyTest, PastTheEndOfTheDestinationBlock) {
    char* const block = device(64);
    void* host = nullptr;
    ASSERT_EQ(aclrtMallocHost(&host, 64), ACL_SUCCESS);
    const std::string source = numbers(65);
    for (char* const destination : {block, static_cast<char*>(host)}) {
        std::memset(destination, 0, 64);
        with_both([&](auto copy) {
            expect_failure(copy(destination, 65, source.data(), 65, 1), kRange,
                           {"count 65 reaches past the end of the destination block", "it has 64 bytes left"});
            expect_failure(copy(destination + 60, 65, source.data(), 5, 1), kRange, {"it has 4 bytes left"});
            EXPECT_EQ(std::string(destination, 64), std::string(64, '\0'));
            EXPECT_EQ(copy(destination + 60, 4, source.data(), 4, 1), ACL_SUCCESS);
            std::memset(destination, 0, 64);
        });
    }
    EXPECT_EQ(aclrtFreeHost(host), ACL_SUCCESS);
}

// The reference program reads its half-precision output as floats: twice the bytes that the block has.
TEST_F(CopyTest, OverReadGivesZeros) {
    char* const block = device(64);
    const std::string source = numbers(64);
    ASSERT_EQ(aclrtMemcpy(block, 64, source.data(), 64, ACL_MEMCPY_HOST_TO_DEVICE), ACL_SUCCESS);
    with_both([&](auto copy) {
        std::string read(128, 'x');
        EXPECT_EQ(copy(read.data(), 128, block, 128, 2), ACL_SUCCESS);
        EXPECT_EQ(read, source + std::string(64, '\0'));
        std::string inner(128, 'x');
        EXPECT_EQ(copy(inner.data(), 128, block + 63, 128, 2), ACL_SUCCESS) << "from an interior pointer";
        EXPECT_EQ(inner, source.substr(63) + std::string(127, '\0'));
    });
}

TEST_F(CopyTest, PaddingOfABlockReadsAsZero) {
    void* block = nullptr;
    ASSERT_EQ(aclrtMalloc(&block, 10, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    std::memset(block, 7, 10);
    std::string read(100, 'x');
    EXPECT_EQ(aclrtMemcpy(read.data(), 100, block, 100, ACL_MEMCPY_DEVICE_TO_HOST), ACL_SUCCESS);
    EXPECT_EQ(read, std::string(10, '\7') + std::string(90, '\0'));
    EXPECT_EQ(aclrtFree(block), ACL_SUCCESS);
}

TEST_F(CopyTest, FreedBlocksDoNotLimitAnyMore) {
    void* block = nullptr;
    ASSERT_EQ(aclrtMallocAlign32(&block, 32, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    ASSERT_EQ(aclrtFree(block), ACL_SUCCESS);
    // Other memory around the same addresses: what the runtime knew about them must be gone.
    std::string source = numbers(4096);
    std::string destination(4096, '\0');
    EXPECT_EQ(aclrtMemcpy(destination.data(), 4096, source.data(), 4096, ACL_MEMCPY_DEFAULT), ACL_SUCCESS);
    EXPECT_EQ(destination, source);
}

TEST_F(CopyTest, OverlapCopiesAsThroughABuffer) {
    char* const block = device(64);
    const std::string source = numbers(64);
    with_both([&](auto copy) {
        std::memcpy(block, source.data(), 64);
        EXPECT_EQ(copy(block, 64, block, 64, 3), ACL_SUCCESS);
        EXPECT_EQ(std::string(block, 64), source);
        EXPECT_EQ(copy(block + 1, 63, block, 63, 3), ACL_SUCCESS);
        EXPECT_EQ(std::string(block + 1, 63), source.substr(0, 63));
    });
}

TEST_F(CopyTest, Fill) {
    char* const block = device(64);
    const auto fill_async = [this](void* pointer, size_t max, int32_t value, size_t count) {
        return aclrtMemsetAsync(pointer, max, value, count, stream_);
    };
    const auto check = [&](auto fill) {
        std::memset(block, 0, 64);
        EXPECT_EQ(fill(block + 1, 62, 0x1FF, 62), ACL_SUCCESS) << "the value is cut to a byte";
        EXPECT_EQ(std::string(block, 64), std::string(1, '\0') + std::string(62, '\xFF') + std::string(1, '\0'));
        expect_failure(fill(nullptr, 0, 0, 1), kParam, {"devPtr cannot be nullptr"});
        expect_failure(fill(block, 3, 0, 4), kRange, {"count 4 exceeds maxCount 3"});
        expect_failure(fill(block + 60, 100, 0, 5), kRange, {"count 5 reaches past the end", "it has 4 bytes left"});
        EXPECT_EQ(block[60], '\xFF') << "nothing is written on failure";
    };
    check(aclrtMemset);
    check(fill_async);
}

TEST_F(CopyTest, TwoDimensions) {
    const std::string source = numbers(12);  // 3 rows of 4
    const auto copy_async = [this](void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                                   size_t height, aclrtMemcpyKind kind) {
        return aclrtMemcpy2dAsync(dst, dpitch, src, spitch, width, height, kind, stream_);
    };
    const auto check = [&](auto copy) {
        std::string rows(14, '.');
        for (int kind = 0; kind <= 3; ++kind) {
            rows.assign(14, '.');
            EXPECT_EQ(copy(rows.data(), 5, source.data(), 4, 3, 3, static_cast<aclrtMemcpyKind>(kind)), ACL_SUCCESS);
            EXPECT_EQ(rows, "\1\2\3..\5\6\7..\x9\xA\xB.");
        }
        rows.assign(14, '.');
        EXPECT_EQ(copy(rows.data(), 4, source.data(), 4, 4, 1, ACL_MEMCPY_HOST_TO_HOST), ACL_SUCCESS);
        EXPECT_EQ(rows, "\1\2\3\4..........");
        rows.assign(14, '.');
        const auto h2d = ACL_MEMCPY_HOST_TO_DEVICE;
        expect_failure(copy(nullptr, 5, source.data(), 4, 3, 3, h2d), kParam, {"dst cannot be nullptr"});
        expect_failure(copy(rows.data(), 5, nullptr, 4, 3, 3, h2d), kParam, {"src cannot be nullptr"});
        expect_failure(copy(rows.data(), 5, source.data(), 4, 3, 3, ACL_MEMCPY_DEFAULT), kParam,
                       {"kind 4 is not supported: expected 0..3"});
        expect_failure(copy(rows.data(), 2, source.data(), 4, 3, 3, h2d), kRange, {"width 3 exceeds dpitch 2"});
        expect_failure(copy(rows.data(), 5, source.data(), 2, 3, 3, h2d), kRange, {"width 3 exceeds spitch 2"});
        expect_failure(copy(rows.data(), SIZE_MAX / 2, source.data(), 4, 3, 4, h2d), kRange,
                       {"exceeds the address space"});
        EXPECT_EQ(rows, std::string(14, '.')) << "nothing is written on failure";
    };
    check(aclrtMemcpy2d);
    check(copy_async);
}

TEST_F(CopyTest, TwoDimensionsAtTheEndsOfBlocks) {
    char* const block = device(32);
    const std::string source = numbers(32);
    std::memcpy(block, source.data(), 32);
    std::string other(64, '.');
    // 3 rows with a pitch of 15 end at byte 32 when they are 2 wide, and past it when 3 wide.
    EXPECT_EQ(aclrtMemcpy2d(block, 15, other.data(), 20, 2, 3, ACL_MEMCPY_HOST_TO_DEVICE), ACL_SUCCESS);
    expect_failure(aclrtMemcpy2d(block, 15, other.data(), 20, 3, 3, ACL_MEMCPY_HOST_TO_DEVICE), kRange,
                   {"(height - 1) * dpitch + width = 33 reaches past the end", "it has 32 bytes left"});
    // Reading past the end: the last row has 2 of its 4 bytes, the one behind it none.
    std::memcpy(block, source.data(), 32);
    std::string rows(16, 'x');
    EXPECT_EQ(aclrtMemcpy2d(rows.data(), 4, block, 15, 4, 4, ACL_MEMCPY_DEVICE_TO_HOST), ACL_SUCCESS);
    EXPECT_EQ(rows, source.substr(0, 4) + source.substr(15, 4) + source.substr(30, 2) + std::string(6, '\0'));
}

TEST_F(CopyTest, TwoDimensionsOverlapping) {
    char* const block = device(32);
    const std::string source = numbers(32);
    std::memcpy(block, source.data(), 32);
    // Rows of 4 with a pitch of 8 become rows with a pitch of 4, and back, in place.
    EXPECT_EQ(aclrtMemcpy2d(block, 4, block, 8, 4, 4, ACL_MEMCPY_DEVICE_TO_DEVICE), ACL_SUCCESS);
    const std::string packed = source.substr(0, 4) + source.substr(8, 4) + source.substr(16, 4) + source.substr(24, 4);
    EXPECT_EQ(std::string(block, 16), packed);
    EXPECT_EQ(aclrtMemcpy2d(block, 8, block, 4, 4, 4, ACL_MEMCPY_DEVICE_TO_DEVICE), ACL_SUCCESS);
    EXPECT_EQ(
        std::string(block, 4) + std::string(block + 8, 4) + std::string(block + 16, 4) + std::string(block + 24, 4),
        packed);
}

}  // namespace
