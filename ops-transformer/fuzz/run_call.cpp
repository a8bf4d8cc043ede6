#include "run_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "any_call_fields.h"
#include "memory.h"

namespace flash_attention::fuzzing {
namespace {

using testing::ScoreArguments;
using testing::Version;

// In products of a query and a key feature. Larger runs would take longer than many small ones, which find more; only
// biases of 1024 rows get more time, because dense batches have them for as many rows or not at all.
constexpr double kMostWork = 4e5, kMostWorkOfLongBias = 3e6;
constexpr uint64_t kMostWorkspace = uint64_t{64} << 20;

template <class... Values>
void promise(bool kept, fmt::format_string<Values...> text, Values&&... values) {
    if (kept) return;
    const std::string sentence = fmt::format(text, std::forward<Values>(values)...);
    std::fputs(fmt::format("\nBroken promise: {}\n", sentence).c_str(), stderr);
    std::abort();
}

std::string recent_text() {
    const char* text = aclGetRecentErrMsg();
    return text == nullptr ? "" : text;
}

// The arguments in memory.
class Arguments {
  public:
    explicit Arguments(const FuzzCall& fuzz) : call_(fuzz.call) {
        for (const testing::TensorField& field : testing::kTensors) add(fuzz, field, is_read(field));
        for (const testing::TensorField& field : testing::kGradTensors) {
            if (has_argument(testing::traits(call_.version), field.from)) add(fuzz, field, true);
        }
        for (const testing::ListField& field : testing::kLists) {
            const testing::List& list = call_.*field.from;
            lists_.push_back(list ? aclCreateIntArray(list->data(), list->size()) : nullptr);
            c.*field.to = lists_.back();
        }
        copy_scalars(call_, c);
        clear_outputs();
        for (const TensorMemory& tensor : tensors_) inputs_.push_back(tensor.copy());
    }
    ~Arguments() { destroy_descriptions(); }
    Arguments(const Arguments&) = delete;
    Arguments& operator=(const Arguments&) = delete;

    void destroy_descriptions() {
        for (TensorMemory& tensor : tensors_) tensor.destroy_description();
        for (const aclIntArray*& list : lists_) aclDestroyIntArray(std::exchange(list, nullptr));
    }

    void clear_outputs() {
        for_each([&](size_t i, TensorMemory& tensor) {
            if (is_output(i)) tensor.fill_unwritten();
        });
    }

    bool outputs_untouched() {
        bool all = true;
        for_each([&](size_t i, TensorMemory& tensor) {
            if (is_output(i)) all = all && tensor.is_untouched();
        });
        return all;
    }

    bool outputs_overlap() {
        bool any = false;
        for_each([&](size_t i, TensorMemory& tensor) {
            if (is_output(i) && !is_absent(i)) any = any || tensor.overlaps();
        });
        return any;
    }

    // Names what is wrong, or nothing.
    std::string state_after_run() {
        std::string wrong;
        for_each([&](size_t i, TensorMemory& tensor) {
            const bool right = !is_output(i)  ? tensor.copy() == inputs_[i]
                               : is_absent(i) ? tensor.is_untouched()
                                              : tensor.is_written();
            if (!right) wrong += fmt::format("tensor {} ", i);
        });
        return wrong;
    }

    std::vector<std::vector<std::byte>> outputs() {
        std::vector<std::vector<std::byte>> copies;
        for_each([&](size_t i, TensorMemory& tensor) {
            if (is_output(i)) copies.push_back(tensor.copy());
        });
        return copies;
    }

    // A run needs all memory, and time.
    bool can_run() {
        const bool long_bias =
            call_.real_shift && call_.real_shift->shape.size() == 4 && call_.real_shift->shape[2] == 1024;
        return work() <= (long_bias ? kMostWorkOfLongBias : kMostWork) &&
               std::all_of(tensors_.begin(), tensors_.end(),
                           [](const TensorMemory& tensor) { return tensor.is_complete(); });
    }

    ScoreArguments c;

  private:
    // Compressed masks stand for a pattern, and paddingMask is reserved.
    bool is_read(const testing::TensorField& field) const {
        const bool compressed = call_.sparse_mode >= 2 && call_.sparse_mode != 5;
        return field.from != &testing::Call::padding_mask && !(field.from == &testing::Call::mask && compressed);
    }

    void add(const FuzzCall& fuzz, const testing::TensorField& field, bool is_read) {
        fields_.push_back(field.from);
        TensorMemory& tensor = tensors_.emplace_back(call_.*field.from, is_read);
        c.*field.to = tensor.description();
        const auto number = static_cast<uint32_t>(tensors_.size());
        if (!is_output(number - 1)) tensor.fill(fuzz.content, fuzz.hidden, number);
    }

    bool is_output(size_t i) const { return testing::is_output(fields_[i], call_.backward()); }

    // An output that nobody writes.
    bool is_absent(size_t i) const { return fields_[i] == &testing::Call::softmax_out || !tensors_[i].is_given(); }

    template <class Visit>
    void for_each(Visit visit) {
        for (size_t i = 0; i < tensors_.size(); i++) visit(i, tensors_[i]);
    }

    // An upper bound from the shapes alone: rows of all heads times the longest axis of key times the features.
    double work() const {
        double rows = 1, keys = 1, features = 1;
        if (!call_.max) return 0;  // backward does without where there is nothing to compute
        for (const int64_t size : call_.max->shape) rows *= static_cast<double>(size);
        for (const int64_t size : call_.key->shape) keys = std::max(keys, static_cast<double>(size));
        if (!call_.query->shape.empty()) features += static_cast<double>(call_.query->shape.back());
        return rows / 8 * keys * features;
    }

    const testing::Call& call_;
    std::vector<testing::Tensor testing::Call::*> fields_;  // of the tensors
    std::deque<TensorMemory> tensors_;
    std::vector<const aclIntArray*> lists_;
    std::vector<std::vector<std::byte>> inputs_;
};

void check_refusal(const char* phase, aclnnStatus code) {
    constexpr aclnnStatus kDocumented[] = {161001, 161002, 361001, 561000, 561101, 561103};
    promise(std::count(std::begin(kDocumented), std::end(kDocumented), code) == 1, "{} gives documented codes: {}",
            phase, code);
    promise(!recent_text().empty(), "{} that fails with {} leaves a text", phase, code);
}

// Memory of exactly the size, filled with what would show in results.
struct Workspace {
    Workspace(uint64_t size, uint64_t shift) : bytes(new std::byte[size + shift]), data(bytes.get() + shift) {
        std::memset(bytes.get(), 0xFF, size + shift);
    }
    std::unique_ptr<std::byte[]> bytes;
    void* data;
};

// The refusals that leave an executor as it was.
void refuse_run(const FuzzCall& fuzz, uint64_t size, aclOpExecutor* executor, void* workspace) {
    const Version version = fuzz.call.version;
    switch (fuzz.ending) {
        case Ending::kNoWorkspace: {
            if (size == 0) return;
            const aclnnStatus code = phase_two(version, nullptr, size, executor, nullptr);
            check_refusal("a run without workspace", code);
            promise(code == 161001, "a null workspace is refused with 161001: {}", code);
            return;
        }
        case Ending::kSmallWorkspace: {
            if (size == 0) return;
            const aclnnStatus code = phase_two(version, workspace, size - 1, executor, nullptr);
            check_refusal("a run with a small workspace", code);
            promise(code == 161002, "a small workspace is refused with 161002: {}", code);
            return;
        }
        case Ending::kOtherVersion: {
            const int all = testing::kVersionCount + testing::kGradVersionCount;
            const auto other = static_cast<Version>((static_cast<int>(version) + 1) % all);
            if (std::strcmp(testing::traits(other).name, testing::traits(version).name) == 0) return;
            const aclnnStatus code = phase_two(other, workspace, size, executor, nullptr);
            check_refusal("a run of another version", code);
            promise(code == 161002, "another version refuses with 161002: {}", code);
            return;
        }
        default:
            return;
    }
}

void run_executor(const FuzzCall& fuzz, Arguments& arguments, uint64_t size, aclOpExecutor* executor) {
    const Workspace workspace(size, fuzz.ending == Ending::kUnaligned ? 1 : 0);
    promise(!arguments.outputs_overlap(), "outputs whose elements share places are refused");
    refuse_run(fuzz, size, executor, workspace.data);
    promise(arguments.outputs_untouched(), "a refused run leaves outputs untouched");
    const bool twice = fuzz.ending == Ending::kRunTwice;
    if (twice) promise(aclSetAclOpExecutorRepeatable(executor) == 0, "executors can be repeatable: {}", recent_text());
    const auto run = [&] {
        const aclnnStatus code = phase_two(fuzz.call.version, workspace.data, size, executor, nullptr);
        promise(code == 0, "phase two works after phase one: {} {}", code, recent_text());
        promise(recent_text().empty(), "no text is left after success");
        const std::string wrong = arguments.state_after_run();
        promise(wrong.empty(), "a run writes all of its outputs and nothing else: {}", wrong);
    };
    run();
    if (twice) {
        const auto first = arguments.outputs();
        arguments.clear_outputs();
        run();
        promise(first == arguments.outputs(), "two runs give the same bits");
        promise(aclDestroyAclOpExecutor(executor) == 0, "executors can be destroyed: {}", recent_text());
    }
    if (fuzz.ending == Ending::kUsedUp) {
        const aclnnStatus code = phase_two(fuzz.call.version, workspace.data, size, executor, nullptr);
        check_refusal("a second run", code);
        promise(code == 561000, "a used executor is refused with 561000: {}", code);
    }
}

}  // namespace

void run_call(const FuzzCall& fuzz) {
    Arguments arguments(fuzz);
    recent_text();  // what creating the arguments may have left
    uint64_t size = 12345;
    auto* executor = reinterpret_cast<aclOpExecutor*>(&arguments);
    arguments.c.workspace_size = fuzz.call.null_workspace_size ? nullptr : &size;
    arguments.c.executor = fuzz.call.null_executor ? nullptr : &executor;
    const aclnnStatus code = phase_one(fuzz.call.version, arguments.c);
    promise(arguments.outputs_untouched(), "phase one leaves outputs untouched");
    if (code != 0) {
        check_refusal("phase one", code);
        promise(fuzz.call.null_workspace_size || size == 0, "workspaceSize is 0 after {}: {}", code, size);
        promise(fuzz.call.null_executor || executor == nullptr, "executor is null after {}", code);
        return;
    }
    promise(recent_text().empty(), "no text is left after success");
    promise(executor != nullptr, "success gives an executor");
    const bool runs = fuzz.ending != Ending::kDestroy && size <= kMostWorkspace && arguments.can_run();
    arguments.destroy_descriptions();  // phase one has kept what it needs
    if (runs) {
        run_executor(fuzz, arguments, size, executor);
    } else {
        promise(aclDestroyAclOpExecutor(executor) == 0, "executors can be destroyed: {}", recent_text());
    }
}

}  // namespace flash_attention::fuzzing
