// torch_npu's task queue, which may run operators of its own later, on another thread (TASK_QUEUE_ENABLE 1 and 2).
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/Storage.h>

namespace npu_fallback {

/// Finds the wheel's function that tells the mode of the queue; throws where there is none.
void find_task_queue();

/// Returns when every operator that was queued on the device's current stream has run. To be called before memory of
/// npu tensors is touched. Free of cost with TASK_QUEUE_ENABLE=0.
void drain_task_queue(c10::DeviceIndex device);

/// The memory of a CPU storage as memory of the device. It is given back when the npu tensors are gone and no queued
/// operator can read it any more.
c10::DataPtr as_npu_memory(c10::Storage storage, c10::DeviceIndex device);

}  // namespace npu_fallback
