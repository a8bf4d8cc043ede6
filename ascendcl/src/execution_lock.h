// The lock under which the work of one stream executes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

namespace ascendcl {

// Serialises the work that several threads submit to one stream. A callback of the stream may submit to its own stream
// again: it enters a second time, and that work runs inside the callback.
class ExecutionLock {
  public:
    void enter();
    void leave();

    // Waits for the work that executes now; not for work that other threads submit meanwhile, so a busy stream cannot
    // starve the caller. False when `limit` passed first. Must not be called by the thread that executes the work.
    bool wait_idle(std::optional<std::chrono::milliseconds> limit);

    bool busy();
    bool held_by_this_thread();

    // In the child of a fork: work of other threads is gone, and with it their hold on the lock.
    void repair_after_fork();

  private:
    std::mutex mutex_;
    std::condition_variable released_;
    std::thread::id owner_;
    int depth_ = 0;            // nesting of the owner; 0: idle
    uint64_t generation_ = 0;  // how many times the lock became idle
};

}  // namespace ascendcl
