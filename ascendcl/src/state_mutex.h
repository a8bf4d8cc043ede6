// The mutex of everything that outlives a call: it survives fork().
#pragma once

#include <shared_mutex>

namespace ascendcl {

// A shared mutex that is never left locked in a forked child. fork() copies the locks as they stand, but not the
// threads that would release them; so all of these are taken before a fork (which also means that the tables behind
// them are whole), released in the parent and made anew in the child.
//
// Rules that keep this free of deadlocks: instances live for ever and are created while the library is loaded or, at
// the latest, when none is held; whoever holds two took them in the order of their creation; no user code runs under
// one.
class StateMutex {
  public:
    StateMutex();
    StateMutex(const StateMutex&) = delete;
    StateMutex& operator=(const StateMutex&) = delete;

    void lock() { mutex_.lock(); }
    void unlock() { mutex_.unlock(); }
    void lock_shared() { mutex_.lock_shared(); }
    void unlock_shared() { mutex_.unlock_shared(); }

    // For the child's side of a fork only: the old mutex is abandoned, as its owner does not exist here.
    void recreate();

  private:
    std::shared_mutex mutex_;
};

// Runs `repair` in the child after every fork, when all StateMutex are free again. For locks that cannot be taken
// before a fork because user code may run under them (streams).
void on_fork_in_child(void (*repair)());

}  // namespace ascendcl
