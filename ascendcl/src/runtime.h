// The state of the process: everything that lives longer than a call, in one place.
#pragma once

#include <memory>
#include <vector>

#include "handles.h"
#include "memory_map.h"
#include "objects.h"
#include "state_mutex.h"

namespace ascendcl {

struct Device {
    uint64_t set_count = 0;  // aclrtSetDevice minus aclrtResetDevice
    std::shared_ptr<Context> default_context;
};

// The members that lock stand in the order in which they may be held together (see StateMutex).
struct Runtime {
    StateMutex devices_mutex;
    std::vector<Device> devices;  // grown on demand up to device_count()
    HandleTable<Context, HandleKind::kContext> contexts;
    HandleTable<Stream, HandleKind::kStream> streams;
    HandleTable<Event, HandleKind::kEvent> events;
    MemoryMap memory;
};

// Made while the library is loaded and never destroyed, so that calls from static destructors, from threads that
// outlive main() and from exit handlers find it whole.
Runtime& runtime();

}  // namespace ascendcl
