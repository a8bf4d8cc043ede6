// Start and end of the operator library. All state starts on first use and lives until the process ends, so that there
// is nothing to do here; the calls exist because programs make them.
#include <fmt/format.h>

#include "aclnn/aclnn_base.h"
#include "call.h"

aclnnStatus aclnnInit(const char* configPath) {
    return opbase::checked_call(
        "aclnnInit", [] {},
        [&] { return configPath != nullptr ? fmt::format("configPath=\"{}\"", configPath) : "configPath=nullptr"; });
}

aclnnStatus aclnnFinalize() {
    return opbase::checked_call(
        "aclnnFinalize", [] {}, [] { return std::string(); });
}
