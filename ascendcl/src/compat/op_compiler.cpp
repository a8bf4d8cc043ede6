// Options of the operator compiler, and the compiled operators themselves, which do not exist here.
#include "acl/acl_op_compiler.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <mutex>
#include <string>

#include "compat/op_attr.h"
#include "compat/tensor_desc.h"
#include "compat/unsupported.h"
#include "state_mutex.h"

using ascendcl::api_call;
using ascendcl::api_value;
using ascendcl::arg;
using ascendcl::Failure;
using ascendcl::require_not_null;

namespace ascendcl {
namespace {

constexpr std::size_t kOptionCount = ACL_OP_DEBUG_OPTION + 1;
// The only answer for ACL_OP_JIT_COMPILE with which torch-npu stays on the aclnn operators.
constexpr const char* kJitCompile = "disable";

struct CompileOptions {
    StateMutex mutex;
    std::array<std::string, kOptionCount> values;
};

CompileOptions& compile_options() {
    static CompileOptions* const options = [] {
        auto* made = new CompileOptions;
        made->values[ACL_OP_JIT_COMPILE] = kJitCompile;
        return made;
    }();
    return *options;
}

// Made while the library is loaded, so that its mutex exists before any other is held.
[[maybe_unused]] const CompileOptions& kMadeAtLoad = compile_options();

std::size_t require_option(aclCompileOpt option) {
    const int number = static_cast<int>(option);
    if (number < 0 || number >= static_cast<int>(kOptionCount)) {
        throw Failure{ACL_ERROR_INVALID_PARAM,
                      fmt::format("opt must be an aclCompileOpt, 0 to {}: got {}", kOptionCount - 1, number)};
    }
    return static_cast<std::size_t>(number);
}

std::string option_value(aclCompileOpt option) {
    CompileOptions& options = compile_options();
    const std::size_t index = require_option(option);
    const std::shared_lock guard(options.mutex);
    return options.values[index];
}

void set_option(aclCompileOpt option, const char* value) {
    CompileOptions& options = compile_options();
    const std::size_t index = require_option(option);
    require_not_null("value", value);
    if (option == ACL_OP_JIT_COMPILE) {
        if (std::strcmp(value, kJitCompile) != 0) {
            warn_once("jit_compile", fmt::format("aclSetCompileopt: ACL_OP_JIT_COMPILE stays \"disable\" (asked for "
                                                 "\"{}\"): the CPU engine compiles no operators",
                                                 value));
        }
        return;
    }
    std::string copy = value;
    const std::lock_guard guard(options.mutex);
    options.values[index] = std::move(copy);
}

std::string describe_all(int count, const aclTensorDesc* const* descs) {
    if (count <= 0 || descs == nullptr) return "none";
    std::string text;
    for (int i = 0; i < count; ++i) text += (i == 0 ? "" : "; ") + describe(descs[i]);
    return text;
}

}  // namespace
}  // namespace ascendcl

aclError aclSetCompileopt(aclCompileOpt opt, const char* value) {
    return api_call(
        "aclSetCompileopt", [&] { ascendcl::set_option(opt, value); }, arg("opt", opt), arg("value", value));
}

size_t aclGetCompileoptSize(aclCompileOpt opt) {
    return api_value(
        "aclGetCompileoptSize", std::size_t{0}, [&] { return ascendcl::option_value(opt).size() + 1; },
        arg("opt", opt));
}

aclError aclGetCompileopt(aclCompileOpt opt, char* value, size_t length) {
    return api_call(
        "aclGetCompileopt",
        [&] {
            const std::string text = ascendcl::option_value(opt);
            require_not_null("value", value);
            if (length <= text.size()) {
                throw Failure{ACL_ERROR_INVALID_PARAM, fmt::format("length must be at least {} for this option: got {}",
                                                                   text.size() + 1, length)};
            }
            std::memcpy(value, text.c_str(), text.size() + 1);
        },
        arg("opt", opt), arg("value", value), arg("length", length));
}

aclError aclopCompileAndExecute(const char* opType, int numInputs, const aclTensorDesc* const inputDesc[],
                                const aclDataBuffer* const inputs[], int numOutputs,
                                const aclTensorDesc* const outputDesc[], aclDataBuffer* const outputs[],
                                const aclopAttr* attr, aclopEngineType engineType, aclopCompileType compileFlag,
                                const char* opPath, aclrtStream stream) {
    return api_call(
        "aclopCompileAndExecute",
        [&] {
            require_not_null("opType", opType);
            // The arguments are in the text because torch-npu shows nothing but this text: it is what tells the porter
            // which call of the model needs another operator.
            throw Failure{ACL_ERROR_INTERNAL_ERROR,
                          fmt::format("{}: operator is not available on the CPU engine (inputs: {}; outputs: {}; "
                                      "attributes: {})",
                                      opType, ascendcl::describe_all(numInputs, inputDesc),
                                      ascendcl::describe_all(numOutputs, outputDesc), ascendcl::describe(attr))};
        },
        arg("opType", opType), arg("numInputs", numInputs), arg("inputDesc", inputDesc), arg("inputs", inputs),
        arg("numOutputs", numOutputs), arg("outputDesc", outputDesc), arg("outputs", outputs), arg("attr", attr),
        arg("engineType", engineType), arg("compileFlag", compileFlag), arg("opPath", opPath), arg("stream", stream));
}
