#include "testing/runner.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "aclnnop/aclnn_flash_attention_score.h"
#include "allocation_counter.h"

namespace flash_attention::testing {
namespace {

constexpr uint8_t kGuardByte = 0xA5;
// Of outputs before the call; in all element types a NaN.
constexpr uint8_t kUnwritten = 0xFF;
constexpr std::string_view kNames[] = {"query",        "key",        "value",     "attenMask",
                                       "attentionOut", "softmaxMax", "softmaxSum"};

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

template <class Store>
void PreparedCall::add_input(Argument argument, const std::vector<int64_t>& shape, aclDataType dtype, int64_t bytes,
                             Store store) {
    Operand& o = operands_[argument];
    o.view = make_view(call_.description.views[argument], shape);
    o.element_bytes = bytes;
    o.exact.reset(new uint8_t[o.view.storage * bytes]);
    std::memset(o.exact.get(), kUnwritten, o.view.storage * bytes);  // gaps are NaN: whoever reads them shows it
    size_t element = 0;
    o.view.for_each_position([&](int64_t position) { store(o.exact.get() + position * bytes, element++); });
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

PreparedCall::PreparedCall(const Call& call, RunOptions options) : call_(call), options_(std::move(options)) {
    const Case& c = call_.description;
    const reference::ScoreArguments& a = call_.arguments;
    stream();
    const std::string& layout = options_.layout.empty() ? a.input_layout : options_.layout;
    layout_.assign(layout.c_str(), layout.c_str() + layout.size() + 1);

    const int64_t bytes = element_bytes(c.dtype);
    auto add_tensor = [&](Argument argument, const reference::Tensor& tensor) {
        add_input(argument, tensor.shape, acl_type(c.dtype), bytes,
                  [&](uint8_t* at, size_t i) { store_element(c.dtype, at, tensor.values[i]); });
    };
    add_tensor(kQuery, a.query);
    add_tensor(kKey, a.key);
    add_tensor(kValue, a.value);
    if (a.atten_mask) {
        add_input(kMask, a.atten_mask->shape, c.byte_mask ? ACL_UINT8 : ACL_BOOL, 1,
                  [&](uint8_t* at, size_t i) { *at = a.atten_mask->values[i]; });
    }
    add_output(kOut, out_shape(c), acl_type(c.dtype), bytes);
    const std::vector<int64_t> statistics =
        options_.statistics_shape.empty() ? statistics_shape(c) : options_.statistics_shape;
    add_output(kMax, statistics, ACL_FLOAT, 4);
    add_output(kSum, statistics, ACL_FLOAT, 4);
    if (c.varlen()) {
        q_list_ = aclCreateIntArray(a.actual_seq_qlen.data(), a.actual_seq_qlen.size());
        kv_list_ = aclCreateIntArray(a.actual_seq_kvlen.data(), a.actual_seq_kvlen.size());
    }
}

PreparedCall::~PreparedCall() {
    destroy_descriptions();
}

void PreparedCall::destroy_descriptions() {
    for (Operand& o : operands_) {
        aclDestroyTensor(o.tensor);
        o.tensor = nullptr;
    }
    aclDestroyIntArray(q_list_);
    aclDestroyIntArray(kv_list_);
    q_list_ = kv_list_ = nullptr;
    std::fill(layout_.begin(), layout_.end(), '?');
}

aclnnStatus PreparedCall::phase_one() {
    const reference::ScoreArguments& a = call_.arguments;
    const aclTensor* q = tensor(kQuery);
    const aclTensor* k = tensor(kKey);
    const aclTensor* v = tensor(kValue);
    const aclTensor* mask = tensor(kMask);
    constexpr double kKeepProb = 1.0;
    aclnnStatus status = 0;
    if (call_.description.varlen()) {
        status = aclnnFlashAttentionVarLenScoreGetWorkspaceSize(
            q, k, v, nullptr, nullptr, nullptr, mask, nullptr, q_list_, kv_list_, a.scale_value, kKeepProb,
            a.pre_tokens, a.next_tokens, a.head_num, layout_.data(), options_.inner_precise, a.sparse_mode,
            tensor(kMax), tensor(kSum), nullptr, tensor(kOut), &workspace_size_, &executor_);
    } else {
        status = aclnnFlashAttentionScoreGetWorkspaceSize(
            q, k, v, nullptr, nullptr, nullptr, mask, nullptr, a.scale_value, kKeepProb, a.pre_tokens, a.next_tokens,
            a.head_num, layout_.data(), options_.inner_precise, a.sparse_mode, tensor(kMax), tensor(kSum), nullptr,
            tensor(kOut), &workspace_size_, &executor_);
    }
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
    const uint64_t before = opbase::testing::allocation_count();
    const aclnnStatus status = call_.description.varlen()
                                   ? aclnnFlashAttentionVarLenScore(workspace, workspace_size_, executor_, stream())
                                   : aclnnFlashAttentionScore(workspace, workspace_size_, executor_, stream());
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
    for (const Argument argument : {kQuery, kKey, kValue, kMask}) {
        const Operand& o = operands_[argument];
        if (!o.original.empty() && std::memcmp(o.storage, o.original.data(), o.original.size()) != 0) {
            broken.push_back(fmt::format("changed the input {}", kNames[argument]));
        }
    }
    for (const Argument argument : {kOut, kMax, kSum}) note_stray_writes(argument, broken);
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
