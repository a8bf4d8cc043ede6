// The life of the engine in a process: aclInit, aclFinalize, the configuration file, and the error text.
#include <fmt/format.h>

#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>

#include "acl/acl_rt.h"
#include "call.h"
#include "error_queue.h"
#include "runtime.h"
#include "state_mutex.h"

using namespace ascendcl;

namespace {

struct InitState {
    StateMutex mutex;
    uint64_t count = 0;                        // successful and repeated calls of aclInit since the last end
    bool finalized = false;                    // ended, and not started again
    std::optional<std::string> configuration;  // content of the first file given in this process
};

InitState& init_state() {
    static InitState* const state = new InitState;
    return *state;
}
[[maybe_unused]] const InitState& kMadeAtLoad = init_state();

std::string read_file(const char* path) {
    std::ifstream file(path, std::ios::binary);
    file.peek();  // reading tells a folder from a file, opening does not
    if (!file.is_open() || file.bad()) {
        throw Failure{ACL_ERROR_INVALID_FILE, fmt::format("configPath \"{}\" cannot be read", path)};
    }
    std::ostringstream content;
    content << file.rdbuf();
    return content.str();
}

// Checks the content and finds "err_msg_mode"; other entries belong to parts of the real system that are not here.
ErrorScope parse_configuration(const char* path, const std::string& content) {
    const nlohmann::json json = nlohmann::json::parse(content, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded() || !json.is_object()) {
        throw Failure{ACL_ERROR_PARSE_FILE, fmt::format("configPath \"{}\" does not hold a JSON object", path)};
    }
    const auto mode = json.find("err_msg_mode");
    if (mode == json.end() || *mode == "0") return ErrorScope::kThread;
    if (*mode == "1") return ErrorScope::kProcess;
    throw Failure{
        ACL_ERROR_PARSE_FILE,
        fmt::format("configPath \"{}\": err_msg_mode is {}: expected \"0\" (a queue per thread) or \"1\" (one "
                    "per process)",
                    path, mode->dump())};
}

// Starts the engine and gives the scope of error texts that the configuration asks for. Setting the scope is left to
// the callers, here and below, because it takes another StateMutex, which may be older than this one.
ErrorScope start(const char* path) {
    InitState& state = init_state();
    const std::lock_guard guard(state.mutex);
    if (state.count > 0) {
        ++state.count;
        throw Failure{ACL_ERROR_REPEAT_INITIALIZE,
                      fmt::format("already initialised (call count {}); this code can be ignored", state.count),
                      LogLevel::kDebug};
    }
    ErrorScope scope = ErrorScope::kThread;
    if (path != nullptr && *path != '\0') {
        std::string content = read_file(path);
        scope = parse_configuration(path, content);
        if (state.configuration && *state.configuration != content) {
            throw Failure{
                ACL_ERROR_INVALID_PARAM,
                fmt::format("configPath \"{}\" differs from the configuration of the first aclInit: it cannot "
                            "change within a process",
                            path)};
        }
        state.configuration = std::move(content);
    }
    state.count = 1;
    state.finalized = false;
    return scope;
}

[[noreturn]] void throw_repeated_finalize() {
    throw Failure{ACL_ERROR_REPEAT_FINALIZE, "not initialised, or already finalised; call aclInit first"};
}

// The caller holds the state's mutex.
void end(InitState& state) {
    state.count = 0;
    state.finalized = true;
}

// For those who look for leaks: what the program did not destroy. It stays usable.
void log_what_is_left() {
    if (log_level() < LogLevel::kDebug) return;
    Runtime& state = runtime();
    ascendcl::log(
        LogLevel::kDebug,
        fmt::format("aclFinalize: still alive are {} contexts, {} streams, {} events, {} bytes of memory",
                    state.contexts.size(), state.streams.size(), state.events.size(), state.memory.live_bytes()));
}

}  // namespace

aclError aclInit(const char* configPath) {
    return api_call(
        "aclInit", [&] { set_error_scope(start(configPath)); }, arg("configPath", configPath));
}

aclError aclFinalize(void) {
    return api_call("aclFinalize", [] {
        {
            InitState& state = init_state();
            const std::lock_guard guard(state.mutex);
            if (state.finalized) throw_repeated_finalize();
            end(state);
        }
        set_error_scope(ErrorScope::kThread);
        log_what_is_left();
    });
}

aclError aclFinalizeReference(uint64_t* refCount) {
    return api_call(
        "aclFinalizeReference",
        [&] {
            uint64_t left = 0;
            {
                InitState& state = init_state();
                const std::lock_guard guard(state.mutex);
                if (state.count == 0) {
                    if (refCount != nullptr) *refCount = 0;
                    throw_repeated_finalize();
                }
                if (state.count > 1) {
                    left = --state.count;
                } else {
                    end(state);
                }
            }
            if (left == 0) set_error_scope(ErrorScope::kThread);
            if (refCount != nullptr) *refCount = left;
        },
        out("refCount", refCount));
}

// Not wrapped: it must neither clear nor add what it returns.
const char* aclGetRecentErrMsg(void) {
    const char* const text = take_errors();
    if (log_level() >= LogLevel::kDebug) trace_call("aclGetRecentErrMsg", true, text);
    return text;
}
