#include "memory.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace flash_attention::fuzzing {
namespace {

constexpr double kMostBytes = 8 << 20;

// Bytes from the start of the storage to the end of the view, as a number that cannot overflow.
double bytes_to_end(const testing::TensorSpec& spec, const std::vector<int64_t>& strides, int64_t element_size) {
    double last = static_cast<double>(spec.offset);
    for (size_t i = 0; i < spec.shape.size(); i++) {
        if (spec.shape[i] == 0) return 0;
        last += std::max((static_cast<double>(spec.shape[i]) - 1) * static_cast<double>(strides[i]), 0.0);
    }
    return (last + 1) * static_cast<double>(element_size);
}

double storage_bytes(const testing::TensorSpec& spec, int64_t element_size) {
    double bytes = static_cast<double>(element_size);
    for (const int64_t size : spec.storage) bytes *= static_cast<double>(size);
    return bytes;
}

std::vector<int64_t> strides_of(const testing::TensorSpec& spec) {
    if (!spec.strides.empty()) return spec.strides;
    std::vector<int64_t> strides(spec.shape.size());
    uint64_t step = 1;  // may wrap for shapes that no tensor can have
    for (size_t i = spec.shape.size(); i-- > 0; step *= static_cast<uint64_t>(spec.shape[i])) {
        strides[i] = static_cast<int64_t>(step);
    }
    return strides;
}

// Bits of an element type. Small numbers: base, with every combination of the varying bits added.
struct Encoding {
    uint32_t exponent, small, small_varies;
    uint32_t special[4];  // NaN, both infinities, the largest number
};
constexpr Encoding kF32{0x7F800000, 0x3E000000, 0x81FFFFFF, {0x7FC00000, 0x7F800000, 0xFF800000, 0x7F7FFFFF}};
constexpr Encoding kF16{0x7C00, 0x3000, 0x8FFF, {0x7E00, 0x7C00, 0xFC00, 0x7BFF}};
constexpr Encoding kBf16{0x7F80, 0x3E00, 0x81FF, {0x7FC0, 0x7F80, 0xFF80, 0x7F7F}};

std::byte unwritten_byte(size_t at) {
    return static_cast<std::byte>(at % 2 == 0 ? kUnwritten & 0xFF : kUnwritten >> 8);
}

// A cheap sequence of bits; the tests with a reference judge numbers, here any will do.
uint32_t next(uint32_t& state) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

}  // namespace

TensorMemory::TensorMemory(const testing::Tensor& spec, bool is_read) {
    if (!spec) return;
    spec_ = *spec;
    spec_.strides = strides_of(*spec);
    element_size_ = std::max<int64_t>(static_cast<int64_t>(aclDataTypeSize(spec_.dtype)), 1);
    const bool known = !spec_.storage.empty();
    const double bytes =
        known ? storage_bytes(spec_, element_size_) : bytes_to_end(spec_, spec_.strides, element_size_);
    const bool needs_memory = is_read && !spec_.without_data;
    complete_ = !needs_memory || (bytes >= 0 && bytes <= kMostBytes);
    size_ = complete_ && needs_memory ? static_cast<size_t>(bytes) : 0;
    bytes_.reset(new std::byte[size_]);
    void* data = spec_.without_data ? nullptr : bytes_.get();
    description_ = aclCreateTensor(spec_.shape.data(), spec_.shape.size(), spec_.dtype, spec_.strides.data(),
                                   spec_.offset, spec_.format, spec_.storage.data(), spec_.storage.size(), data);
    given_ = description_ != nullptr && !spec_.shape.empty();
}

void TensorMemory::destroy_description() {
    aclDestroyTensor(description_);
    description_ = nullptr;
}

void TensorMemory::fill(Content content, uint8_t hidden, uint32_t seed) {
    const Encoding encoding = spec_.dtype == ACL_FLOAT16 ? kF16 : spec_.dtype == ACL_BF16 ? kBf16 : kF32;
    uint32_t state = seed * 2654435761U + 1;
    for (size_t at = 0; at < size_; at += static_cast<size_t>(element_size_)) {
        const uint32_t random = next(state);
        uint32_t bits = random;
        if (element_size_ == 1) {
            bits = (random >> 8) % 256 < hidden ? random | 1 : 0;
        } else if (content == Content::kZero) {
            bits = 0;
        } else if (content == Content::kSpecial && random % 8 == 0) {
            bits = encoding.special[random / 8 % 4];
        } else if (content != Content::kAnyBits) {
            bits = encoding.small + (random & encoding.small_varies);
        } else if ((bits & encoding.exponent) == encoding.exponent) {
            bits = encoding.special[random % 4];  // one NaN is as good as another, and no output may look unwritten
        }
        std::memcpy(bytes_.get() + at, &bits, std::min({static_cast<size_t>(element_size_), sizeof bits, size_ - at}));
    }
}

void TensorMemory::fill_unwritten() {
    for (size_t at = 0; at < size_; at++) bytes_[at] = unwritten_byte(at);
}

template <class Visit>
void TensorMemory::for_each_element(Visit visit) const {
    if (size_ == 0 || std::count(spec_.shape.begin(), spec_.shape.end(), 0) > 0) return;
    std::vector<int64_t> index(spec_.shape.size(), 0);
    for (;;) {
        visit(std::inner_product(index.begin(), index.end(), spec_.strides.begin(), spec_.offset) * element_size_);
        size_t axis = index.size();
        while (axis > 0 && ++index[axis - 1] == spec_.shape[axis - 1]) index[--axis] = 0;
        if (axis == 0) return;
    }
}

bool TensorMemory::is_untouched() const {
    for (size_t at = 0; at < size_; at++) {
        if (bytes_[at] != unwritten_byte(at)) return false;
    }
    return true;
}

bool TensorMemory::is_written() const {
    std::vector<std::byte> others = copy();  // becomes what the bytes outside of the view were before
    bool all = true;
    for_each_element([&](int64_t at) {
        bool written = false;
        for (int64_t i = at; i < at + element_size_; i++) {
            written = written || bytes_[i] != unwritten_byte(i);
            others[i] = unwritten_byte(i);
        }
        all = all && written;
    });
    for (size_t i = 0; i < size_; i++) all = all && others[i] == unwritten_byte(i);
    return all;
}

bool TensorMemory::overlaps() const {
    std::vector<bool> seen(size_);
    bool twice = false;
    for_each_element([&](int64_t at) {
        twice = twice || seen[at];
        seen[at] = true;
    });
    return twice;
}

}  // namespace flash_attention::fuzzing
