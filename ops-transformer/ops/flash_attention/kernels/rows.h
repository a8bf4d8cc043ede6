// Storage types at the edge of the kernels: rows become floats on the way in, results are rounded on the way out.
// Between the two everything is fp32, for every element type.
#pragma once

#include <cstdint>

#include "kernels/dispatch.h"
#include "opbase/float16.h"

namespace flash_attention::portable {

struct F32 {
    using Element = float;
    static float widen(Element x) { return x; }
    static Element narrow(float x) { return x; }
};
struct F16 {
    using Element = uint16_t;
    static float widen(Element x) { return opbase::fp16_to_float(x); }
    static Element narrow(float x) { return opbase::float_to_fp16(x); }
};
struct Bf16 {
    using Element = uint16_t;
    static float widen(Element x) { return opbase::bf16_to_float(x); }
    static Element narrow(float x) { return opbase::float_to_bf16(x); }
};

// Rows of floats with any distance between them.
struct FloatRows {
    const float* data;
    int64_t stride;
};

// Rows [begin, end) of `cols` features as floats: fp32 is read where it lies, 16-bit types are widened into `buffer`.
template <class Type>
FloatRows widen_rows(const Rows& from, int64_t begin, int64_t end, int64_t cols, float* buffer) {
    const auto* rows = static_cast<const typename Type::Element*>(from.data) + begin * from.stride;
    if constexpr (sizeof(typename Type::Element) == sizeof(float)) {
        return {rows, from.stride};
    } else {
        for (int64_t r = 0; r < end - begin; r++)
            for (int64_t c = 0; c < cols; c++) buffer[r * cols + c] = Type::widen(rows[r * from.stride + c]);
        return {buffer, cols};
    }
}

}  // namespace flash_attention::portable
