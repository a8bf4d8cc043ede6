// The worker threads behind parallel_for.
//
// A loop is published by opening a gate: one 64-bit word with the loop's number, how many workers may join, and how
// many have. A worker joins by raising the last with a compare-and-swap, which also gives it its slot. The caller works
// as slot 0; when no items are left it closes the gate and waits only for those who joined, so that a tiny loop never
// waits for threads that are still waking up. Everything else about a loop is written before the gate opens and read
// after joining.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "opbase/parallel.h"

namespace opbase {

class ThreadPool {
  public:
    ThreadPool();

    // Starts workers until there are `wanted`; fewer when the system refuses more. Returns how many there are.
    int grow(int wanted);

    // Runs a loop on the caller and at most `slots` - 1 workers. False, and nothing done, while another loop runs.
    bool try_run(int64_t items, int slots, const ParallelBody& body);

    // True on a thread that is inside a loop of the pool.
    static bool inside_loop();

    // After fork the threads of this pool exist in the parent only. The child keeps the memory reachable here.
    ThreadPool* abandoned = nullptr;

  private:
    void work(int slot) noexcept;
    void serve();
    uint64_t wait_for_gate(uint32_t last_loop);
    bool join(uint64_t gate, int* slot);
    void open_gate(int workers);
    int close_gate();
    void wait_until_left(uint32_t joined);

    const int processors_;

    // Written by the caller of a loop while the gate is closed.
    const ParallelBody* body_ = nullptr;
    int64_t items_ = 0;
    uint32_t loop_ = 0;
    std::atomic<bool> busy_{false};
    std::atomic<bool> spin_{true};

    // Each on a cache line of its own: all threads hammer on them at once.
    alignas(64) std::atomic<uint64_t> gate_{0};
    alignas(64) std::atomic<int64_t> next_item_{0};
    alignas(64) std::atomic<uint32_t> left_{0};  // workers that have left the loop; the caller sleeps on it
    std::atomic<bool> caller_sleeps_{false};
    alignas(64) std::atomic<uint32_t> wake_ups_{0};  // workers sleep on it
    std::atomic<int> sleepers_{0};

    std::mutex grow_mutex_;
    std::atomic<int> workers_{0};
    std::atomic<bool> refused_{false};
};

}  // namespace opbase
