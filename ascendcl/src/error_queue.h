// What the error queue offers inside libascendcl, beside the calls of ascendcl/error_text.h.
#pragma once

#include <string_view>

#include "ascendcl/error_text.h"
#include "ascendcl/log.h"

namespace ascendcl {

// queue_error with a log level of its own: answers to probing calls are queued like errors but logged when debugging
// only.
void queue_error_logged_at(LogLevel level, ErrorSource source, std::string_view category,
                           std::string_view text) noexcept;

// Who shares a queue. The mode comes from "err_msg_mode" in the configuration of aclInit.
enum class ErrorScope { kThread, kProcess };
void set_error_scope(ErrorScope scope) noexcept;

// All queued texts, newest first, one a line, and empties the queue. nullptr when there are none. The pointer is valid
// until the thread takes errors again.
const char* take_errors() noexcept;

}  // namespace ascendcl
