#include "opbase/parallel.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>

#include "ascendcl/processors.h"
#include "thread_pool.h"

namespace opbase {
namespace {

std::atomic<int> g_requested{0};  // by set_thread_count, 0 = default
std::atomic<ParallelDriver> g_driver{nullptr};

// Made on first use and never destroyed, because its threads use it until the process ends.
std::atomic<ThreadPool*> g_pool{nullptr};
ThreadPool* g_abandoned = nullptr;  // pools whose threads stayed in a parent process

// In a forked child only the calling thread exists: the next use starts a new pool. Nothing here can block, whatever
// the other threads of the parent were doing.
void forget_pool_after_fork() {
    ThreadPool* pool = g_pool.exchange(nullptr);
    if (pool == nullptr) return;
    pool->abandoned = g_abandoned;
    g_abandoned = pool;
}

[[maybe_unused]] const int kForkHandler = pthread_atfork(nullptr, nullptr, forget_pool_after_fork);

ThreadPool& pool() {
    ThreadPool* current = g_pool.load(std::memory_order_acquire);
    if (current != nullptr) return *current;
    auto* fresh = new ThreadPool;
    if (g_pool.compare_exchange_strong(current, fresh, std::memory_order_acq_rel)) return *fresh;
    delete fresh;  // another thread was first; this one has no workers yet
    return *current;
}

int wanted_threads() {
    const int requested = g_requested.load(std::memory_order_relaxed);
    return requested != 0 ? requested : ascendcl::default_threads();
}

void run_inline(int64_t items, const ParallelBody& body) {
    for (int64_t item = 0; item < items; item++) body(item, 0);
}

}  // namespace

int thread_count() {
    const int threads = wanted_threads();
    if (threads == 1 || g_driver.load(std::memory_order_acquire) != nullptr) return threads;
    return std::min(threads, pool().grow(threads - 1) + 1);
}

void set_thread_count(int threads) {
    g_requested.store(std::clamp(threads, 0, ascendcl::kMaxThreads));
}

void parallel_for(int64_t items, int slots, ParallelBody body) {
    if (items <= 1 || slots <= 1 || ThreadPool::inside_loop()) return run_inline(items, body);
    if (const ParallelDriver driver = g_driver.load(std::memory_order_acquire)) return driver(items, slots, body);
    int threads = static_cast<int>(std::min<int64_t>(items, std::min(slots, wanted_threads())));
    if (threads == 1) return run_inline(items, body);
    // Starts threads only where thread_count() was not asked before, as in a forked child.
    threads = std::min(threads, pool().grow(threads - 1) + 1);
    if (threads == 1 || !pool().try_run(items, threads, body)) run_inline(items, body);
}

void set_parallel_driver(ParallelDriver driver) {
    g_driver.store(driver, std::memory_order_release);
}

}  // namespace opbase
