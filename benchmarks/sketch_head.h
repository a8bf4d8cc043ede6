// What attention_bench hands to sketch_shim.cpp, which is compiled while it runs.
#pragma once

#include <cstdint>

extern "C" {

// One head, all rows side by side; row i sees the keys i + first ... i + last.
struct FusionSketchHead {
    int type;  // 0 fp32, 1 fp16, 2 bf16
    int q_len, kv_len, head_dim;
    float scale;
    int first, last;
    const void *query, *key, *value;
    void* out;  // results of forward, which backward reads; of max and sum one number a row
    float *max, *sum;
    const void* dy;  // this and what follows: of backward alone
    void *dq, *dk, *dv;
};

void fusion_sketch_forward(const FusionSketchHead* head);
void fusion_sketch_backward(const FusionSketchHead* head);
}
