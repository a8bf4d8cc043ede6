#include "stream.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>

#include "our_libraries.h"

namespace ops_transformer {
namespace {

using CurrentStream = int32_t (*)(int32_t device, void** stream);

// torch_npu's C interface, in whichever of its versions the process has loaded.
CurrentStream find_current_stream() {
    void* library = dlopen("libtorch_npu.so", RTLD_LAZY | RTLD_NOLOAD);
    void* function = library == nullptr ? nullptr : dlsym(library, "aoti_torch_get_current_npu_stream");
    TORCH_CHECK(function != nullptr,
                "ops_transformer: npu tensors need torch_npu, and one that has "
                "aoti_torch_get_current_npu_stream, as 2.13.0 does");
    return reinterpret_cast<CurrentStream>(function);
}

}  // namespace

aclrtStream stream_of(c10::Device device) {
    if (device.is_cpu()) return ascendcl::thread_stream();
    static const CurrentStream current_stream = find_current_stream();
    void* stream = nullptr;
    TORCH_CHECK(current_stream(device.index(), &stream) == 0, "ops_transformer: ", device, " has no current stream");
    return stream;
}

}  // namespace ops_transformer
