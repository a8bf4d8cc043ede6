#include "ascendcl/error_text.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <string>

#include "error_queue.h"
#include "state_mutex.h"

namespace ascendcl {
namespace {

constexpr std::size_t kMaxEntries = 8;

struct Entry {
    ErrorSource source;
    pthread_t thread;
    std::string line;
};

// Newest first.
class ErrorQueue {
  public:
    void push(Entry entry) {
        entries_.push_front(std::move(entry));
        if (entries_.size() > kMaxEntries) entries_.pop_back();
    }

    void drop(ErrorSource source, pthread_t thread) {
        std::erase_if(entries_, [&](const Entry& e) { return e.source == source && pthread_equal(e.thread, thread); });
    }

    bool empty() const { return entries_.empty(); }

    // All lines, newest first, and none left behind.
    std::string take() {
        std::string text;
        for (const Entry& entry : entries_) {
            if (!text.empty()) text += '\n';
            text += entry.line;
        }
        entries_.clear();
        return text;
    }

  private:
    std::deque<Entry> entries_;
};

// ---- the calling thread's part -------------------------------------------------------------------------------------

struct ThreadErrors {
    ErrorQueue queue;
    std::string taken;  // what the last take_errors() returned
};

// A pthread key instead of a thread_local object: its destructor runs after those of all thread_local objects (which
// may still call us), it runs again when a later destructor revives the state, and it does not run for the main thread,
// whose static destructors may still call us.
pthread_key_t make_key() {
    pthread_key_t key;
    pthread_key_create(&key, [](void* state) { delete static_cast<ThreadErrors*>(state); });
    return key;
}
const pthread_key_t thread_key = make_key();

ThreadErrors* existing_thread_errors() noexcept {
    return static_cast<ThreadErrors*>(pthread_getspecific(thread_key));
}

ThreadErrors& thread_errors() {
    ThreadErrors* state = existing_thread_errors();
    if (state == nullptr) {
        state = new ThreadErrors;
        pthread_setspecific(thread_key, state);
    }
    return *state;
}

// ---- the process's part, used with err_msg_mode 1 ------------------------------------------------------------------

struct ProcessErrors {
    StateMutex mutex;
    ErrorQueue queue;
};

ProcessErrors& process_errors() {
    static ProcessErrors* const state = new ProcessErrors;
    return *state;
}
[[maybe_unused]] const ProcessErrors& kMadeAtLoad = process_errors();

std::atomic<bool> process_scope{false};

// "2025-03-01-17:04:59.123.456" in UTC. Computed here because localtime_r and gmtime_r take a lock of the C library
// that a fork may leave locked.
std::string timestamp() {
    using namespace std::chrono;
    const auto now = floor<microseconds>(system_clock::now());
    const auto day = floor<days>(now);
    const year_month_day date(day);
    const hh_mm_ss time(now - day);
    const auto fraction = static_cast<long>(time.subseconds().count());
    return fmt::format("{:04}-{:02}-{:02}-{:02}:{:02}:{:02}.{:03}.{:03}", static_cast<int>(date.year()),
                       static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), time.hours().count(),
                       time.minutes().count(), time.seconds().count(), fraction / 1000, fraction % 1000);
}

}  // namespace

void queue_error_logged_at(LogLevel level, ErrorSource source, std::string_view category,
                           std::string_view text) noexcept {
    try {
        log(level, fmt::format("{}: {}", category, text));
        Entry entry{source, pthread_self(), fmt::format("[PID:{}] {} {}: {}", getpid(), timestamp(), category, text)};
        if (process_scope.load(std::memory_order_relaxed)) {
            ProcessErrors& process = process_errors();
            const std::lock_guard guard(process.mutex);
            process.queue.push(std::move(entry));
        } else {
            thread_errors().queue.push(std::move(entry));
        }
    } catch (...) {  // out of memory: the code that the caller gets has to do
    }
}

void queue_error(ErrorSource source, std::string_view category, std::string_view text) noexcept {
    queue_error_logged_at(LogLevel::kError, source, category, text);
}

void clear_errors(ErrorSource source) noexcept {
    ThreadErrors* const state = existing_thread_errors();
    if (state != nullptr && !state->queue.empty()) state->queue.drop(source, pthread_self());
    if (process_scope.load(std::memory_order_relaxed)) {
        // Only what this thread left: its success says nothing about the errors of others.
        ProcessErrors& process = process_errors();
        const std::lock_guard guard(process.mutex);
        process.queue.drop(source, pthread_self());
    }
}

void set_error_scope(ErrorScope scope) noexcept {
    process_scope.store(scope == ErrorScope::kProcess);
    if (scope == ErrorScope::kProcess) return;
    // Nobody reads the shared queue any more; its texts must not come back with the next aclInit.
    ProcessErrors& process = process_errors();
    const std::lock_guard guard(process.mutex);
    process.queue.take();
}

const char* take_errors() noexcept {
    try {
        std::string text;
        ThreadErrors* const state = existing_thread_errors();
        if (state != nullptr) text = state->queue.take();
        if (process_scope.load(std::memory_order_relaxed)) {
            ProcessErrors& process = process_errors();
            const std::lock_guard guard(process.mutex);
            const std::string shared = process.queue.take();
            if (!text.empty() && !shared.empty()) text += '\n';
            text += shared;
        }
        if (text.empty()) return nullptr;
        thread_errors().taken = std::move(text);
        return thread_errors().taken.c_str();
    } catch (...) {
        return nullptr;
    }
}

}  // namespace ascendcl
