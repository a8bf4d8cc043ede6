// What the handles of the C interface stand for.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "acl/acl_rt.h"
#include "execution_lock.h"

namespace ascendcl {

struct Stream {
    int32_t id = 0;
    int32_t device = 0;
    uint32_t priority = 0;
    uint32_t flags = 0;
    bool is_default = false;
    std::atomic<uint32_t> overflow_switch{0};
    ExecutionLock execution;
    aclrtStream handle = nullptr;
};

// Holds a stream while work executes on it.
class StreamScope {
  public:
    explicit StreamScope(Stream& stream) : stream_(stream) { stream_.execution.enter(); }
    ~StreamScope() { stream_.execution.leave(); }
    StreamScope(const StreamScope&) = delete;
    StreamScope& operator=(const StreamScope&) = delete;

  private:
    Stream& stream_;
};

struct Context {
    int32_t device = 0;
    bool is_default = false;
    std::shared_ptr<Stream> default_stream;
    std::array<std::atomic<int64_t>, 4> options{};  // by aclSysParamOpt
    std::array<std::atomic<bool>, 4> option_is_set{};
    aclrtContext handle = nullptr;
};

struct Event {
    static constexpr int64_t kNeverRecorded = -1;
    std::atomic<int64_t> recorded_ns{kNeverRecorded};  // of the steady clock
    aclrtEvent handle = nullptr;
};

}  // namespace ascendcl
