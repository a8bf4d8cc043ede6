#include "thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <system_error>
#include <thread>

#include "ascendcl/log.h"
#include "ascendcl/processors.h"

namespace opbase {
namespace {

thread_local bool t_inside_loop = false;

// The gate: loop number, workers that may join, workers that have joined.
constexpr uint64_t make_gate(uint32_t loop, uint32_t places, uint32_t joined) {
    return uint64_t{loop} << 32 | uint64_t{places} << 16 | joined;
}
constexpr uint32_t loop_of(uint64_t gate) {
    return static_cast<uint32_t>(gate >> 32);
}
constexpr uint32_t places_of(uint64_t gate) {
    return static_cast<uint32_t>(gate >> 16) & 0xFFFFU;
}
constexpr uint32_t joined_of(uint64_t gate) {
    return static_cast<uint32_t>(gate) & 0xFFFFU;
}

// std::atomic::wait can wake one thread or all, not as many as a loop needs.
void futex_wait(std::atomic<uint32_t>& word, uint32_t seen) {
    static_assert(sizeof(word) == sizeof(uint32_t));
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
}
void futex_wake(std::atomic<uint32_t>& word, int threads) {
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
}

void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");  // waits about as long as pause; "yield" does nothing on most cores
#endif
}

// Waking a sleeping thread takes some 10 to 50 microseconds; about as long it pays to wait for the next loop awake.
constexpr std::chrono::microseconds kSpinTime{30};

// True as soon as `done` says so, false when the time is over.
template <class Done>
bool spin_until(bool spin, const Done& done) {
    constexpr int kLooksPerClock = 32;  // reading the clock costs as much as a few looks
    if (done()) return true;
    if (!spin) return false;
    const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
    do {
        for (int i = 0; i < kLooksPerClock; i++) {
            relax();
            if (done()) return true;
        }
    } while (std::chrono::steady_clock::now() < deadline);
    return false;
}

}  // namespace

ThreadPool::ThreadPool() : processors_(ascendcl::available_processors()) {}

bool ThreadPool::inside_loop() {
    return t_inside_loop;
}

int ThreadPool::grow(int wanted) {
    int workers = workers_.load(std::memory_order_acquire);
    if (workers >= wanted || refused_.load(std::memory_order_relaxed)) return workers;
    const std::lock_guard lock(grow_mutex_);
    // Signals belong to the program's own threads; the new ones inherit the mask.
    sigset_t all;
    sigset_t previous;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous);
    for (workers = workers_.load(std::memory_order_relaxed); workers < wanted; workers++) {
        try {
            // Never joined: at exit the threads sleep, and the pool's memory is never freed.
            std::thread([this] { serve(); }).detach();
        } catch (const std::system_error&) {
            refused_.store(true, std::memory_order_relaxed);
            ascendcl::warn_once("opbase.threads", "the system refuses to start more threads: operators use fewer");
            break;
        }
    }
    pthread_sigmask(SIG_SETMASK, &previous, nullptr);
    workers_.store(workers, std::memory_order_release);
    return workers;
}

bool ThreadPool::try_run(int64_t items, int slots, const ParallelBody& body) {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    body_ = &body;
    items_ = items;
    next_item_.store(0, std::memory_order_relaxed);
    left_.store(0, std::memory_order_relaxed);
    open_gate(slots - 1);
    work(0);
    wait_until_left(static_cast<uint32_t>(close_gate()));
    busy_.store(false, std::memory_order_release);
    return true;
}

// A body that throws would leave the loop half done on other threads: it ends the program here instead.
void ThreadPool::work(int slot) noexcept {
    t_inside_loop = true;
    for (;;) {
        const int64_t item = next_item_.fetch_add(1, std::memory_order_relaxed);
        if (item >= items_) break;
        (*body_)(item, slot);
    }
    t_inside_loop = false;
}

void ThreadPool::open_gate(int workers) {
    // Spinning threads that have no processor of their own only take it from those who work.
    spin_.store(workers < processors_, std::memory_order_relaxed);
    gate_.store(make_gate(++loop_, static_cast<uint32_t>(workers), 0), std::memory_order_seq_cst);
    // Either this sees the sleeper, or the sleeper, who counts himself before he looks, sees the open gate.
    if (sleepers_.load(std::memory_order_seq_cst) > 0) {
        wake_ups_.fetch_add(1, std::memory_order_seq_cst);
        futex_wake(wake_ups_, workers);
    }
}

int ThreadPool::close_gate() {
    return static_cast<int>(joined_of(gate_.exchange(make_gate(loop_, 0, 0), std::memory_order_acq_rel)));
}

void ThreadPool::wait_until_left(uint32_t joined) {
    const auto all_left = [&] { return left_.load(std::memory_order_acquire) == joined; };
    while (!spin_until(spin_.load(std::memory_order_relaxed), all_left)) {
        caller_sleeps_.store(true, std::memory_order_seq_cst);
        const uint32_t seen = left_.load(std::memory_order_seq_cst);
        if (seen != joined) futex_wait(left_, seen);
        caller_sleeps_.store(false, std::memory_order_relaxed);
    }
}

// What a worker does for ever.
void ThreadPool::serve() {
    pthread_setname_np(pthread_self(), "opbase-worker");
    uint32_t last_loop = 0;
    for (;;) {
        const uint64_t gate = wait_for_gate(last_loop);
        int slot = 0;
        if (!join(gate, &slot)) continue;
        last_loop = loop_of(gate);
        work(slot);
        left_.fetch_add(1, std::memory_order_seq_cst);
        if (caller_sleeps_.load(std::memory_order_seq_cst)) futex_wake(left_, 1);
    }
}

// Returns an open gate of another loop than the last one, which the worker has found without items already.
uint64_t ThreadPool::wait_for_gate(uint32_t last_loop) {
    uint64_t gate = 0;
    const auto may_join = [&] {
        gate = gate_.load(std::memory_order_seq_cst);
        return loop_of(gate) != last_loop && joined_of(gate) < places_of(gate);
    };
    while (!spin_until(spin_.load(std::memory_order_relaxed), may_join)) {
        const uint32_t seen = wake_ups_.load(std::memory_order_seq_cst);
        sleepers_.fetch_add(1, std::memory_order_seq_cst);
        if (!may_join()) futex_wait(wake_ups_, seen);
        sleepers_.fetch_sub(1, std::memory_order_relaxed);
    }
    return gate;
}

bool ThreadPool::join(uint64_t gate, int* slot) {
    const uint32_t loop = loop_of(gate);
    while (loop_of(gate) == loop && joined_of(gate) < places_of(gate)) {
        if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
            *slot = static_cast<int>(joined_of(gate)) + 1;
            return true;
        }
    }
    return false;
}

}  // namespace opbase
