// What only this project's libraries have: calls between them, not part of the published interface. Over other
// libraries of the same names these functions are missing, and each is a null pointer there.
#pragma once

#include "ascendcl/stream.h"
#include "opbase/parallel.h"

namespace ascendcl {
[[gnu::weak]] aclrtStream thread_stream() noexcept;
}

namespace opbase {
[[gnu::weak]] int thread_count();
[[gnu::weak]] void set_thread_count(int threads);
[[gnu::weak]] void set_parallel_driver(ParallelDriver driver);
}  // namespace opbase
