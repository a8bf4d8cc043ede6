// Waiting for streams, with the limits that the interface knows.
#pragma once

#include <cstdint>

#include "objects.h"

namespace ascendcl {

constexpr int32_t kNoTimeout = -1;

// Throws 107000 unless `timeout` (milliseconds) is -1 or positive.
void require_timeout(int32_t timeout);

// Throws 107000 when the calling thread executes work of `stream`, for which it would wait for ever.
void require_not_inside(Stream& stream);

// Waits for the work of one stream. Throws 507046 when `timeout` passes first.
void wait_for_stream(Stream& stream, int32_t timeout);

// Waits for the streams of a device. Throws 107019 when `timeout` passes first.
void wait_for_device(int32_t device, int32_t timeout);

}  // namespace ascendcl
