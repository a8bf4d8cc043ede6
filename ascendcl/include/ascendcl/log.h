// The log of all libraries: ASCEND_CPU_LOG=off|error|warn|debug (default warn), lines on standard error.
#pragma once

#include <string_view>

#include "ascendcl/api.h"

namespace ascendcl {

enum class LogLevel { kOff, kError, kWarn, kDebug };

// The level that ASCEND_CPU_LOG asks for; read once.
ASCENDCL_API LogLevel log_level() noexcept;

// Writes one line when `level` is enabled.
ASCENDCL_API void log(LogLevel level, std::string_view text) noexcept;

// Writes a warning once per process and `kind`; later ones of the kind are dropped.
ASCENDCL_API void warn_once(std::string_view kind, std::string_view text) noexcept;

}  // namespace ascendcl
