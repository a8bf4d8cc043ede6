#include "testing/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "allocation_counter.h"
#include "entry_points.h"

namespace flash_attention::testing {
namespace {

constexpr uint8_t kGuardByte = 0xA5;
// Of outputs before the call; in all element types a NaN.
constexpr uint8_t kUnwritten = 0xFF;
constexpr std::string_view kNames[] = {"query",      "key",       "value",   "attenMask", "attentionOut", "softmaxMax",
                                       "softmaxSum", "queryRope", "keyRope", "realShift", "dropMask",     "sink"};
static_assert(std::size(kNames) == kArgumentCount);

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

// The case's version, or the smallest that has what the arguments use: these may have been changed since make_call.
Version choose_version(const Call& call) {
    const reference::ScoreArguments& a = call.arguments;
    Case used = call.description;
    used.pse_type = a.pse_type;
    used.q_start = a.q_start_idx;
    used.kv_start = a.kv_start_idx;
    used.rope = a.query_rope ? 1 : 0;
    used.sink = a.sink.empty() ? Sink::kNone : Sink::kNormal;
    used.stats = a.softmax_out_layout;
    const std::vector<Version> able = versions_of(used);
    if (std::find(able.begin(), able.end(), version_of(used)) == able.end())
        throw std::logic_error(fmt::format("{} does not have all arguments", name_of(version_of(used))));
    return version_of(used);
}

}  // namespace

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
void PreparedCall::add_input(Argument argument, const std::vector<int64_t>& shape, aclDataType dtype, int64_t bytes,
                             Fill fill) {
    Operand& o = operands_[argument];
    o.view = make_view(call_.description.views[argument], shape);
    o.element_bytes = bytes;
    o.exact.reset(new uint8_t[o.view.storage * bytes]);
    std::memset(o.exact.get(), kUnwritten, o.view.storage * bytes);  // gaps are NaN: whoever reads them shows it
    fill(o.exact.get(), o.view);
    o.original.assign(o.exact.get(), o.exact.get() + o.view.storage * bytes);
    o.storage = o.exact.get();
    describe(argument, dtype);
}

void PreparedCall::add_output(Argument argument, const std::vector<int64_t>& shape, aclDataType dtype, int64_t bytes) {
    Operand& o = operands_[argument];
    o.view = make_view(call_.description.views[argument], shape);
    o.element_bytes = bytes;
    o.guarded = GuardedMemory(o.view.storage * bytes, kUnwritten);
    o.storage = o.guarded.data();
    describe(argument, dtype);
}

void PreparedCall::describe(Argument argument, aclDataType dtype) {
    Operand& o = operands_[argument];
    const bool packed = call_.description.views[argument] == View::kPacked;
    // Frameworks describe the storage of a view as one dimension.
    const std::vector<int64_t> storage = packed ? o.view.shape : std::vector<int64_t>{o.view.storage};
    o.tensor = aclCreateTensor(o.view.shape.data(), o.view.shape.size(), dtype, o.view.strides.data(), o.view.offset,
                               ACL_FORMAT_ND, storage.data(), storage.size(), o.storage);
    if (o.tensor == nullptr) throw std::runtime_error(fmt::format("aclCreateTensor refused {}", kNames[argument]));
}

void PreparedCall::add_inputs() {
    const Case& c = call_.description;
    const reference::ScoreArguments& a = call_.arguments;
    auto add_tensor = [&](Argument argument, const reference::Tensor& tensor, DType dtype) {
        const int64_t bytes = element_bytes(dtype);
        add_input(argument, tensor.shape, acl_type(dtype), bytes, [&](uint8_t* storage, const StridedView& view) {
            size_t i = 0;
            view.for_each_position([&](int64_t at) { store_element(dtype, storage + at * bytes, tensor.values[i++]); });
        });
    };
    // Masks have millions of bytes, most of them side by side.
    auto add_bytes = [&](Argument argument, const std::vector<int64_t>& shape, aclDataType dtype,
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
    };
    add_tensor(kQuery, a.query, c.dtype);
    add_tensor(kKey, a.key, c.dtype);
    add_tensor(kValue, a.value, c.dtype);
    if (a.atten_mask) add_bytes(kMask, a.atten_mask->shape, c.byte_mask ? ACL_UINT8 : ACL_BOOL, a.atten_mask->values);
    if (a.query_rope) add_tensor(kQueryRope, *a.query_rope, c.dtype);
    if (a.key_rope) add_tensor(kKeyRope, *a.key_rope, c.dtype);
    if (a.real_shift) add_tensor(kPse, *a.real_shift, a.pse_type >= 2 ? DType::kFp32 : c.dtype);
    if (a.drop_mask) {
        const auto bytes = static_cast<int64_t>(a.drop_mask->size());
        const std::vector<int64_t> shape = drop_mask_shape(c);
        add_bytes(kDrop, element_count(shape) == bytes ? shape : std::vector{bytes}, ACL_UINT8, *a.drop_mask);
    }
    if (!a.sink.empty()) add_tensor(kSink, {{static_cast<int64_t>(a.sink.size())}, a.sink}, DType::kFp32);
}

void PreparedCall::add_list(List list, const std::vector<int64_t>& numbers) {
    if (!numbers.empty()) lists_[list] = aclCreateIntArray(numbers.data(), numbers.size());
}

PreparedCall::PreparedCall(const Call& call, RunOptions options)
    : call_(call), options_(std::move(options)), version_(choose_version(call)) {
    const Case& c = call_.description;
    const reference::ScoreArguments& a = call_.arguments;
    stream();
    auto writable = [](const std::string& text) {
        return std::vector<char>(text.c_str(), text.c_str() + text.size() + 1);
    };
    layout_ = writable(options_.layout.empty() ? a.input_layout : options_.layout);
    if (!a.softmax_out_layout.empty() || options_.empty_text) softmax_layout_ = writable(a.softmax_out_layout);
    add_inputs();
    add_output(kOut, out_shape(c), acl_type(c.dtype), element_bytes(c.dtype));
    const std::vector<int64_t> statistics =
        options_.statistics_shape.empty() ? statistics_shape(c) : options_.statistics_shape;
    add_output(kMax, statistics, ACL_FLOAT, 4);
    add_output(kSum, statistics, ACL_FLOAT, 4);
    if (c.varlen()) {
        add_list(kQEnds, a.actual_seq_qlen);
        add_list(kKvEnds, a.actual_seq_kvlen);
    }
    add_list(kPrefix, a.prefix);
    add_list(kQStart, a.q_start_idx);
    add_list(kKvStart, a.kv_start_idx);
}

PreparedCall::~PreparedCall() {
    destroy_descriptions();
}

void PreparedCall::destroy_descriptions() {
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

ScoreArguments PreparedCall::arguments() {
    const reference::ScoreArguments& a = call_.arguments;
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
    arguments.inner_precise = options_.inner_precise;
    arguments.sparse_mode = a.sparse_mode;
    arguments.pse_type = a.pse_type;
    arguments.softmax_out_layout = softmax_layout_.empty() ? nullptr : softmax_layout_.data();
    arguments.max = tensor(kMax);
    arguments.sum = tensor(kSum);
    arguments.out = tensor(kOut);
    arguments.workspace_size = &workspace_size_;
    arguments.executor = &executor_;
    return arguments;
}

aclnnStatus PreparedCall::phase_one() {
    const Version version = options_.max_workspace ? Version::kVarLenV5Max : version_;
    const aclnnStatus status = testing::phase_one(version, arguments());
    if (status != 0) return status;
    workspace_ = GuardedMemory(static_cast<int64_t>(workspace_size_), 0xFF);
    if (options_.workspace == WorkspaceFill::kNan) {
        constexpr uint32_t kQuietNan = 0x7FC00000;
        for (int64_t at = 0; at + 4 <= workspace_.size(); at += 4) std::memcpy(workspace_.data() + at, &kQuietNan, 4);
    }
    return status;
}

aclnnStatus PreparedCall::phase_two() {
    void* workspace = workspace_size_ == 0 ? nullptr : workspace_.data();
    const Version version = options_.max_workspace ? Version::kVarLenV5Max : version_;
    const uint64_t before = opbase::testing::allocation_count();
    const aclnnStatus status = testing::phase_two(version, workspace, workspace_size_, executor_, stream());
    allocations_ = opbase::testing::allocation_count() - before;
    if (status == 0) aclrtSynchronizeStream(stream());
    return status;
}

std::vector<uint32_t> PreparedCall::read(Argument argument, DType dtype) const {
    const Operand& o = operands_[argument];
    std::vector<uint32_t> bits;
    o.view.for_each_position([&](int64_t position) {
        bits.push_back(load_bits(dtype, static_cast<const uint8_t*>(o.storage) + position * o.element_bytes));
    });
    return bits;
}

Outputs PreparedCall::outputs() const {
    return {read(kOut, call_.description.dtype), read(kMax, DType::kFp32), read(kSum, DType::kFp32)};
}

void PreparedCall::note_stray_writes(Argument argument, std::vector<std::string>& broken) const {
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

std::vector<std::string> PreparedCall::broken_promises() const {
    std::vector<std::string> broken;
    for (int a = 0; a < kArgumentCount; a++) {
        const auto argument = static_cast<Argument>(a);
        const Operand& o = operands_[a];
        if (is_output(argument)) {
            note_stray_writes(argument, broken);
        } else if (!o.original.empty() && std::memcmp(o.storage, o.original.data(), o.original.size()) != 0) {
            broken.push_back(fmt::format("changed the input {}", kNames[a]));
        }
    }
    if (!workspace_.guards_intact())
        broken.push_back(fmt::format("wrote outside of {} bytes of workspace", workspace_size_));
    if (options_.count_allocations && allocations_ != 0) {
        broken.push_back(fmt::format("phase two allocated {} times", allocations_));
    }
    return broken;
}

RunResult run(const Call& call, const RunOptions& options) {
    RunResult result;
    PreparedCall prepared(call, options);
    auto error_text = [] {
        const char* text = aclGetRecentErrMsg();
        return std::string(text == nullptr ? "no error text" : text);
    };
    result.phase_one = prepared.phase_one();
    if (result.phase_one != 0) {
        result.error_text = error_text();
        result.broken_promises = prepared.broken_promises();
        return result;
    }
    result.phase_two = prepared.phase_two();
    if (result.phase_two != 0) result.error_text = error_text();
    result.broken_promises = prepared.broken_promises();
    result.outputs = prepared.outputs();
    return result;
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
