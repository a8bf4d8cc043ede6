#include "testing/call_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

namespace flash_attention::testing {
namespace {

constexpr uint8_t kGuardByte = 0xA5;
// Of outputs before the call; in all element types a NaN.
constexpr uint8_t kUnwritten = 0xFF;
constexpr std::string_view kNames[] = {"query",      "key",        "value",     "attenMask", "attentionOut",
                                       "softmaxMax", "softmaxSum", "queryRope", "keyRope",   "realShift",
                                       "dropMask",   "sink",       "dy",        "dq",        "dk",
                                       "dv",         "dqRope",     "dkRope",    "dpse",      "dsink"};
static_assert(std::size(kNames) == kArgumentCount);

}  // namespace

aclDataType acl_type(DType dtype) {
    switch (dtype) {
        case DType::kFp16:
            return ACL_FLOAT16;
        case DType::kBf16:
            return ACL_BF16;
        default:
            return ACL_FLOAT;
    }
}

GuardedMemory::GuardedMemory(int64_t bytes, uint8_t fill) : size_(bytes) {
    const int64_t whole = (kGuard + bytes + kGuard + 63) / 64 * 64;
    bytes_.reset(static_cast<uint8_t*>(std::aligned_alloc(64, static_cast<size_t>(whole))));
    if (!bytes_) throw std::bad_alloc();
    std::memset(bytes_.get(), kGuardByte, static_cast<size_t>(whole));
    std::memset(data(), fill, static_cast<size_t>(bytes));
}

bool GuardedMemory::guards_intact() const {
    if (!bytes_) return true;
    for (int64_t i = 0; i < kGuard; i++) {
        if (bytes_[i] != kGuardByte || bytes_[kGuard + size_ + i] != kGuardByte) return false;
    }
    return true;
}

template <class Fill>
void CallMemory::add_input(Argument argument, const std::vector<int64_t>& shape, aclDataType dtype, int64_t bytes,
                           Fill fill) {
    Operand& o = operands_[argument];
    o.view = make_view(case_.views[argument], shape);
    o.element_bytes = bytes;
    o.exact.reset(new uint8_t[o.view.storage * bytes]);
    std::memset(o.exact.get(), kUnwritten, o.view.storage * bytes);  // gaps are NaN: whoever reads them shows it
    fill(o.exact.get(), o.view);
    o.original.assign(o.exact.get(), o.exact.get() + o.view.storage * bytes);
    o.storage = o.exact.get();
    describe(argument, dtype);
}

void CallMemory::add_output(Argument argument, const std::vector<int64_t>& shape, DType dtype) {
    Operand& o = operands_[argument];
    o.view = make_view(case_.views[argument], shape);
    o.element_bytes = element_bytes(dtype);
    o.output = true;
    o.guarded = GuardedMemory(o.view.storage * o.element_bytes, kUnwritten);
    o.storage = o.guarded.data();
    describe(argument, acl_type(dtype));
}

void CallMemory::describe(Argument argument, aclDataType dtype) {
    Operand& o = operands_[argument];
    const bool packed = case_.views[argument] == View::kPacked;
    // Frameworks describe the storage of a view as one dimension.
    const std::vector<int64_t> storage = packed ? o.view.shape : std::vector<int64_t>{o.view.storage};
    o.tensor = aclCreateTensor(o.view.shape.data(), o.view.shape.size(), dtype, o.view.strides.data(), o.view.offset,
                               ACL_FORMAT_ND, storage.data(), storage.size(), o.storage);
    if (o.tensor == nullptr) throw std::runtime_error(fmt::format("aclCreateTensor refused {}", kNames[argument]));
}

void CallMemory::add_tensor(Argument argument, const reference::Tensor& tensor, DType dtype) {
    const int64_t bytes = element_bytes(dtype);
    add_input(argument, tensor.shape, acl_type(dtype), bytes, [&](uint8_t* storage, const StridedView& view) {
        size_t i = 0;
        view.for_each_position([&](int64_t at) { store_element(dtype, storage + at * bytes, tensor.values[i++]); });
    });
}

// Masks have millions of bytes, most of them side by side.
void CallMemory::add_bytes(Argument argument, const std::vector<int64_t>& shape, aclDataType dtype,
                           const std::vector<uint8_t>& bytes) {
    add_input(argument, shape, dtype, 1, [&](uint8_t* storage, const StridedView& view) {
        const uint8_t* row = bytes.data();
        const int64_t columns = view.shape.back(), stride = view.strides.back();
        view.for_each_row([&](int64_t at) {
            if (stride == 1) {
                std::copy_n(row, columns, storage + at);
            } else {
                for (int64_t i = 0; i < columns; i++) storage[at + i * stride] = row[i];
            }
            row += columns;
        });
    });
}

void CallMemory::add_inputs(const reference::ScoreArguments& a) {
    const Case& c = case_;
    add_tensor(kQuery, a.query, c.dtype);
    add_tensor(kKey, a.key, c.dtype);
    add_tensor(kValue, a.value, c.dtype);
    if (a.atten_mask) add_bytes(kMask, a.atten_mask->shape, c.byte_mask ? ACL_UINT8 : ACL_BOOL, a.atten_mask->values);
    if (a.query_rope) add_tensor(kQueryRope, *a.query_rope, c.dtype);
    if (a.key_rope) add_tensor(kKeyRope, *a.key_rope, c.dtype);
    if (a.real_shift) add_tensor(kPse, *a.real_shift, a.pse_type >= 2 ? DType::kFp32 : c.dtype);
    if (a.drop_mask && c.drop != DropShape::kFromSeed) {
        const auto bytes = static_cast<int64_t>(a.drop_mask->size());
        const std::vector<int64_t> shape = drop_mask_shape(c);
        add_bytes(kDrop, element_count(shape) == bytes ? shape : std::vector{bytes}, ACL_UINT8, *a.drop_mask);
    }
    if (!a.sink.empty()) add_tensor(kSink, {{static_cast<int64_t>(a.sink.size())}, a.sink}, DType::kFp32);
    if (c.varlen()) {
        add_list(kQEnds, a.actual_seq_qlen);
        add_list(kKvEnds, a.actual_seq_kvlen);
    }
    add_list(kPrefix, a.prefix);
    add_list(kQStart, a.q_start_idx);
    add_list(kKvStart, a.kv_start_idx);
}

void CallMemory::add_list(List list, const std::vector<int64_t>& numbers) {
    if (!numbers.empty()) lists_[list] = aclCreateIntArray(numbers.data(), numbers.size());
}

void CallMemory::set_texts(const std::string& layout, const std::string& softmax_layout, bool empty_text) {
    auto writable = [](const std::string& text) {
        return std::vector<char>(text.c_str(), text.c_str() + text.size() + 1);
    };
    layout_ = writable(layout);
    if (!softmax_layout.empty() || empty_text) softmax_layout_ = writable(softmax_layout);
}

void CallMemory::set_workspace(uint64_t bytes, WorkspaceFill fill) {
    workspace_ = GuardedMemory(static_cast<int64_t>(bytes), fill == WorkspaceFill::kZeros ? 0 : 0xFF);
    if (fill != WorkspaceFill::kNan) return;
    constexpr uint32_t kQuietNan = 0x7FC00000;
    for (int64_t at = 0; at + 4 <= workspace_.size(); at += 4) std::memcpy(workspace_.data() + at, &kQuietNan, 4);
}

void CallMemory::destroy_descriptions() {
    for (Operand& o : operands_) {
        aclDestroyTensor(o.tensor);
        o.tensor = nullptr;
    }
    for (aclIntArray*& list : lists_) {
        aclDestroyIntArray(list);
        list = nullptr;
    }
    std::fill(layout_.begin(), layout_.end(), '?');
    std::fill(softmax_layout_.begin(), softmax_layout_.end(), '?');
}

ScoreArguments CallMemory::arguments(const reference::ScoreArguments& a) {
    ScoreArguments arguments;
    arguments.query = tensor(kQuery);
    arguments.query_rope = tensor(kQueryRope);
    arguments.key = tensor(kKey);
    arguments.key_rope = tensor(kKeyRope);
    arguments.value = tensor(kValue);
    arguments.real_shift = tensor(kPse);
    arguments.drop_mask = tensor(kDrop);
    arguments.atten_mask = tensor(kMask);
    arguments.sink = tensor(kSink);
    arguments.prefix = lists_[kPrefix];
    arguments.q_ends = lists_[kQEnds];
    arguments.kv_ends = lists_[kKvEnds];
    arguments.q_start = lists_[kQStart];
    arguments.kv_start = lists_[kKvStart];
    arguments.scale = a.scale_value;
    arguments.keep_prob = a.keep_prob;
    arguments.pre = a.pre_tokens;
    arguments.next = a.next_tokens;
    arguments.head_num = a.head_num;
    arguments.layout = layout_.data();
    arguments.sparse_mode = a.sparse_mode;
    arguments.pse_type = a.pse_type;
    arguments.softmax_out_layout = softmax_layout_.empty() ? nullptr : softmax_layout_.data();
    arguments.seed = case_.drop_seed;
    arguments.offset = case_.drop_offset;
    arguments.max = tensor(kMax);
    arguments.sum = tensor(kSum);
    arguments.out = tensor(kOut);
    return arguments;
}

std::vector<uint32_t> CallMemory::read(Argument argument, DType dtype) const {
    const Operand& o = operands_[argument];
    std::vector<uint32_t> bits;
    if (o.storage == nullptr) return bits;
    o.view.for_each_position([&](int64_t position) {
        bits.push_back(load_bits(dtype, static_cast<const uint8_t*>(o.storage) + position * o.element_bytes));
    });
    return bits;
}

void CallMemory::write(Argument argument, DType dtype, const std::vector<double>& values) {
    Operand& o = operands_[argument];
    if (o.storage == nullptr) return;
    size_t i = 0;
    o.view.for_each_position([&](int64_t position) {
        store_element(dtype, static_cast<uint8_t*>(o.storage) + position * o.element_bytes, values[i++]);
    });
}

void CallMemory::note_stray_writes(Argument argument, std::vector<std::string>& broken) const {
    const Operand& o = operands_[argument];
    if (!o.guarded.guards_intact())
        broken.push_back(fmt::format("wrote outside of the storage of {}", kNames[argument]));
    std::vector<bool> of_view(o.view.storage, false);
    o.view.for_each_position([&of_view](int64_t position) { of_view[position] = true; });
    for (int64_t i = 0; i < o.view.storage * o.element_bytes; i++) {
        if (of_view[i / o.element_bytes] || o.guarded.data()[i] == kUnwritten) continue;
        broken.push_back(fmt::format("wrote element {} of the storage of {}, which is not in the view",
                                     i / o.element_bytes, kNames[argument]));
        return;
    }
}

std::vector<std::string> CallMemory::broken_promises() const {
    std::vector<std::string> broken;
    for (int a = 0; a < kArgumentCount; a++) {
        const Operand& o = operands_[a];
        if (o.output) {
            note_stray_writes(static_cast<Argument>(a), broken);
        } else if (!o.original.empty() && std::memcmp(o.storage, o.original.data(), o.original.size()) != 0) {
            broken.push_back(fmt::format("changed the input {}", kNames[a]));
        }
    }
    if (!workspace_.guards_intact())
        broken.push_back(fmt::format("wrote outside of {} bytes of workspace", workspace_.size()));
    return broken;
}

aclrtStream stream() {
    static const aclrtStream the_stream = [] {
        aclrtStream made = nullptr;
        if (aclInit(nullptr) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS ||
            aclrtCreateStream(&made) != ACL_SUCCESS) {
            throw std::runtime_error("the runtime did not start");
        }
        return made;
    }();
    return the_stream;
}

}  // namespace flash_attention::testing
