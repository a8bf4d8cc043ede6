#include "call.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cfloat>
#include <cstddef>
#include <cstring>
#include <memory>
#include <numeric>
#include <ostream>

namespace flash_attention::testing {
namespace {

constexpr auto kGuard = std::byte{0xA5};
constexpr int64_t kGuardElements = 64;
// Larger views exist only in calls that phase one refuses; they get a token storage and no contents.
constexpr int64_t kMaxElements = int64_t{1} << 24;

std::vector<int64_t> row_major(const std::vector<int64_t>& shape) {
    std::vector<int64_t> strides(shape.size());
    uint64_t step = 1;  // may wrap for shapes that no tensor can have
    for (size_t i = shape.size(); i-- > 0; step *= static_cast<uint64_t>(std::max<int64_t>(shape[i], 1))) {
        strides[i] = static_cast<int64_t>(step);
    }
    return strides;
}

// One argument: the storage, surrounded by guard elements, and the handle.
class Operand {
  public:
    Operand(const Tensor& spec, int number) : number_(number), present_(spec.has_value()) {
        if (!present_) return;
        spec_ = *spec;
        if (spec_.strides.empty()) spec_.strides = row_major(spec_.shape);
        bytes_ = static_cast<int64_t>(aclDataTypeSize(spec_.dtype));
        const int64_t elements = std::max<int64_t>(needed_elements(), 1);
        memory_.assign((elements + 2 * kGuardElements) * bytes_, kGuard);
        void* data = spec_.without_data ? nullptr : this->data();
        tensor_ = aclCreateTensor(spec_.shape.data(), spec_.shape.size(), spec_.dtype, spec_.strides.data(),
                                  spec_.offset, spec_.format, spec_.storage.data(), spec_.storage.size(), data);
    }
    ~Operand() { aclDestroyTensor(tensor_); }
    Operand(const Operand&) = delete;
    Operand& operator=(const Operand&) = delete;

    const aclTensor* tensor() const { return tensor_; }

    // Calls visit(index, address) for each element in row-major order of the indices.
    template <class Visit>
    void for_each(Visit visit) {
        if (needed_elements() == 0) return;
        std::vector<int64_t> index(spec_.shape.size(), 0);
        for (int64_t i = 0;; i++) {
            const int64_t at = std::inner_product(index.begin(), index.end(), spec_.strides.begin(), spec_.offset);
            visit(i, data() + at * bytes_);
            size_t axis = index.size();
            while (axis > 0 && ++index[axis - 1] == spec_.shape[axis - 1]) index[--axis] = 0;
            if (axis == 0) return;
        }
    }

    template <class Value>  // Value(int64_t index) -> float
    void fill(Value value) {
        for_each([&](int64_t i, std::byte* at) {
            const float number = value(i);
            uint32_t bits;
            std::memcpy(&bits, &number, sizeof bits);
            const uint16_t high = static_cast<uint16_t>(bits >> 16);
            const aclFloat16 half = aclFloatToFloat16(number);
            const auto byte = static_cast<uint8_t>(number);
            if (spec_.dtype == ACL_FLOAT) std::memcpy(at, &number, 4);
            if (spec_.dtype == ACL_BF16) std::memcpy(at, &high, 2);
            if (spec_.dtype == ACL_FLOAT16) std::memcpy(at, &half, 2);
            if (bytes_ == 1) std::memcpy(at, &byte, 1);
        });
    }

    std::vector<float> read() {
        std::vector<float> values;
        for_each([&](int64_t, std::byte* at) {
            float number = 0;
            uint16_t bits = 0;
            if (bytes_ == 4) std::memcpy(&number, at, 4);
            if (bytes_ == 2) std::memcpy(&bits, at, 2);
            values.push_back(bytes_ == 2 ? bits : number);
        });
        return values;
    }

    bool untouched() const {
        return std::all_of(memory_.begin(), memory_.end(), [](std::byte b) { return b == kGuard; });
    }

    // Nothing but the elements of the view differs from the guard pattern.
    bool surroundings_untouched() {
        std::vector<std::byte> copy = memory_;
        for_each([&](int64_t, std::byte* at) { std::fill_n(copy.begin() + (at - memory_.data()), bytes_, kGuard); });
        return std::all_of(copy.begin(), copy.end(), [](std::byte b) { return b == kGuard; });
    }

    // Same for equal (argument, index); about uniform in [-1, 1).
    float noise(int64_t index) const {
        uint64_t x = static_cast<uint64_t>(index) * 8 + static_cast<uint64_t>(number_) + 1;
        x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15U;
        x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9U;
        return static_cast<float>(x >> 40) / static_cast<float>(1 << 23) - 1.0F;
    }

  private:
    std::byte* data() { return memory_.data() + kGuardElements * bytes_; }

    // From the start of the storage to behind the view; 0 for absent and empty tensors, for those without data, and for
    // those too large to exist.
    int64_t needed_elements() const {
        if (!present_ || spec_.without_data) return 0;
        double last = static_cast<double>(spec_.offset);
        double count = 1;
        for (size_t i = 0; i < spec_.shape.size(); i++) {
            count *= static_cast<double>(spec_.shape[i]);
            last += static_cast<double>(spec_.shape[i] - 1) * static_cast<double>(spec_.strides[i]);
        }
        return count > 0 && std::max(count, last) < kMaxElements ? static_cast<int64_t>(last) + 1 : 0;
    }

    int number_;
    bool present_;
    TensorSpec spec_;
    int64_t bytes_ = 0;
    std::vector<std::byte> memory_;
    aclTensor* tensor_ = nullptr;
};

class ListArgument {
  public:
    explicit ListArgument(const List& list) : array_(list ? aclCreateIntArray(list->data(), list->size()) : nullptr) {}
    ~ListArgument() { aclDestroyIntArray(array_); }
    ListArgument(const ListArgument&) = delete;
    ListArgument& operator=(const ListArgument&) = delete;
    const aclIntArray* get() const { return array_; }

  private:
    aclIntArray* array_;
};

// All arguments of a call in memory.
struct Arguments {
    explicit Arguments(const Call& call)
        : query(call.query, 0),
          key(call.key, 1),
          value(call.value, 2),
          real_shift(call.real_shift, 3),
          drop_mask(call.drop_mask, 4),
          padding_mask(call.padding_mask, 5),
          mask(call.mask, 6),
          max(call.max, 7),
          sum(call.sum, 8),
          softmax_out(call.softmax_out, 9),
          out(call.out, 10),
          prefix(call.prefix),
          q_ends(call.q_ends),
          kv_ends(call.kv_ends) {
        const bool noise = call.fill == Fill::kNoise;
        query.fill([&](int64_t i) { return noise ? query.noise(i) : 0.0F; });
        key.fill([&](int64_t i) { return key.noise(i); });
        value.fill([&](int64_t i) { return noise ? value.noise(i) : 1.0F; });
        mask.fill([&](int64_t i) { return call.hidden(i) ? 1.0F : 0.0F; });
    }

    Operand query, key, value, real_shift, drop_mask, padding_mask, mask, max, sum, softmax_out, out;
    ListArgument prefix, q_ends, kv_ends;
};

aclnnStatus phase_one(const Call& call, const Arguments& a, uint64_t* workspace_size, aclOpExecutor** executor) {
    char* layout = const_cast<char*>(call.layout);
    if (call.varlen) {
        return aclnnFlashAttentionVarLenScoreGetWorkspaceSize(
            a.query.tensor(), a.key.tensor(), a.value.tensor(), a.real_shift.tensor(), a.drop_mask.tensor(),
            a.padding_mask.tensor(), a.mask.tensor(), a.prefix.get(), a.q_ends.get(), a.kv_ends.get(), call.scale,
            call.keep_prob, call.pre, call.next, call.head_num, layout, call.inner_precise, call.sparse_mode,
            a.max.tensor(), a.sum.tensor(), a.softmax_out.tensor(), a.out.tensor(), workspace_size, executor);
    }
    return aclnnFlashAttentionScoreGetWorkspaceSize(
        a.query.tensor(), a.key.tensor(), a.value.tensor(), a.real_shift.tensor(), a.drop_mask.tensor(),
        a.padding_mask.tensor(), a.mask.tensor(), a.prefix.get(), call.scale, call.keep_prob, call.pre, call.next,
        call.head_num, layout, call.inner_precise, call.sparse_mode, a.max.tensor(), a.sum.tensor(),
        a.softmax_out.tensor(), a.out.tensor(), workspace_size, executor);
}

aclnnStatus phase_two(const Call& call, void* workspace, uint64_t size, aclOpExecutor* executor) {
    return call.varlen ? aclnnFlashAttentionVarLenScore(workspace, size, executor, nullptr)
                       : aclnnFlashAttentionScore(workspace, size, executor, nullptr);
}

std::string recent_text() {
    const char* text = aclGetRecentErrMsg();
    return text == nullptr ? "" : text;
}

}  // namespace

Outcome run(const Call& call, bool only_phase_one) {
    Arguments arguments(call);
    recent_text();  // what creating the arguments may have left
    Outcome outcome;
    outcome.workspace_size = 12345;  // both have to be overwritten, also on failure
    auto* executor = reinterpret_cast<aclOpExecutor*>(&outcome);
    outcome.code = phase_one(call, arguments, call.null_workspace_size ? nullptr : &outcome.workspace_size,
                             call.null_executor ? nullptr : &executor);
    outcome.text = recent_text();
    outcome.executor_is_null = call.null_executor || executor == nullptr;
    if (outcome.code == 0 && only_phase_one) aclDestroyAclOpExecutor(executor);
    if (outcome.code == 0 && !only_phase_one) {
        const std::unique_ptr<std::byte[]> workspace(new std::byte[outcome.workspace_size]);
        std::fill_n(workspace.get(), outcome.workspace_size, std::byte{0xFF});
        outcome.code = phase_two(call, workspace.get(), outcome.workspace_size, executor);
        outcome.text = recent_text();
        outcome.max = arguments.max.read();
        outcome.sum = arguments.sum.read();
        outcome.out = arguments.out.read();
        EXPECT_TRUE(arguments.max.surroundings_untouched());
        EXPECT_TRUE(arguments.sum.surroundings_untouched());
        EXPECT_TRUE(arguments.out.surroundings_untouched());
    }
    EXPECT_TRUE(arguments.softmax_out.untouched());
    outcome.outputs_untouched = arguments.max.untouched() && arguments.sum.untouched() && arguments.out.untouched();
    return outcome;
}

void expect_refused(const Call& call, aclnnStatus code, const std::string& sentence) {
    const Outcome outcome = run(call);
    EXPECT_EQ(outcome.code, code);
    const std::string category = code / 100000 == 1 ? "AclNN_Parameter_Error(EZ1001)" : "AclNN_Inner_Error(EZ9999)";
    const std::string end = fmt::format(" {}: {}: {}", category, call.name(), sentence);
    const bool ends_so = outcome.text.size() > end.size() && outcome.text.ends_with(end);
    EXPECT_TRUE(ends_so) << "text:     " << outcome.text << "\nexpected: [PID:..] <time>" << end;
    EXPECT_EQ(outcome.text.rfind("[PID:", 0), 0U) << outcome.text;
    EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 0) << "more than one text: " << outcome.text;
    EXPECT_EQ(outcome.workspace_size, call.null_workspace_size ? 12345U : 0U);
    EXPECT_TRUE(outcome.executor_is_null);
    EXPECT_TRUE(outcome.outputs_untouched);
}

void expect_counts(const Call& call, const std::vector<int64_t>& q_lengths, int64_t heads, const VisibleKeys& visible) {
    const Outcome outcome = run(call);
    ASSERT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_EQ(outcome.text, "");
    std::vector<float> max, sum;
    int64_t rows_with_keys = 0;
    for (int64_t s = 0; s < static_cast<int64_t>(q_lengths.size()); s++) {
        for (int64_t head = 0; head < heads; head++) {
            for (int64_t row = 0; row < q_lengths[s]; row++) {
                const int64_t keys = visible(s, head, row);
                rows_with_keys += keys > 0 ? 1 : 0;
                max.insert(max.end(), 8, keys == 0 ? -FLT_MAX : 0.0F);
                sum.insert(sum.end(), 8, keys == 0 ? FLT_MAX : keys == kNoKeys ? 0.0F : static_cast<float>(keys));
            }
        }
    }
    EXPECT_EQ(outcome.max, max);
    EXPECT_EQ(outcome.sum, sum);
    const int64_t features = static_cast<int64_t>(outcome.out.size()) * 8 / std::max<int64_t>(sum.size(), 1);
    const int64_t ones = std::count(outcome.out.begin(), outcome.out.end(), 1.0F);
    const int64_t zeros = std::count(outcome.out.begin(), outcome.out.end(), 0.0F);
    EXPECT_EQ(ones, rows_with_keys * features);
    EXPECT_EQ(ones + zeros, static_cast<int64_t>(outcome.out.size()));
}

void expect_same_bits(const Call& a, const Call& b) {
    const Outcome left = run(a);
    const Outcome right = run(b);
    ASSERT_EQ(left.code, 0) << left.text;
    ASSERT_EQ(right.code, 0) << right.text;
    const auto same = [](const std::vector<float>& x, const std::vector<float>& y) {
        return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
    };
    EXPECT_TRUE(same(left.max, right.max));
    EXPECT_TRUE(same(left.sum, right.sum));
    EXPECT_TRUE(same(left.out, right.out));
}

Call dense_call(const char* layout, const Sizes& s) {
    const auto shape = [&](int64_t length, int64_t heads, int64_t dim) -> std::vector<int64_t> {
        const std::string letters = layout;
        if (letters == "BSH") return {s.b, length, heads * dim};
        if (letters == "SBH") return {length, s.b, heads * dim};
        if (letters == "BSND") return {s.b, length, heads, dim};
        return {s.b, heads, length, dim};
    };
    Call call;
    call.query = TensorSpec{.shape = shape(s.sq, s.n, s.d)};
    call.key = TensorSpec{.shape = shape(s.skv, s.nkv, s.d)};
    call.value = TensorSpec{.shape = shape(s.skv, s.nkv, s.dv)};
    call.out = TensorSpec{.shape = shape(s.sq, s.n, s.dv)};
    call.max = call.sum = TensorSpec{.shape = {s.b, s.n, s.sq, 8}};
    call.head_num = s.n;
    call.layout = layout;
    return call;
}

Call varlen_call(const std::vector<int64_t>& q_lengths, const std::vector<int64_t>& kv_lengths, int64_t n, int64_t nkv,
                 int64_t d) {
    Call call;
    call.varlen = true;
    call.layout = "TND";
    call.head_num = n;
    call.q_ends.emplace(q_lengths.size());
    call.kv_ends.emplace(kv_lengths.size());
    std::partial_sum(q_lengths.begin(), q_lengths.end(), call.q_ends->begin());
    std::partial_sum(kv_lengths.begin(), kv_lengths.end(), call.kv_ends->begin());
    const int64_t tq = call.q_ends->empty() ? 0 : call.q_ends->back();
    const int64_t tkv = call.kv_ends->empty() ? 0 : call.kv_ends->back();
    call.query = call.out = TensorSpec{.shape = {tq, n, d}};
    call.key = call.value = TensorSpec{.shape = {tkv, nkv, d}};
    call.max = call.sum = TensorSpec{.shape = {tq, n, 8}};
    return call;
}

void set_dtype(Call& call, aclDataType dtype) {
    for (Tensor* tensor : {&call.query, &call.key, &call.value, &call.out}) (*tensor)->dtype = dtype;
}

std::ostream& operator<<(std::ostream& stream, const Mistake& mistake) {
    return stream << mistake.id << ": " << mistake.sentence;
}

void expect_all_refused(Call (*make_call)(), std::initializer_list<Mistake> mistakes) {
    for (const Mistake& mistake : mistakes) {
        SCOPED_TRACE(mistake);
        Call call = make_call();
        mistake.make(call);
        expect_refused(call, mistake.code, mistake.sentence);
        // The process works on, and the text of the failure does not outlive the next success.
        const Outcome good = run(make_call());
        EXPECT_EQ(good.code, 0) << good.text;
        EXPECT_EQ(good.text, "");
        EXPECT_FALSE(good.outputs_untouched);
    }
}

}  // namespace flash_attention::testing
