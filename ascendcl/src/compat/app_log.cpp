// The application's own log lines.
#include <fmt/format.h>

#include <cstdarg>
#include <cstdio>
#include <string>

#include "acl/acl_base.h"
#include "ascendcl/log.h"

namespace ascendcl {
namespace {

LogLevel level_of(aclLogLevel level) {
    switch (level) {
        case ACL_ERROR:
            return LogLevel::kError;
        case ACL_WARNING:
            return LogLevel::kWarn;
        default:
            return LogLevel::kDebug;
    }
}

std::string format_message(const char* format, va_list values) {
    va_list copy;
    va_copy(copy, values);
    const int length = std::vsnprintf(nullptr, 0, format, copy);
    va_end(copy);
    if (length < 0) return format;  // an encoding error: the format is better than nothing
    std::string text(static_cast<std::size_t>(length) + 1, '\0');
    std::vsnprintf(text.data(), text.size(), format, values);
    text.pop_back();
    return text;
}

}  // namespace
}  // namespace ascendcl

void aclAppLog(aclLogLevel logLevel, const char* func, const char* file, uint32_t line, const char* fmt, ...) {
    const ascendcl::LogLevel level = ascendcl::level_of(logLevel);
    // Asked first: torch-npu logs at every step, and formatting costs more than the step.
    if (fmt == nullptr || level > ascendcl::log_level()) return;
    va_list values;
    va_start(values, fmt);
    try {
        const std::string text = ascendcl::format_message(fmt, values);
        ascendcl::log(level, fmt::format("{} ({}:{}) {}", func ? func : "?", file ? file : "?", line, text));
    } catch (...) {  // out of memory: the line is lost
    }
    va_end(values);
}
