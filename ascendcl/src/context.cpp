// Contexts: what a thread works in, and the parameters that belong to one.
#include <fmt/format.h>

#include <array>
#include <atomic>

#include "acl/acl_rt.h"
#include "call.h"
#include "current.h"
#include "runtime.h"

using namespace ascendcl;

namespace {

constexpr std::size_t kOptionCount = 4;

std::array<std::atomic<int64_t>, kOptionCount> process_options{};

std::size_t require_option(const aclSysParamOpt& opt) {
    const int index = number_of(opt);
    if (index >= 0 && index < static_cast<int>(kOptionCount)) return static_cast<std::size_t>(index);
    throw Failure{ACL_ERROR_INVALID_PARAM,
                  fmt::format("opt {} is not supported: expected 0..{}", index, kOptionCount - 1)};
}

}  // namespace

aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
    return api_call(
        "aclrtCreateContext",
        [&] {
            require_not_null("context", context);
            require_device("deviceId", deviceId);
            const std::shared_ptr<Context> created = make_context(deviceId, false);
            set_current_context(*created);
            *context = created->handle;
        },
        out("context", context), arg("deviceId", deviceId));
}

aclError aclrtDestroyContext(aclrtContext context) {
    return api_call(
        "aclrtDestroyContext",
        [&] {
            require_not_null("context", context);
            const std::shared_ptr<Context> object = runtime().contexts.get("context", context);
            if (object->is_default) {
                throw Failure{ACL_ERROR_RT_PARAM_INVALID,
                              fmt::format("context {} is the default context of device {}: it ends with "
                                          "aclrtResetDevice, not with aclrtDestroyContext",
                                          context, object->device)};
            }
            if (!retire_context(*object)) throw_dead_handle(HandleKind::kContext, "context", context);
        },
        arg("context", context));
}

aclError aclrtSetCurrentContext(aclrtContext context) {
    return api_call(
        "aclrtSetCurrentContext",
        [&] {
            require_not_null("context", context);
            set_current_context(*runtime().contexts.get("context", context));
        },
        arg("context", context));
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
    return api_call(
        "aclrtGetCurrentContext",
        [&] {
            require_not_null("context", context);
            *context = require_current_context()->handle;
        },
        out("context", context));
}

aclError aclrtCtxGetCurrentDefaultStream(aclrtStream* stream) {
    return api_call(
        "aclrtCtxGetCurrentDefaultStream",
        [&] {
            require_not_null("stream", stream);
            *stream = require_current_context()->default_stream->handle;
        },
        out("stream", stream));
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
    return api_call(
        "aclrtCtxSetSysParamOpt",
        [&] {
            const std::size_t index = require_option(opt);
            const std::shared_ptr<Context> context = require_current_context();
            context->options[index].store(value);
            context->option_is_set[index].store(true);
        },
        arg("opt", opt), arg("value", value));
}

aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
    return api_call(
        "aclrtCtxGetSysParamOpt",
        [&] {
            require_not_null("value", value);
            const std::size_t index = require_option(opt);
            const std::shared_ptr<Context> context = require_current_context();
            if (!context->option_is_set[index].load()) {
                throw Failure{
                    ACL_ERROR_RT_SYSPARAMOPT_NOT_SET,
                    fmt::format("opt {} was not set in this context; call aclrtCtxSetSysParamOpt first", index)};
            }
            *value = context->options[index].load();
        },
        arg("opt", opt), out("value", value));
}

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
    return api_call(
        "aclrtSetSysParamOpt", [&] { process_options[require_option(opt)].store(value); }, arg("opt", opt),
        arg("value", value));
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
    return api_call(
        "aclrtGetSysParamOpt",
        [&] {
            require_not_null("value", value);
            *value = process_options[require_option(opt)].load();
        },
        arg("opt", opt), out("value", value));
}
