// The memory of one tensor argument: exactly as large as the storage that the operator is told of, or as the view
// needs, so that the address sanitizer sees the first byte behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "any_call.h"
#include "recipe.h"

namespace flash_attention::fuzzing {

// What outputs hold before a run, as 16-bit units: NaN as FLOAT, FLOAT16 and BFLOAT16, with bits that neither
// arithmetic nor the inputs have. (As FLOAT and BFLOAT16 it is a signalling one.)
inline constexpr uint16_t kUnwritten = 0x7FA5;

class TensorMemory {
  public:
    // `spec` may be any description, also one that no tensor can have. A tensor whose content is never read gets an
    // address without memory.
    explicit TensorMemory(const testing::Tensor& spec, bool is_read = true);
    ~TensorMemory() { destroy_description(); }
    TensorMemory(const TensorMemory&) = delete;
    TensorMemory& operator=(const TensorMemory&) = delete;

    const aclTensor* description() const { return description_; }
    void destroy_description();

    // False for a tensor that means the same as none: a null pointer, which is also what an impossible description
    // gives, or no dimensions.
    bool is_given() const { return given_; }
    // False for views that are too large for memory here. Phase two must not run then.
    bool is_complete() const { return complete_; }

    // Deterministic content; `hidden` decides which bytes of masks are set.
    void fill(Content content, uint8_t hidden, uint32_t seed);
    void fill_unwritten();

    // After a run: every element of the view differs from kUnwritten, and all other bytes are still that.
    bool is_written() const;
    // Two elements of the view share a place.
    bool overlaps() const;
    bool is_untouched() const;
    std::vector<std::byte> copy() const { return {bytes_.get(), bytes_.get() + size_}; }

  private:
    template <class Visit>
    void for_each_element(Visit visit) const;

    testing::TensorSpec spec_;
    int64_t element_size_ = 1;
    bool given_ = false, complete_ = true;
    size_t size_ = 0;
    std::unique_ptr<std::byte[]> bytes_;
    aclTensor* description_ = nullptr;
};

}  // namespace flash_attention::fuzzing
