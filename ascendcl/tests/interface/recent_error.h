// The queued error text of this thread as a string; reading clears it.
#pragma once

#include <string>

#include "acl/acl.h"

inline std::string recent_error() {
    const char* text = aclGetRecentErrMsg();
    return text == nullptr ? std::string() : text;
}
