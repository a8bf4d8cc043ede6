// Which kernel an operator gets on npu tensors. torch_npu has registered kernels for most, which call libraries that
// are not here; a backend's fallback kernel cannot be replaced, so each operator is registered by name.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "compositions.h"
#include "cpu_kernel.h"
#include "npu_operators.h"
#include "npu_storage.h"
#include "task_queue.h"
#include "unboxed.h"

namespace npu_fallback {
namespace {

using c10::DispatchKey;

// What torch_npu does itself, with all overloads: memory of its allocator, and attention, which leads to our operators.
bool stays_with_torch_npu(std::string_view base_name) {
    constexpr std::string_view kNames[] = {"new_empty_strided",
                                           "resize_",
                                           "set_",
                                           "record_stream",
                                           "is_pinned",
                                           "_pin_memory",
                                           "_lazy_clone",
                                           "_has_compatible_shallow_copy_type",
                                           "scaled_dot_product_attention"};
    return std::find(std::begin(kNames), std::end(kNames), base_name) != std::end(kNames);
}

// Hands the operator, with its npu tensors, to a kernel that was registered for `Key`.
template <DispatchKey Key>
void call_kernel_of(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    op.callBoxedForDispatchKey(Key, *stack);
}

template <DispatchKey Key>
torch::CppFunction kernel_of() {
    return torch::CppFunction::makeFromBoxedFunction<&call_kernel_of<Key>>();
}

// Copies within the device are made by the CPU kernel, copies to and from it by a composition on npu tensors: their
// results are memory that torch_npu counts, or ordinary memory.
class ToCopy final : public c10::OperatorKernel {
  public:
    explicit ToCopy(const c10::FunctionSchema& schema)
        : within_(schema),
          arguments_(schema.arguments().size()),
          device_(schema.argumentIndexWithName("device").value()) {}

    void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
        const c10::IValue* arguments = stack->data() + (stack->size() - arguments_);
        const c10::IValue& device = arguments[device_];
        const bool to_npu = device.isNone() || device.toDevice().type() == kNpu;
        if (to_npu && arguments[0].toTensor().device().type() == kNpu) {
            within_(op, keys, stack);
        } else {
            op.callBoxedForDispatchKey(DispatchKey::CompositeExplicitAutograd, *stack);
        }
    }

  private:
    CpuKernel within_;
    size_t arguments_, device_;
};

// Draws random numbers from where its caller does not say: it becomes the overload with a generator, without one given.
class WithGenerator final : public c10::OperatorKernel {
  public:
    explicit WithGenerator(const c10::OperatorHandle& overload)
        : kernel_(overload.schema()),
          overload_(overload),
          behind_(overload.schema().arguments().size() -
                  static_cast<size_t>(overload.schema().argumentIndexWithName("generator").value()) - 1) {}

    void operator()(const c10::OperatorHandle&, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
        stack->insert(stack->end() - static_cast<ptrdiff_t>(behind_), c10::IValue());
        kernel_(overload_, keys, stack);
    }

  private:
    CpuKernel kernel_;
    c10::OperatorHandle overload_;
    size_t behind_;  // arguments behind the generator
};

struct Kernels {
    explicit Kernels(const c10::OperatorHandle& op)
        : cpu(op.hasKernelForDispatchKey(DispatchKey::CPU)),
          npu(op.hasKernelForDispatchKey(DispatchKey::PrivateUse1)),
          npu_autograd(op.hasKernelForDispatchKey(DispatchKey::AutogradPrivateUse1)),
          autograd(op.hasKernelForDispatchKey(DispatchKey::Autograd)),
          implicit(op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd)),
          explicit_autograd(op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd)),
          non_functional(op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional)) {}

    bool cpu, npu, npu_autograd, autograd;
    bool implicit, explicit_autograd, non_functional;  // compositions of other operators
};

bool returns_view(const c10::FunctionSchema& schema) {
    return std::any_of(schema.returns().begin(), schema.returns().end(), [](const c10::Argument& result) {
        return result.alias_info() != nullptr && !result.alias_info()->isWrite();
    });
}

bool has_generator(const c10::FunctionSchema& schema) {
    return schema.argumentIndexWithName("generator").has_value();
}

// Draws random numbers without saying from where: the operators that it consists of do say.
bool draws_by_default(const c10::OperatorHandle& op) {
    return op.hasTag(at::Tag::nondeterministic_seeded) && !has_generator(op.schema());
}

// The overload that has the same arguments and a generator, if there is one.
std::optional<c10::OperatorHandle> overload_with_generator(const c10::OperatorHandle& op) {
    const c10::OperatorName& name = op.operator_name();
    auto overload = c10::Dispatcher::singleton().findSchema(
        {name.name, name.overload_name.empty() ? "generator" : name.overload_name + "_generator"});
    const bool fits = overload && has_generator(overload->schema()) &&
                      overload->schema().arguments().size() == op.schema().arguments().size() + 1;
    return fits ? overload : std::nullopt;
}

// torch_npu replaced the derivatives of some operators by those of its own kernels, which are not called any more. And
// a composition that has a kernel of its own loses its derivatives unless autograd goes on to see what is inside.
void repair_autograd(torch::Library& autograd, const char* name, const Kernels& kernels) {
    if (kernels.implicit && (kernels.npu_autograd || (kernels.npu && !kernels.cpu))) {
        autograd.impl(name, kernel_of<DispatchKey::CompositeImplicitAutograd>());
    } else if (kernels.npu_autograd && kernels.autograd) {
        autograd.impl(name, kernel_of<DispatchKey::Autograd>());
    }
}

void register_kernel(torch::Library& library, const char* name, const c10::OperatorHandle& op, const Kernels& kernels) {
    // What these compute on the way has to be npu tensors: one allocates them, the others draw random numbers.
    const bool inside_out = std::string_view(name) == "empty_like" || draws_by_default(op);
    if (auto overload = draws_by_default(op) ? overload_with_generator(op) : std::nullopt) {
        library.impl(name, torch::CppFunction::makeFromBoxedFunctor(std::make_unique<WithGenerator>(*overload)));
    } else if (std::string_view(name) == "_to_copy") {
        library.impl(name, torch::CppFunction::makeFromBoxedFunctor(std::make_unique<ToCopy>(op.schema())));
    } else if (inside_out && kernels.explicit_autograd) {
        library.impl(name, kernel_of<DispatchKey::CompositeExplicitAutograd>());
    } else if (inside_out && kernels.implicit) {
        library.impl(name, kernel_of<DispatchKey::CompositeImplicitAutograd>());
    } else if (kernels.cpu || kernels.implicit || kernels.explicit_autograd || kernels.non_functional) {
        library.impl(name, torch::CppFunction::makeFromBoxedFunctor(std::make_unique<CpuKernel>(op.schema())));
    }
}

void register_operator(torch::Library& library, torch::Library& autograd, const c10::OperatorHandle& op) {
    const c10::OperatorName& full_name = op.operator_name();
    constexpr std::string_view kNamespace = "aten::";
    if (full_name.name.compare(0, kNamespace.size(), kNamespace) != 0) return;
    const std::string base_name = full_name.name.substr(kNamespace.size());
    const std::string name = full_name.overload_name.empty() ? base_name : base_name + "." + full_name.overload_name;
    const Kernels kernels(op);
    // Compositions that torch_npu left alone work as they are: what they consist of is registered.
    if (!kernels.cpu && !kernels.npu && !kernels.npu_autograd && !(kernels.explicit_autograd && draws_by_default(op)))
        return;
    // A view of npu memory is bookkeeping, for which torch_npu's own kernels need no library.
    if (stays_with_torch_npu(base_name) || returns_view(op.schema())) return;
    if (name.rfind("_thnn_fused_", 0) != 0) repair_autograd(autograd, name.c_str(), kernels);
    if (!is_composition(name) && !is_unboxed(name)) register_kernel(library, name.c_str(), op, kernels);
}

// On a real device its memory is not ours to touch. torch_npu, which is loaded next, takes the same library.
void check_runtime() {
    void* runtime = dlopen("libascendcl.so", RTLD_LAZY);
    TORCH_CHECK(runtime != nullptr, "libascendcl.so cannot be loaded (", dlerror(), ")");
    const bool is_ours = dlsym(runtime, "_ZN8ascendcl15default_threadsEv") != nullptr;
    TORCH_CHECK(is_ours, "the libascendcl.so of this process is not that of Fusion Attention");
}

// PyTorch warns of every replaced kernel; here that is the purpose.
class Silence final : public c10::WarningHandler {
    void process(const c10::Warning&) override {}
};

void install() {
    static bool installed = false;
    if (installed) return;
    find_task_queue();
    check_storage_layout();

    Silence silence;
    c10::WarningUtils::WarningHandlerGuard guard(&silence);
    // Kept for ever: destroying a library takes its kernels away.
    const auto library_for = [](const char* name, DispatchKey key) {
        return new torch::Library(torch::Library::IMPL, name, key, __FILE__, __LINE__);
    };
    torch::Library& aten = *library_for("aten", DispatchKey::PrivateUse1);
    torch::Library& aten_autograd = *library_for("aten", DispatchKey::AutogradPrivateUse1);
    c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
        if (auto op = dispatcher.findSchema(name)) register_operator(aten, aten_autograd, *op);
    }
    register_compositions(aten, aten_autograd);
    register_unboxed(aten);
    register_npu_operators(*library_for("npu", DispatchKey::PrivateUse1),
                           *library_for("npu", DispatchKey::AutogradPrivateUse1));
    installed = true;
}

}  // namespace
}  // namespace npu_fallback

TORCH_LIBRARY(npu_fallback, library) {
    library.def("check_runtime() -> ()", &npu_fallback::check_runtime);
    library.def("install() -> ()", &npu_fallback::install);
}
