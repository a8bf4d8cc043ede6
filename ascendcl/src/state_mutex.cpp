#include "state_mutex.h"

#include <pthread.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <new>

#if defined(__SANITIZE_THREAD__)
#define FUSION_THREAD_SANITIZER 1
#elif defined(__has_feature)
#define FUSION_THREAD_SANITIZER __has_feature(thread_sanitizer)
#endif
#if FUSION_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace ascendcl {
namespace {

// Fixed arrays: nothing here may depend on the order in which the static objects of other files are made.
struct ForkList {
    std::mutex mutex;
    std::array<StateMutex*, 16> mutexes{};
    std::size_t mutex_count = 0;
    std::array<void (*)(), 4> repairs{};
    std::size_t repair_count = 0;
};

ForkList& fork_list();

void before_fork() {
    ForkList& list = fork_list();
    list.mutex.lock();
    for (std::size_t i = 0; i < list.mutex_count; ++i) list.mutexes[i]->lock();
}

void after_fork_in_parent() {
    ForkList& list = fork_list();
    for (std::size_t i = list.mutex_count; i-- > 0;) list.mutexes[i]->unlock();
    list.mutex.unlock();
}

void after_fork_in_child() {
    ForkList& list = fork_list();
    for (std::size_t i = 0; i < list.mutex_count; ++i) list.mutexes[i]->recreate();
    list.mutex.unlock();  // a plain mutex does not look at who unlocks it
    for (std::size_t i = 0; i < list.repair_count; ++i) list.repairs[i]();
}

ForkList& fork_list() {
    static ForkList* const list = [] {
        pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
        return new ForkList;
    }();
    return *list;
}

}  // namespace

StateMutex::StateMutex() {
    ForkList& list = fork_list();
    const std::lock_guard guard(list.mutex);
    if (list.mutex_count == list.mutexes.size()) std::abort();  // a programming error: see the array's size
    list.mutexes[list.mutex_count++] = this;
}

void StateMutex::recreate() {
    // Unlocking would not do: the C library notes the writer's thread id, which fork() has changed, and readers that do
    // not exist here may still be counted.
#if FUSION_THREAD_SANITIZER
    // The sanitizer saw the lock before the fork, and cannot see it go.
    __tsan_mutex_pre_unlock(mutex_.native_handle(), 0);
    __tsan_mutex_post_unlock(mutex_.native_handle(), 0);
#endif
    new (&mutex_) std::shared_mutex;
}

void on_fork_in_child(void (*repair)()) {
    ForkList& list = fork_list();
    const std::lock_guard guard(list.mutex);
    if (list.repair_count == list.repairs.size()) std::abort();
    list.repairs[list.repair_count++] = repair;
}

}  // namespace ascendcl
