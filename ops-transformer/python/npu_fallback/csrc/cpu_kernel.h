// The kernel that most operators get: PyTorch's own CPU kernel on the memory of npu tensors.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

namespace npu_fallback {

class Aliases;

/// A boxed kernel for one operator. What its schema says about the arguments is read once, when it is registered.
class CpuKernel final : public c10::OperatorKernel {
  public:
    explicit CpuKernel(const c10::FunctionSchema& schema);

    void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack);

  private:
    enum class Kind : uint8_t { kTensor, kTensorList, kDevice, kGenerator };
    struct Argument {
        uint16_t position;
        Kind kind;
        bool written;
    };

    // Replaces what is on the npu device among the arguments; returns whether results belong there too.
    bool take_arguments(c10::IValue* arguments, Aliases& aliases) const;

    c10::SmallVector<Argument, 8> arguments_;  // those that a device can be told from
    size_t argument_count_;
    size_t result_count_;
    size_t host_result_;  // position of the one result that belongs on the CPU
    bool mixes_devices_;
};

}  // namespace npu_fallback
