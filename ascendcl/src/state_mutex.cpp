#include "state_mutex.h"

#include <pthread.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <new>

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
    new (&list.mutex) std::mutex;
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
    new (&mutex_) std::shared_mutex;
}

void on_fork_in_child(void (*repair)()) {
    ForkList& list = fork_list();
    const std::lock_guard guard(list.mutex);
    if (list.repair_count == list.repairs.size()) std::abort();
    list.repairs[list.repair_count++] = repair;
}

}  // namespace ascendcl
