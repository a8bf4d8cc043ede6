// Handles that cannot be mistaken: numbers that are never used twice, instead of addresses that may come back.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "call.h"
#include "state_mutex.h"

namespace ascendcl {

enum class HandleKind : uintptr_t { kContext = 1, kStream = 2, kEvent = 3 };

// A new handle: a serial number with the kind in its low bits. Never null.
void* new_handle(HandleKind kind);

// Throws 107017 with a sentence that says what `handle` is instead of a live object of `kind`.
[[noreturn]] void throw_dead_handle(HandleKind kind, const char* argument, const void* handle);

// The live objects of one kind. Whoever looks one up shares it, so that it may be destroyed while it is in use.
template <class T, HandleKind kKind>
class HandleTable {
  public:
    // Makes the handle, stores it in object->handle, and shows the object to lookups.
    void add(const std::shared_ptr<T>& object) {
        void* const handle = new_handle(kKind);
        object->handle = handle;
        const std::lock_guard guard(mutex_);
        objects_.emplace(handle, object);
    }

    // Null when `handle` is not alive.
    std::shared_ptr<T> find(void* handle) {
        const std::shared_lock guard(mutex_);
        const auto found = objects_.find(handle);
        return found == objects_.end() ? nullptr : found->second;
    }

    // Throws 107017 when `handle` is not alive.
    std::shared_ptr<T> get(const char* argument, void* handle) {
        std::shared_ptr<T> object = find(handle);
        if (object == nullptr) throw_dead_handle(kKind, argument, handle);
        return object;
    }

    // Removes the object. False when another thread was faster.
    bool remove(const T& object) {
        const std::lock_guard guard(mutex_);
        return objects_.erase(object.handle) == 1;
    }

    // Calls visit(object) for all, under the table's lock.
    template <class Visit>
    void for_each(Visit&& visit) {
        const std::shared_lock guard(mutex_);
        for (const auto& entry : objects_) visit(entry.second);
    }

    std::size_t size() {
        const std::shared_lock guard(mutex_);
        return objects_.size();
    }

  private:
    StateMutex mutex_;
    std::unordered_map<void*, std::shared_ptr<T>> objects_;
};

}  // namespace ascendcl
