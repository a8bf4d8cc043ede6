// C functions around the sketched kernels. attention_bench --against-sketches compiles it, with their folder as
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

sketch::Shape shape_of(const FusionSketchHead& h) {
    return {h.q_len, h.kv_len, h.head_dim, h.scale, {h.first, h.last}};
}

template <class T>
sketch::Inputs<T> inputs_of(const FusionSketchHead& h) {
    return {static_cast<const T*>(h.query), static_cast<const T*>(h.key), static_cast<const T*>(h.value)};
}

template <class T>
void forward(const sketch::KernelSet<T>& kernels, const FusionSketchHead& h) {
    kernels.forward(shape_of(h), inputs_of<T>(h), {static_cast<T*>(h.out), h.max, h.sum});
}

template <class T>
void backward(const sketch::KernelSet<T>& kernels, const FusionSketchHead& h) {
    kernels.backward(shape_of(h), inputs_of<T>(h), {static_cast<const T*>(h.out), h.max, h.sum},
                     static_cast<const T*>(h.dy),
                     {static_cast<T*>(h.dq), static_cast<T*>(h.dk), static_cast<T*>(h.dv)});
}

// The kernels of the head's element type.
template <class Run>
void with_kernels(const FusionSketchHead& h, Run run) {
    const sketch::Kernels& kernels = sketch::SKETCH_TABLE::kernels;
    if (h.type == 0) return run(kernels.f32);
    run(h.type == 1 ? kernels.f16 : kernels.bf16);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void fusion_sketch_forward(const FusionSketchHead* head) {
    with_kernels(*head, [head](const auto& kernels) { forward(kernels, *head); });
}

extern "C" __attribute__((visibility("default"))) void fusion_sketch_backward(const FusionSketchHead* head) {
    with_kernels(*head, [head](const auto& kernels) { backward(kernels, *head); });
}
