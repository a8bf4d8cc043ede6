// The wrapper that every exported acl function goes through. It gives all of them the same four habits: exceptions stop
// at the C boundary, a failure queues exactly one text, a success drops the thread's older runtime texts, and
// ASCEND_CPU_LOG=debug shows the call with its arguments and its code.
//
//     aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
//         return api_call("aclrtMalloc", [&] { ... throw Failure{ACL_ERROR_INVALID_PARAM, "size must be positive: got
//         0"}; },
//                         out("devPtr", devPtr), arg("size", size), arg("policy", policy));
//     }
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "acl/acl_base.h"
#include "ascendcl/error_text.h"
#include "ascendcl/log.h"

namespace ascendcl {

// Thrown by the body of a call. `text` names the argument, the value found and the rule; the wrapper puts the
// function's name in front. `level` is for codes that are an answer rather than an accident (asking for the device of a
// thread that has none): they are still queued, but logged only when debugging, so that callers who probe do not fill
// the log.
struct Failure {
    aclError code;
    std::string text;
    LogLevel level = LogLevel::kError;
};

// 100000 with "<name> cannot be nullptr".
void require_not_null(std::string_view name, const void* pointer);

// ---------------------------------------------------------------------------------------------------------------------
// Arguments for the trace: names and values, formatted only when a trace is written.

template <class T>
struct Argument {
    const char* name;
    T value;
    bool is_output;
};

// The number behind an enumeration that came from outside. Programs may pass what is no enumerator, and C++ leaves
// undefined what happens when such a value is read as the enumeration.
template <class Enum>
int number_of(const Enum& value) noexcept {
    static_assert(std::is_enum_v<Enum> && sizeof(Enum) == sizeof(int));
    int number = 0;
    std::memcpy(&number, &value, sizeof(number));
    return number;
}

// An input. Strings appear quoted, enumerations and integers as numbers, handles and addresses in hexadecimal.
template <class T>
auto arg(const char* name, const T& value) noexcept {
    if constexpr (std::is_enum_v<T>) {
        return Argument<int>{name, number_of(value), false};
    } else {
        return Argument<std::decay_t<T>>{name, value, false};
    }
}

// A pointer through which the call returns something: the trace of a successful call shows what was written.
template <class T>
Argument<T*> out(const char* name, T* pointer) noexcept {
    return {name, pointer, true};
}

// One line of the trace: "aclrtMalloc(devPtr=0x7ffe10 -> 0x55d0, size=64, policy=0) = 0".
class TraceLine {
  public:
    explicit TraceLine(const char* function);

    template <class T>
    void add(const Argument<T>& argument, bool succeeded) {
        begin(argument.name);
        append(argument.value);
        if constexpr (std::is_pointer_v<T>) {
            using Target = std::remove_pointer_t<T>;
            constexpr bool kShowable =
                std::is_arithmetic_v<Target> || std::is_enum_v<Target> || std::is_pointer_v<Target>;
            if constexpr (kShowable) {
                if (argument.is_output && succeeded && argument.value != nullptr) {
                    text_ += " -> ";
                    append(*argument.value);
                }
            }
        }
    }

    template <class T>
    void finish(T result) {
        text_ += ") = ";
        append(result);
        write();
    }

  private:
    template <class T>
    void append(T value) {
        if constexpr (std::is_same_v<T, const char*>) {
            append_string(value);
        } else if constexpr (std::is_pointer_v<T>) {
            append_address(reinterpret_cast<const void*>(value));
        } else if constexpr (std::is_enum_v<T>) {
            append_signed(number_of(value));
        } else if constexpr (std::is_floating_point_v<T>) {
            append_real(static_cast<double>(value));
        } else if constexpr (std::is_signed_v<T>) {
            append_signed(value);
        } else {
            append_unsigned(value);
        }
    }

    void begin(const char* name);
    void append_string(const char* value);
    void append_address(const void* value);
    void append_signed(long long value);
    void append_unsigned(unsigned long long value);
    void append_real(double value);
    void write();

    std::string text_;
    bool first_ = true;
};

// Out of line, so that an untraced call pays for one comparison only. Tracing never makes a call fail.
template <class Result, class... Args>
[[gnu::noinline]] void trace_call(const char* function, [[maybe_unused]] bool succeeded, Result result,
                                  const Args&... args) noexcept {
    try {
        TraceLine line(function);
        (line.add(args, succeeded), ...);
        line.finish(result);
    } catch (...) {  // out of memory: the line is lost
    }
}

// Queues the text for the exception in flight and gives its code: Failure as it says, bad_alloc 200000, others 500000.
aclError report_current_exception(const char* function) noexcept;

// ---------------------------------------------------------------------------------------------------------------------
// The two forms of the wrapper.

// Functions that return a code. `body` returns nothing and throws Failure.
template <class Body, class... Args>
aclError api_call(const char* function, Body&& body, const Args&... args) noexcept {
    aclError code = ACL_SUCCESS;
    try {
        body();
        clear_errors(ErrorSource::kRuntime);
    } catch (...) {
        code = report_current_exception(function);
    }
    if (log_level() >= LogLevel::kDebug) trace_call(function, code == ACL_SUCCESS, code, args...);
    return code;
}

// Functions that return a value (a handle, a size): `on_failure` is what the caller gets when `body` throws.
template <class Value, class Body, class... Args>
Value api_value(const char* function, Value on_failure, Body&& body, const Args&... args) noexcept {
    Value value = on_failure;
    bool succeeded = false;
    try {
        value = body();
        clear_errors(ErrorSource::kRuntime);
        succeeded = true;
    } catch (...) {
        report_current_exception(function);
    }
    if (log_level() >= LogLevel::kDebug) trace_call(function, succeeded, value, args...);
    return value;
}

// Functions that return nothing (the destroyers of the old single-operator interface).
template <class Body, class... Args>
void api_void(const char* function, Body&& body, const Args&... args) noexcept {
    api_call(function, std::forward<Body>(body), args...);
}

}  // namespace ascendcl
