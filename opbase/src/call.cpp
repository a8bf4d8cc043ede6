#include "call.h"

#include <fmt/format.h>

#include <exception>
#include <new>
#include <string_view>

#include "ascendcl/error_text.h"
#include "ascendcl/log.h"
#include "opbase/error.h"

namespace opbase {
namespace {

using ascendcl::ErrorSource;
using ascendcl::LogLevel;

// The category is what users and adapters search a text for; it follows from the first digit of the code.
std::string_view category(aclnnStatus code) {
    switch (code / 100000) {
        case 1:
            return "AclNN_Parameter_Error(EZ1001)";
        case 3:
            return "AclNN_Runtime_Error(EZ9903)";
        default:
            return "AclNN_Inner_Error(EZ9999)";
    }
}

aclnnStatus report(const char* name, aclnnStatus code, const char* what) noexcept {
    try {
        ascendcl::queue_error(ErrorSource::kOperator, category(code), fmt::format("{}: {}", name, what));
    } catch (...) {  // no memory for the longer text: the shorter one exists already
        ascendcl::queue_error(ErrorSource::kOperator, category(code), what);
    }
    return code;
}

}  // namespace

aclnnStatus report_current_exception(const char* name, aclnnStatus out_of_memory) noexcept {
    try {
        throw;
    } catch (const OperatorError& error) {
        return report(name, error.code(), error.what());
    } catch (const std::bad_alloc&) {
        return report(name, out_of_memory, "out of host memory");
    } catch (const std::exception& error) {
        return report(name, kInner, error.what());
    } catch (...) {
        return report(name, kInner, "unknown exception");
    }
}

void trace_call(const char* name, const char* suffix, aclnnStatus code, DescribeArguments describe) noexcept {
    if (ascendcl::log_level() < LogLevel::kDebug) return;
    try {
        ascendcl::log(LogLevel::kDebug, fmt::format("{}{}({}) = {}", name, suffix, describe(), code));
    } catch (...) {  // a trace that cannot be made must not change the call
    }
}

aclnnStatus checked_call(const char* name, FunctionRef<void()> body, DescribeArguments describe) noexcept {
    aclnnStatus code = OK;
    try {
        body();
        ascendcl::clear_errors(ErrorSource::kOperator);
    } catch (...) {
        code = report_current_exception(name, kInner);
    }
    trace_call(name, "", code, describe);
    return code;
}

void destroy_call(const char* name, const void* object) noexcept {
    trace_call(name, "", OK, [&] { return fmt::format("{}", object); });
}

}  // namespace opbase
