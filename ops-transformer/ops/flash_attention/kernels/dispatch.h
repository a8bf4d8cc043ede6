// The kernels of one instruction set as a table, and the only place that decides which table runs.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "engine/visibility.h"

namespace flash_attention {

// A block of consecutive query rows of one head: everything a forward kernel needs. Strides in elements; features of
// query, key, value and out lie side by side.
struct ForwardBlock {
    const void* query;  // first row of the block
    const void* key;    // key 0 of the sequence
    const void* value;
    void* out;   // first row of the block
    float* max;  // first row of the block; each row gets eight equal floats
    float* sum;
    const uint8_t* mask;  // element (first row of the block, key 0); nullptr without an explicit mask
    int64_t query_stride, key_stride, value_stride, out_stride, stats_stride, mask_stride;  // between rows
    int64_t row_begin, row_end;  // position of the block in its sequence; at most Kernels::query_block rows
    int64_t kv_len, head_dim, value_dim;
    float scale;
    Band band;
};

using ForwardKernel = void (*)(const ForwardBlock& block, void* scratch);

struct Kernels {
    const char* name;  // as in ASCEND_CPU_ISA
    int64_t query_block;
    ForwardKernel forward[3];  // by ElementType
    int64_t (*forward_scratch_bytes)(int64_t head_dim, int64_t value_dim);
};

// ASCEND_CPU_ISA asks for a table that this machine or build does not have.
struct UnavailableKernels : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The table that runs: the best one for this processor, or the one that ASCEND_CPU_ISA names. Throws
// UnavailableKernels.
const Kernels& kernels();

}  // namespace flash_attention
