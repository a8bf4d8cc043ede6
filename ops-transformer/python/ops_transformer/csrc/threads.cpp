#include "threads.h"

#include <ATen/Parallel.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "our_libraries.h"

namespace ops_transformer {
namespace {

// Each slot takes items until none is left. PyTorch gives a thread several slots when it has fewer threads than that;
// the first of them then does all the work.
void run_on_torch_threads(int64_t items, int slots, opbase::ParallelBody body) {
    std::atomic<int64_t> next{0};
    at::parallel_for(0, slots, /*grain_size=*/1, [&](int64_t begin, int64_t end) {
        for (int64_t slot = begin; slot < end; ++slot) {
            for (int64_t item = next++; item < items; item = next++) body(item, static_cast<int>(slot));
        }
    });
}

// OpenMP hangs in a child that was forked after its threads had run. The libraries' own threads do not.
void leave_torch_threads() {
    opbase::set_parallel_driver(nullptr);
}

// Takes PyTorch's threads, and gives the number that the user's variable allows: read before anybody asks for another.
int take_torch_threads() {
    const char* setting = std::getenv("ASCEND_CPU_THREADS");
    const bool is_set = setting != nullptr && *setting != '\0';
    const int limit = is_set ? opbase::thread_count() : std::numeric_limits<int>::max();
    opbase::set_parallel_driver(&run_on_torch_threads);
    pthread_atfork(nullptr, nullptr, &leave_torch_threads);
    return limit;
}

}  // namespace

bool libraries_are_ours() {
    return &opbase::set_parallel_driver != nullptr;
}

void use_torch_threads() {
    if (!libraries_are_ours()) return;
    static const int limit = take_torch_threads();
    opbase::set_thread_count(std::min(at::get_num_threads(), limit));
}

}  // namespace ops_transformer
