// What the benchmarks need of the C interface, which is all that they use: memory, tensors, a stream, and errors as
// exceptions.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_flash_attention_score.h"

namespace fusion_bench {

// Turns a status code into an exception that carries the library's own explanation.
inline void check(int status, const char* call) {
    if (status == ACL_SUCCESS) return;
    const char* text = aclGetRecentErrMsg();
    throw std::runtime_error(std::string(call) + " gave " + std::to_string(status) + ": " + (text ? text : "no text"));
}

class DeviceMemory {
  public:
    explicit DeviceMemory(size_t bytes) : bytes_(bytes) {
        if (bytes > 0) check(aclrtMalloc(&address_, bytes, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
    }
    DeviceMemory(DeviceMemory&& other) noexcept
        : address_(std::exchange(other.address_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    ~DeviceMemory() {
        if (address_ != nullptr) aclrtFree(address_);
    }
    void* address() const { return address_; }
    size_t bytes() const { return bytes_; }

    // Fills everything with copies of `piece`; memory that is not written takes no place on a CPU.
    void fill(const void* piece, size_t piece_bytes) const {
        for (size_t at = 0; at < bytes_; at += piece_bytes) {
            const size_t count = std::min(piece_bytes, bytes_ - at);
            check(aclrtMemcpy(static_cast<char*>(address_) + at, count, piece, count, ACL_MEMCPY_HOST_TO_DEVICE),
                  "aclrtMemcpy");
        }
    }

  private:
    void* address_ = nullptr;
    size_t bytes_ = 0;
};

using Shape = std::vector<int64_t>;

inline Shape packed_strides(const Shape& shape) {
    Shape strides(shape.size(), 1);
    for (size_t i = shape.size() - 1; i > 0; i--) strides[i - 1] = strides[i] * shape[i];
    return strides;
}

// The description of a part of some memory.
class TensorView {
  public:
    // `storage`: the elements that the memory holds.
    TensorView(const DeviceMemory& memory, aclDataType type, const Shape& shape, const Shape& strides, int64_t offset,
               int64_t storage)
        : handle_(aclCreateTensor(shape.data(), shape.size(), type, strides.data(), offset, ACL_FORMAT_ND, &storage, 1,
                                  memory.address())) {
        if (handle_ == nullptr) check(ACL_ERROR_INVALID_PARAM, "aclCreateTensor");
    }
    TensorView(TensorView&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    ~TensorView() { aclDestroyTensor(handle_); }
    const aclTensor* get() const { return handle_; }

  private:
    aclTensor* handle_;
};

class Session {
  public:
    Session() {
        check(aclInit(nullptr), "aclInit");
        check(aclrtSetDevice(0), "aclrtSetDevice");
        check(aclrtCreateStream(&stream_), "aclrtCreateStream");
    }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session() {
        aclrtDestroyStream(stream_);
        aclrtResetDevice(0);
        aclFinalize();
    }
    aclrtStream stream() const { return stream_; }

  private:
    aclrtStream stream_ = nullptr;
};

struct Plan {
    uint64_t workspace_size = 0;
    aclOpExecutor* executor = nullptr;
};

}  // namespace fusion_bench
