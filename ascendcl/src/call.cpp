#include "call.h"

#include <fmt/format.h>

#include <exception>
#include <iterator>
#include <new>

#include "error_queue.h"

namespace ascendcl {
namespace {

constexpr std::string_view kCategory = "Runtime_Error(EE9999)";

aclError report(const char* function, aclError code, std::string_view text, LogLevel level) noexcept {
    try {
        queue_error_logged_at(level, ErrorSource::kRuntime, kCategory, fmt::format("{}: {}", function, text));
    } catch (...) {  // out of memory: the sentence alone is better than nothing
        queue_error_logged_at(level, ErrorSource::kRuntime, kCategory, text);
    }
    return code;
}

}  // namespace

void require_not_null(std::string_view name, const void* pointer) {
    if (pointer == nullptr) throw Failure{ACL_ERROR_INVALID_PARAM, fmt::format("{} cannot be nullptr", name)};
}

aclError report_current_exception(const char* function) noexcept {
    try {
        throw;
    } catch (const Failure& failure) {
        return report(function, failure.code, failure.text, failure.level);
    } catch (const std::bad_alloc&) {
        return report(function, ACL_ERROR_BAD_ALLOC, "the host is out of memory", LogLevel::kError);
    } catch (const std::exception& exception) {
        return report(function, ACL_ERROR_INTERNAL_ERROR, exception.what(), LogLevel::kError);
    } catch (...) {
        return report(function, ACL_ERROR_INTERNAL_ERROR, "an exception of unknown type was thrown", LogLevel::kError);
    }
}

TraceLine::TraceLine(const char* function) {
    text_ = function;
    text_ += '(';
}

void TraceLine::begin(const char* name) {
    if (!first_) text_ += ", ";
    first_ = false;
    text_ += name;
    text_ += '=';
}

void TraceLine::append_string(const char* value) {
    if (value == nullptr) {
        append_address(nullptr);
    } else {
        fmt::format_to(std::back_inserter(text_), "\"{}\"", value);
    }
}

void TraceLine::append_address(const void* value) {
    if (value == nullptr) {
        text_ += "nullptr";
    } else {
        fmt::format_to(std::back_inserter(text_), "{}", value);
    }
}

void TraceLine::append_signed(long long value) {
    fmt::format_to(std::back_inserter(text_), "{}", value);
}

void TraceLine::append_unsigned(unsigned long long value) {
    fmt::format_to(std::back_inserter(text_), "{}", value);
}

void TraceLine::append_real(double value) {
    fmt::format_to(std::back_inserter(text_), "{}", value);
}

void TraceLine::write() {
    log(LogLevel::kDebug, text_);
}

}  // namespace ascendcl
