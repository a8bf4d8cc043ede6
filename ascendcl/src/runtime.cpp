#include "runtime.h"

namespace ascendcl {
namespace {

Runtime* make_runtime() {
    on_fork_in_child(
        [] { runtime().streams.for_each([](const std::shared_ptr<Stream>& s) { s->execution.repair_after_fork(); }); });
    return new Runtime;
}

[[maybe_unused]] const Runtime& kMadeAtLoad = runtime();

}  // namespace

Runtime& runtime() {
    static Runtime* const instance = make_runtime();
    return *instance;
}

}  // namespace ascendcl
