// Executors and the two phases. A handle is a number, not an address: phase one counts up, and the table of live
// executors says which numbers still mean something. A handle that was used up, destroyed or never made is therefore
// recognised for certain, and never followed.
#include "opbase/executor.h"

#include <fmt/format.h>
#include <pthread.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "ascendcl/error_text.h"
#include "ascendcl/stream.h"
#include "call.h"
#include "opbase/error.h"
#include "opbase/tensor.h"

namespace opbase {
namespace {

struct Executor {
    const char* op;
    Plan plan;  // with the addresses of the next run
    bool repeatable = false;
    bool running = false;
};

// No processor has memory at such addresses, so that no pointer of the program looks like a handle.
constexpr uintptr_t kHandleTag = uintptr_t{0xACE1} << 48;

// Kernels want whole cache lines. Callers' buffers need not be aligned: phase one asks for a little more instead.
constexpr uint64_t kAlignment = 64;
uint64_t padded(uint64_t workspace_size) {
    return workspace_size == 0 ? 0 : workspace_size + kAlignment - 1;
}
void* aligned(void* workspace) {
    const auto address = reinterpret_cast<uintptr_t>(workspace);
    return static_cast<char*>(workspace) + (-address & (kAlignment - 1));
}

class Registry {
  public:
    std::mutex mutex;  // guards everything here and in the executors, except the plan of one that runs

    aclOpExecutor* add(const char* op, Plan plan) {
        auto executor = std::make_shared<Executor>(Executor{op, std::move(plan)});
        const std::lock_guard lock(mutex);
        const uintptr_t handle = kHandleTag | next_;
        live_.emplace(handle, std::move(executor));
        next_++;
        return reinterpret_cast<aclOpExecutor*>(handle);
    }

    // Pre: the mutex is held, the handle is not null.
    const std::shared_ptr<Executor>& find(aclOpExecutor* handle) const {
        const auto entry = live_.find(reinterpret_cast<uintptr_t>(handle));
        if (entry != live_.end()) return entry->second;
        const bool existed = reinterpret_cast<uintptr_t>(handle) - kHandleTag < next_;
        throw OperatorError(kInner, fmt::format("executor {} {}", fmt::ptr(handle),
                                                existed ? "was already used or destroyed: phase two frees it unless "
                                                          "aclSetAclOpExecutorRepeatable was called before"
                                                        : "was not created by a GetWorkspaceSize call"));
    }

    // Pre: the mutex is held.
    void remove(aclOpExecutor* handle) { live_.erase(reinterpret_cast<uintptr_t>(handle)); }

  private:
    std::unordered_map<uintptr_t, std::shared_ptr<Executor>> live_;
    uintptr_t next_ = 1;
};

Registry& registry() {
    static auto* instance = new Registry;  // never destroyed: programs may run operators while they exit
    return *instance;
}

// A child process gets the table as it was between two calls, with the mutex free. Pool threads never take this mutex.
[[maybe_unused]] const int kForkHandlers = pthread_atfork(
    [] { registry().mutex.lock(); }, [] { registry().mutex.unlock(); }, [] { registry().mutex.unlock(); });

void check_workspace(const Executor& executor, const void* workspace, uint64_t size) {
    if (size > 0 && workspace == nullptr) {
        throw OperatorError(kParamNullptr, fmt::format("workspace cannot be nullptr when workspaceSize is {}", size));
    }
    const uint64_t needed = padded(executor.plan.workspace_size);
    if (size < needed) {
        throw ParameterError(
            fmt::format("workspaceSize is {}: this executor needs the {} bytes that phase one reported", size, needed));
    }
}

void check_idle(const Executor& executor) {
    if (executor.running) throw OperatorError(kInner, "the executor is in use by another thread");
}

std::shared_ptr<Executor> begin_run(const char* name, const void* workspace, uint64_t size, aclOpExecutor* handle) {
    require(handle, "executor");
    const std::lock_guard lock(registry().mutex);
    std::shared_ptr<Executor> executor = registry().find(handle);
    if (std::strcmp(executor->op, name) != 0) {
        throw ParameterError(fmt::format("executor was created by {}, not {}", executor->op, name));
    }
    check_workspace(*executor, workspace, size);
    check_idle(*executor);
    executor->running = true;
    return executor;
}

// Arguments that were refused do not use up an executor: the caller may correct them. A run does, also a failing one.
void end_run(Executor& executor, aclOpExecutor* handle, bool has_run) {
    const std::lock_guard lock(registry().mutex);
    executor.running = false;
    if (has_run && !executor.repeatable) registry().remove(handle);
}

// The run as the stream sees it; lives on the stack of run_operator until the stream has taken it.
struct Run {
    const char* name;
    const Plan* plan;
    Launch launch;
    aclnnStatus status = OK;

    static void execute(void* context) noexcept {
        auto& run = *static_cast<Run*>(context);
        try {
            if (run.plan->run) run.plan->run(run.launch);
        } catch (...) {
            run.status = report_current_exception(run.name, kInner);
        }
    }
};

aclnnStatus submit_run(const char* name, void* workspace, uint64_t workspace_size, aclOpExecutor* handle,
                       aclrtStream stream) {
    const std::shared_ptr<Executor> executor = begin_run(name, workspace, workspace_size, handle);
    const Plan& plan = executor->plan;
    Run run{name, &plan, {plan.workspace_size == 0 ? nullptr : aligned(workspace), plan.inputs, plan.outputs}};
    std::string problem;
    const aclError error = ascendcl::submit(stream, {&Run::execute, &run}, problem);
    end_run(*executor, handle, error == ACL_SUCCESS);
    if (error != ACL_SUCCESS) {
        throw OperatorError(kRuntimeError, fmt::format("{} (error {})", problem, error));
    }
    return run.status;
}

// `locate` gives the place of argument `index` within the plan, or nullptr when there is none.
aclnnStatus exchange_address(const char* name, aclOpExecutor* handle, size_t index, aclTensor* tensor, void* addr,
                             void** (*locate)(Plan&, size_t)) noexcept {
    return checked_call(
        name,
        [&] {
            if (handle == nullptr) throw OperatorError(kInnerNullptr, "executor cannot be nullptr");
            if (tensor == nullptr) throw OperatorError(kInnerNullptr, "tensor cannot be nullptr");
            if (addr == nullptr && tensor->count() != 0) {
                throw OperatorError(kParamNullptr, fmt::format("addr cannot be nullptr for a tensor of shape {}",
                                                               to_string(tensor->shape)));
            }
            const std::lock_guard lock(registry().mutex);
            Executor& executor = *registry().find(handle);
            check_idle(executor);
            void** place = locate(executor.plan, index);
            if (place == nullptr) {
                throw ParameterError(fmt::format("index {} is out of range: {} has {} tensor inputs and {} outputs",
                                                 index, executor.op, executor.plan.inputs.size(),
                                                 executor.plan.outputs.size()));
            }
            if (addr == nullptr && *place != nullptr) {
                throw OperatorError(kParamNullptr, fmt::format("addr cannot be nullptr: argument {} is in use", index));
            }
            *place = addr;
            tensor->data = addr;
        },
        [&] {
            return fmt::format("executor={}, index={}, tensor={}, addr={}", fmt::ptr(handle), index, fmt::ptr(tensor),
                               addr);
        });
}

void** locate_input(Plan& plan, size_t index) {
    return index < plan.inputs.size() ? &plan.inputs[index] : nullptr;
}

void** locate_output(Plan& plan, size_t index) {
    return index < plan.outputs.size() ? &plan.outputs[index] : nullptr;
}

void** locate_any(Plan& plan, size_t index) {
    return index < plan.inputs.size() ? &plan.inputs[index] : locate_output(plan, index - plan.inputs.size());
}

// The two helpers that have the executor as their only argument.
aclnnStatus executor_call(const char* name, aclOpExecutor* handle, FunctionRef<void(Executor&)> body) noexcept {
    return checked_call(
        name,
        [&] {
            if (handle == nullptr) throw OperatorError(kInnerNullptr, "executor cannot be nullptr");
            std::shared_ptr<Executor> executor;  // outlives the lock: freeing a plan is no work to hold others up for
            const std::lock_guard lock(registry().mutex);
            executor = registry().find(handle);
            body(*executor);
        },
        [&] { return fmt::format("executor={}", fmt::ptr(handle)); });
}

}  // namespace

aclnnStatus plan_operator(const char* name, uint64_t* workspace_size, aclOpExecutor** executor,
                          FunctionRef<Plan()> plan, FunctionRef<std::string()> describe) noexcept {
    if (workspace_size != nullptr) *workspace_size = 0;
    if (executor != nullptr) *executor = nullptr;
    aclnnStatus code = OK;
    try {
        Plan made = plan();
        require(workspace_size, "workspaceSize");
        require(executor, "executor");
        ascendcl::prepare_default_stream();  // in case phase two is given nullptr: it allocates nothing
        const uint64_t size = padded(made.workspace_size);
        *executor = registry().add(name, std::move(made));
        *workspace_size = size;
        ascendcl::clear_errors(ascendcl::ErrorSource::kOperator);
    } catch (...) {
        code = report_current_exception(name, kInnerCreateExecutor);
    }
    trace_call(name, "GetWorkspaceSize", code, [&] {
        if (code != OK) return describe();
        return fmt::format("{}, workspaceSize -> {}, executor -> {}", describe(), *workspace_size, fmt::ptr(*executor));
    });
    return code;
}

aclnnStatus run_operator(const char* name, void* workspace, uint64_t workspace_size, aclOpExecutor* executor,
                         aclrtStream stream) noexcept {
    aclnnStatus code = OK;
    try {
        code = submit_run(name, workspace, workspace_size, executor, stream);
        if (code == OK) ascendcl::clear_errors(ascendcl::ErrorSource::kOperator);
    } catch (...) {
        code = report_current_exception(name, kInner);
    }
    trace_call(name, "", code, [&] {
        return fmt::format("workspace={}, workspaceSize={}, executor={}, stream={}", workspace, workspace_size,
                           fmt::ptr(executor), stream);
    });
    return code;
}

}  // namespace opbase

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
    return opbase::executor_call("aclSetAclOpExecutorRepeatable", executor,
                                 [](opbase::Executor& e) { e.repeatable = true; });
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
    return opbase::executor_call("aclDestroyAclOpExecutor", executor,
                                 [&](opbase::Executor&) { opbase::registry().remove(executor); });
}

aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) {
    return opbase::exchange_address("aclSetInputTensorAddr", executor, index, tensor, addr, opbase::locate_input);
}

aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) {
    return opbase::exchange_address("aclSetOutputTensorAddr", executor, index, tensor, addr, opbase::locate_output);
}

aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) {
    return opbase::exchange_address("aclSetTensorAddr", executor, index, tensor, addr, opbase::locate_any);
}

aclnnStatus AclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) {
    return aclSetInputTensorAddr(executor, index, tensor, addr);
}

aclnnStatus AclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) {
    return aclSetOutputTensorAddr(executor, index, tensor, addr);
}

aclnnStatus AclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) {
    return aclSetTensorAddr(executor, index, tensor, addr);
}
