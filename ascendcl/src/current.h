// Devices, and which context and stream a call means.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "objects.h"

namespace ascendcl {

// ASCEND_CPU_DEVICES, cut to those that ASCEND_RT_VISIBLE_DEVICES names. Read once.
int device_count();

// Throws 107001 when `id` is not a device.
void require_device(std::string_view name, int64_t id);

// The context that aclrtSetDevice binds; made when it is asked for first. `device` must be in range here and below.
std::shared_ptr<Context> default_context(int32_t device);

// Counts a use of the device and gives its default context.
std::shared_ptr<Context> retain_device(int32_t device);

// Takes one use back, or all. With the last the default context and its stream end. Throws 507007 when there is none.
void release_device(int32_t device, bool all);

bool device_is_retained(int32_t device);

// A new live context with its default stream.
std::shared_ptr<Context> make_context(int32_t device, bool is_default);

// Ends the context's handle and that of its default stream. False when another thread was faster.
bool retire_context(const Context& context);

// A new live stream.
std::shared_ptr<Stream> make_stream(int32_t device, uint32_t priority, uint32_t flags, bool is_default);

// The calling thread's context: null when it never had one or when that one is gone.
std::shared_ptr<Context> current_context();

// The same; throws 107002 when there is none.
std::shared_ptr<Context> require_current_context();

void set_current_context(const Context& context);

// The device of the current context, 0 without one: for calls that should work on any thread.
int32_t current_device_or_first();

// The stream that `handle` names; nullptr is the default stream of the current context, or of device 0 when the thread
// has none. Throws 107017.
std::shared_ptr<Stream> resolve_stream(const char* argument, aclrtStream handle);

}  // namespace ascendcl
