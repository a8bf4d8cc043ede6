#include "ascendcl/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>

#include "first_answer.h"
#include "state_mutex.h"

namespace ascendcl {
namespace {

// One write(2) a line and no lock: lines of several threads do not mix, and a forked child can always log.
void write_line(std::string_view level, std::string_view text) noexcept {
    try {
        const std::string line = fmt::format("[ascend {}] [{}:{}] {}\n", level, getpid(), gettid(), text);
        std::string_view rest = line;
        while (!rest.empty()) {
            const ssize_t written = ::write(STDERR_FILENO, rest.data(), rest.size());
            if (written < 0 && errno == EINTR) continue;
            if (written <= 0) return;
            rest.remove_prefix(static_cast<std::size_t>(written));
        }
    } catch (...) {  // out of memory: the line is lost
    }
}

LogLevel read_level() noexcept {
    const char* const value = std::getenv("ASCEND_CPU_LOG");
    if (value == nullptr || *value == '\0') return LogLevel::kWarn;
    const std::string_view name = value;
    if (name == "off") return LogLevel::kOff;
    if (name == "error") return LogLevel::kError;
    if (name == "warn") return LogLevel::kWarn;
    if (name == "debug") return LogLevel::kDebug;
    try {
        write_line("WARN",
                   fmt::format("ASCEND_CPU_LOG is \"{}\": expected off, error, warn or debug; using warn", name));
    } catch (...) {
    }
    return LogLevel::kWarn;
}

std::string_view name_of(LogLevel level) noexcept {
    switch (level) {
        case LogLevel::kError:
            return "ERROR";
        case LogLevel::kWarn:
            return "WARN";
        default:
            return "DEBUG";
    }
}

struct WarnedKinds {
    StateMutex mutex;
    std::set<std::string, std::less<>> kinds;
};

WarnedKinds& warned_kinds() {
    static WarnedKinds* const warned = new WarnedKinds;
    return *warned;
}

// Made while the library is loaded, so that its mutex exists before any other is held.
[[maybe_unused]] const WarnedKinds& kMadeAtLoad = warned_kinds();

}  // namespace

LogLevel log_level() noexcept {
    constexpr int kUnknown = -1;
    static constinit std::atomic<int> kept{kUnknown};
    return static_cast<LogLevel>(first_answer(kept, kUnknown, [] { return static_cast<int>(read_level()); }));
}

void log(LogLevel level, std::string_view text) noexcept {
    if (level != LogLevel::kOff && level <= log_level()) write_line(name_of(level), text);
}

void warn_once(std::string_view kind, std::string_view text) noexcept {
    if (log_level() < LogLevel::kWarn) return;
    try {
        WarnedKinds& warned = warned_kinds();
        const std::lock_guard guard(warned.mutex);
        if (!warned.kinds.emplace(kind).second) return;
    } catch (...) {  // out of memory: better twice than never
    }
    log(LogLevel::kWarn, text);
}

}  // namespace ascendcl
