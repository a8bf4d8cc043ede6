// A C function around the sketched kernels. attention_bench --against-sketches compiles it, with their folder as
// include folder and SKETCH_TABLE the name of one of their tables.
#include <malloc.h>

#include "kernels.h"
#include "sketch_head.h"

namespace {

// The sketches allocate scratch in every call. Freshly mapped pages would count against them.
[[maybe_unused]] const bool kKeepsMemory = [] {
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    return true;
}();

template <class T>
void run(const sketch::KernelSet<T>& kernels, const FusionSketchHead& h) {
    const sketch::Shape shape{h.q_len, h.kv_len, h.head_dim, h.scale, {h.first, h.last}};
    kernels.forward(shape,
                    {static_cast<const T*>(h.query), static_cast<const T*>(h.key), static_cast<const T*>(h.value)},
                    {static_cast<T*>(h.out), h.max, h.sum});
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void fusion_sketch_forward(const FusionSketchHead* head) {
    const sketch::Kernels& kernels = sketch::SKETCH_TABLE::kernels;
    if (head->type == 0) return run(kernels.f32, *head);
    run(head->type == 1 ? kernels.f16 : kernels.bf16, *head);
}
