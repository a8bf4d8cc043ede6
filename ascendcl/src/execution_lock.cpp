#include "execution_lock.h"

#include <new>

namespace ascendcl {

void ExecutionLock::enter() {
    const std::thread::id self = std::this_thread::get_id();
    std::unique_lock guard(mutex_);
    if (depth_ > 0 && owner_ != self) released_.wait(guard, [this] { return depth_ == 0; });
    owner_ = self;
    ++depth_;
}

void ExecutionLock::leave() {
    {
        const std::lock_guard guard(mutex_);
        if (--depth_ > 0) return;
        owner_ = {};
        ++generation_;
    }
    released_.notify_all();
}

bool ExecutionLock::wait_idle(std::optional<std::chrono::milliseconds> limit) {
    std::unique_lock guard(mutex_);
    const uint64_t generation = generation_;
    const auto idle = [&] { return depth_ == 0 || generation_ != generation; };
    if (limit) return released_.wait_for(guard, *limit, idle);
    released_.wait(guard, idle);
    return true;
}

bool ExecutionLock::busy() {
    const std::lock_guard guard(mutex_);
    return depth_ > 0;
}

bool ExecutionLock::held_by_this_thread() {
    const std::lock_guard guard(mutex_);
    return depth_ > 0 && owner_ == std::this_thread::get_id();
}

void ExecutionLock::repair_after_fork() {
    // Not destroyed first: whoever held or waited for them does not exist here and can never let go.
    new (&mutex_) std::mutex;
    new (&released_) std::condition_variable;
    if (owner_ != std::this_thread::get_id()) {
        owner_ = {};
        depth_ = 0;
    }
}

}  // namespace ascendcl
