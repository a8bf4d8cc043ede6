#include "call.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <ostream>

#include "any_call_fields.h"

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
            if (spec_.dtype == ACL_FLOAT) std::memcpy(at, &number, 4);
            if (spec_.dtype == ACL_BF16) std::memcpy(at, &high, 2);
            if (spec_.dtype == ACL_FLOAT16) std::memcpy(at, &half, 2);
            if (bytes_ == 1) *at = static_cast<std::byte>(number);  // of a mask: never negative
        });
    }

    std::vector<float> read() {
        std::vector<float> values;
        for_each([&](int64_t, std::byte* at) {
            float number = 0;
            uint16_t bits = 0;
            if (bytes_ == 4) std::memcpy(&number, at, 4);
            if (bytes_ == 2) std::memcpy(&bits, at, 2);
            if (spec_.dtype == ACL_FLOAT16) number = aclFloat16ToFloat(bits);
            if (spec_.dtype == ACL_BF16) {
                const uint32_t wide = uint32_t{bits} << 16;
                std::memcpy(&number, &wide, 4);
            }
            values.push_back(number);
        });
        return values;
    }

    bool untouched() const {
        return std::all_of(memory_.begin(), memory_.end(), [](std::byte b) { return b == kGuard; });
    }

    // Elements of the view that still have the guard pattern.
    int64_t unwritten() {
        int64_t count = 0;
        for_each([&](int64_t, std::byte* at) {
            count += std::all_of(at, at + bytes_, [](std::byte b) { return b == kGuard; });
        });
        return count;
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
class Arguments {
  public:
    explicit Arguments(const Call& call) {
        for (const TensorField& field : kTensors) {
            add(call, field);
            if (!is_output(field.from, call.backward())) fill(call, field, *operands_.back());
        }
        for (const TensorField& field : kGradTensors) {
            add(call, field);
            if (field.from == &Call::dy) fill(call, field, *operands_.back());
        }
        for (const ListField& field : kLists) {
            lists_.push_back(std::make_unique<ListArgument>(call.*field.from));
            c_.*field.to = lists_.back()->get();
        }
        copy_scalars(call, c_);
    }

    ScoreArguments& c() { return c_; }

    Operand& operator[](Tensor Call::*from) {
        return *operands_[std::find(places_.begin(), places_.end(), from) - places_.begin()];
    }

    // What the call writes, present or not.
    std::vector<Operand*> outputs(const Call& call) {
        std::vector<Operand*> outputs;
        if (call.backward()) {
            for (Tensor Call::*from : kGradients) outputs.push_back(&(*this)[from]);
        } else {
            outputs = {&(*this)[&Call::max], &(*this)[&Call::sum], &(*this)[&Call::out]};
        }
        return outputs;
    }

  private:
    void add(const Call& call, const TensorField& field) {
        places_.push_back(field.from);
        operands_.push_back(std::make_unique<Operand>(call.*field.from, static_cast<int>(operands_.size())));
        c_.*field.to = operands_.back()->tensor();
    }

    static void fill(const Call& call, const TensorField& field, Operand& operand) {
        const bool noise = call.fill == Fill::kNoise;
        if (field.from == &Call::mask) {
            operand.fill([&](int64_t i) { return call.hidden(i) ? 1.0F : 0.0F; });
        } else if (field.from == &Call::real_shift && call.bias) {
            operand.fill(call.bias);
        } else if (field.from == &Call::drop_mask) {
            operand.fill([&](int64_t i) { return noise ? 128.0F + 127.0F * operand.noise(i) : 255.0F; });
        } else if (noise || field.from == &Call::key) {
            operand.fill([&](int64_t i) { return operand.noise(i); });
        } else {
            operand.fill([&](int64_t) { return field.from == &Call::value ? 1.0F : 0.0F; });
        }
    }

    std::vector<Tensor Call::*> places_;  // of the operands
    std::vector<std::unique_ptr<Operand>> operands_;
    std::vector<std::unique_ptr<ListArgument>> lists_;
    ScoreArguments c_;
};

// A case that sets an argument which its version cannot pass would test nothing.
void expect_passable(const Call& call) {
    const VersionTraits& has = traits(call.version);
    EXPECT_TRUE(has.pse_type || (call.pse_type == 1 && !call.q_start && !call.kv_start));
    EXPECT_TRUE(has.sink || !call.sink);
    EXPECT_TRUE(has.rope || (!call.query_rope && !call.key_rope));
    EXPECT_TRUE(has.softmax_layout || call.softmax_out_layout == nullptr);
    EXPECT_TRUE(has.tnd || (!call.q_ends && !call.kv_ends));
    EXPECT_TRUE(has.everything || (!call.d_scale_q && !call.d_scale_k && !call.d_scale_v && call.out_dtype == 0 &&
                                   call.seed == 0 && call.offset == 0 && !call.d_scale_dy && !call.d_scale_o));
    const bool has_gradients = call.dy || call.dq || call.dk || call.dv || call.dpse || call.d_scale_dy;
    EXPECT_TRUE(has.backward || !has_gradients);
    EXPECT_TRUE((has.backward && has.rope) || (!call.dq_rope && !call.dk_rope));
    EXPECT_TRUE((has.backward && has.sink) || !call.dsink);
}

std::vector<std::vector<float>> read_all(const std::vector<Operand*>& operands) {
    std::vector<std::vector<float>> values;
    for (Operand* operand : operands) values.push_back(operand->read());
    return values;
}

std::string recent_text() {
    const char* text = aclGetRecentErrMsg();
    return text == nullptr ? "" : text;
}

}  // namespace

Outcome run(const Call& call, bool only_phase_one) {
    expect_passable(call);
    Arguments arguments(call);
    recent_text();  // what creating the arguments may have left
    Outcome outcome;
    outcome.workspace_size = 12345;  // both have to be overwritten, also on failure
    auto* executor = reinterpret_cast<aclOpExecutor*>(&outcome);
    arguments.c().workspace_size = call.null_workspace_size ? nullptr : &outcome.workspace_size;
    arguments.c().executor = call.null_executor ? nullptr : &executor;
    outcome.code = phase_one(call.version, arguments.c());
    outcome.text = recent_text();
    outcome.executor_is_null = call.null_executor || executor == nullptr;
    const std::vector<Operand*> outputs = arguments.outputs(call);
    if (outcome.code == 0 && only_phase_one) aclDestroyAclOpExecutor(executor);
    if (outcome.code == 0 && !only_phase_one) {
        const std::unique_ptr<std::byte[]> workspace(new std::byte[outcome.workspace_size]);
        std::fill_n(workspace.get(), outcome.workspace_size, std::byte{0xFF});
        outcome.code = phase_two(call.version, workspace.get(), outcome.workspace_size, executor, nullptr);
        outcome.text = recent_text();
        if (!call.backward()) {
            outcome.max = outputs[0]->read();
            outcome.sum = outputs[1]->read();
            outcome.out = outputs[2]->read();
        }
        for (Operand* output : outputs) EXPECT_TRUE(output->surroundings_untouched());
        for (Operand* output : outputs) outcome.unwritten += output->unwritten();
        if (call.backward()) outcome.gradients = read_all(outputs);
    }
    EXPECT_TRUE(call.backward() || arguments[&Call::softmax_out].untouched());
    outcome.outputs_untouched =
        std::all_of(outputs.begin(), outputs.end(), [](const Operand* output) { return output->untouched(); });
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
    const int64_t sink = call.sink ? 1 : 0;  // its score is 0 as well
    std::vector<float> max, sum;
    std::map<float, int64_t> outputs;  // how many rows have which output
    const auto add_entry = [&](int64_t keys) {
        const bool empty = keys == 0 && sink == 0;
        max.insert(max.end(), 8, empty ? -FLT_MAX : 0.0F);
        sum.insert(sum.end(), 8, empty ? FLT_MAX : keys == kNoKeys ? 0.0F : static_cast<float>(keys + sink));
        const float share = keys > 0 ? static_cast<float>(keys) / static_cast<float>(keys + sink) : 0.0F;
        outputs[call.drop_mask ? share / static_cast<float>(call.keep_prob) : share]++;
    };
    const bool in_token_order =
        call.softmax_out_layout != nullptr && std::strcmp(call.softmax_out_layout, "same_as_input") == 0;
    for (int64_t s = 0; s < static_cast<int64_t>(q_lengths.size()); s++) {
        const int64_t entries = heads * q_lengths[s];
        for (int64_t i = 0; i < entries; i++) {
            add_entry(in_token_order ? visible(s, i % heads, i / heads)
                                     : visible(s, i / q_lengths[s], i % q_lengths[s]));
        }
    }
    EXPECT_EQ(outcome.max, max);
    EXPECT_EQ(outcome.sum, sum);
    const auto features = static_cast<int64_t>(outcome.out.size() * 8 / std::max<size_t>(sum.size(), 1));
    // Without a sink and dropout all of these numbers are exact. Otherwise a quotient and a product are rounded, and
    // the output to its type, which has at least 8 bits.
    const float slack = sink > 0 || call.drop_mask ? (call.out->dtype == ACL_FLOAT ? 1e-6F : 1.0F / 128) : 0.0F;
    int64_t found = 0;
    for (const auto& entry : outputs) {
        const float expected = entry.first;
        const int64_t count = std::count_if(outcome.out.begin(), outcome.out.end(),
                                            [=](float x) { return std::fabs(x - expected) <= slack * expected; });
        EXPECT_EQ(count, entry.second * features) << "outputs that are " << expected;
        found += count;
    }
    EXPECT_EQ(found, static_cast<int64_t>(outcome.out.size()));
}

void expect_counts_in(const std::vector<Version>& versions, Call call, const std::vector<int64_t>& q_lengths,
                      const VisibleKeys& visible) {
    ASSERT_FALSE(versions.empty());
    for (const Version version : versions) {
        call.version = version;
        SCOPED_TRACE(call.name());
        expect_counts(call, q_lengths, call.head_num, visible);
    }
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

std::ostream& operator<<(std::ostream& stream, const Mistake& mistake) {
    return stream << mistake.id << ": " << mistake.sentence;
}

void expect_all_refused(const std::vector<Version>& versions, Call (*make_call)(),
                        std::initializer_list<Mistake> mistakes) {
    ASSERT_FALSE(versions.empty());
    for (const Version version : versions) {
        for (const Mistake& mistake : mistakes) {
            Call call = make_call();
            mistake.make(call);
            call.version = version;
            SCOPED_TRACE(::testing::Message() << call.name() << ' ' << mistake);
            expect_refused(call, mistake.code, mistake.sentence);
            // The process works on, and the text of the failure does not outlive the next success.
            call = make_call();
            call.version = version;
            const Outcome good = run(call);
            EXPECT_EQ(good.code, 0) << good.text;
            EXPECT_EQ(good.text, "");
            EXPECT_EQ(good.unwritten, 0);
        }
    }
}

void expect_order(Call (*legal)(), const std::vector<Mistake>& mistakes) {
    for (size_t first = 0; first < mistakes.size(); first++) {
        SCOPED_TRACE(mistakes[first]);
        Call call = legal();
        for (size_t i = mistakes.size(); i-- > first;) mistakes[i].make(call);
        expect_refused(call, mistakes[first].code, mistakes[first].sentence);
    }
    const Outcome good = run(legal());
    EXPECT_EQ(good.code, 0) << good.text;
}

}  // namespace flash_attention::testing
