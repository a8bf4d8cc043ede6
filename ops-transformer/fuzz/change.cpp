// One change of a call, mostly a mistake.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "any_call_fields.h"
#include "recipe.h"

namespace flash_attention::fuzzing {
namespace {

using testing::List;
using testing::Tensor;
using testing::TensorSpec;

// Small numbers of both signs, and those at which something in the operator or in arithmetic changes. Numbers between
// 2^13 and 2^31 are left out: as a batch they make tables of gigabytes, which is legal.
int64_t number(uint8_t choice) {
    constexpr int64_t kOthers[] = {
        255,
        256,
        257,
        768,
        769,
        1023,
        1024,
        1025,
        2047,
        2048,
        2049,
        3072,
        std::numeric_limits<int32_t>::max(),
        std::numeric_limits<int32_t>::min(),
        int64_t{1} << 32,
        int64_t{1} << 40,
        int64_t{1} << 47,
        (int64_t{1} << 47) + 1,
        int64_t{1} << 60,
        (int64_t{1} << 60) + 1,
        -(int64_t{1} << 60) - 1,
        int64_t{1} << 62,
        std::numeric_limits<int64_t>::max(),
        std::numeric_limits<int64_t>::max() - 1,
        std::numeric_limits<int64_t>::min(),
        std::numeric_limits<int64_t>::min() + 1,
    };
    if (choice < 96) return choice;
    if (choice < 128) return 95 - choice;
    return kOthers[choice % std::size(kOthers)];
}

// Elements from the start of the storage to the last of the view; 0 when that cannot be counted.
int64_t needed(const TensorSpec& tensor) {
    double last = static_cast<double>(tensor.offset);
    double step = 1;
    for (size_t i = tensor.shape.size(); i-- > 0; step *= static_cast<double>(tensor.shape[i])) {
        const double stride = tensor.strides.empty() ? step : static_cast<double>(tensor.strides[i]);
        last += (static_cast<double>(tensor.shape[i]) - 1) * stride;
    }
    return last >= 0 && last < 1e9 ? static_cast<int64_t>(last) + 1 : 0;
}

void make_strides_explicit(TensorSpec& tensor) {
    if (!tensor.strides.empty()) return;
    tensor.strides.resize(tensor.shape.size());
    uint64_t step = 1;  // may wrap for shapes that no tensor can have
    for (size_t i = tensor.shape.size(); i-- > 0; step *= static_cast<uint64_t>(tensor.shape[i])) {
        tensor.strides[i] = static_cast<int64_t>(step);
    }
}

void change_rank(const Change& change, TensorSpec& tensor) {
    make_strides_explicit(tensor);
    if (change.index % 2 == 0 && !tensor.shape.empty()) {
        tensor.shape.pop_back();
        tensor.strides.pop_back();
    } else {
        tensor.shape.insert(tensor.shape.begin(), change.index / 2 % 18, number(change.value));
        tensor.strides.insert(tensor.strides.begin(), change.index / 2 % 18, 0);
    }
}

void change_tensor(const Change& change, TensorSpec& tensor) {
    const size_t axis = tensor.shape.empty() ? 0 : change.index % tensor.shape.size();
    switch (static_cast<ChangeKind>(change.kind % kChangeKindCount)) {
        case ChangeKind::kDimension:
            if (!tensor.shape.empty()) tensor.shape[axis] = number(change.value);
            break;
        case ChangeKind::kStride:
            make_strides_explicit(tensor);
            if (!tensor.shape.empty()) tensor.strides[axis] = number(change.value);
            break;
        case ChangeKind::kRank:
            change_rank(change, tensor);
            break;
        case ChangeKind::kOffset:
            tensor.offset = number(change.value);
            break;
        case ChangeKind::kDtype:
            tensor.dtype = static_cast<aclDataType>(number(change.value));
            break;
        case ChangeKind::kFormat:
            tensor.format = static_cast<aclFormat>(number(change.value));
            break;
        case ChangeKind::kStorage:
            tensor.storage = {change.index < 128 ? std::max<int64_t>(needed(tensor) + change.index % 16 - 8, 0)
                                                 : number(change.value)};
            break;
        case ChangeKind::kNoData:
            tensor.without_data = true;
            break;
        default:
            break;
    }
}

// Fields that a version cannot pass stay unused, which does no harm.
Tensor& tensor_of(const Change& change, Call& call) {
    if (change.argument >= 128)
        return call.*testing::kGradTensors[change.argument % std::size(testing::kGradTensors)].from;
    return call.*testing::kTensors[change.argument % std::size(testing::kTensors)].from;
}

void change_list(const Change& change, List& list) {
    if (!list) list.emplace();
    if (static_cast<ChangeKind>(change.kind % kChangeKindCount) == ChangeKind::kListEntry) {
        if (!list->empty()) (*list)[change.index % list->size()] = number(change.value);
        return;
    }
    switch (change.index % 4) {
        case 0:
            list->push_back(number(change.value));
            break;
        case 1:
            if (!list->empty()) list->pop_back();
            break;
        case 2:
            list->clear();
            break;
        default:
            list.reset();
    }
}

void change_integer(const Change& change, Call& call) {
    constexpr int64_t Call::*kIntegers[] = {&Call::head_num,      &Call::pre,       &Call::next,
                                            &Call::inner_precise, &Call::pse_type,  &Call::sparse_mode,
                                            &Call::seed,          &Call::out_dtype, &Call::offset};
    call.*kIntegers[change.argument % std::size(kIntegers)] = number(change.value);
}

void change_real(const Change& change, Call& call) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double reals[] = {std::nan(""), kInfinity, -kInfinity, 0.0,   -0.0,   1e-46, 1e300,
                            1e39,         3.4e38,    -3.4e38,    1e-38, 1.0001, 1.0,   2.0};
    (change.argument % 2 == 0 ? call.scale : call.keep_prob) = reals[change.value % std::size(reals)];
}

void change_text(const Change& change, FuzzCall& result) {
    constexpr const char* kTexts[] = {"BNSD", "BSND", "BSH", "SBH", "TND", "NTD", "", "same_as_input", "BNSDX"};
    const bool statistics = change.argument % 2 == 1;
    std::string& text = statistics ? result.softmax_out_layout : result.layout;
    const char*& pointer = statistics ? result.call.softmax_out_layout : result.call.layout;
    text = kTexts[change.value % std::size(kTexts)];
    if (change.index % 8 == 1) text.assign(300, static_cast<char>(change.value));
    pointer = change.index % 8 == 2 ? nullptr : text.c_str();
}

}  // namespace

void apply(const Change& change, FuzzCall& result) {
    Call& call = result.call;
    switch (static_cast<ChangeKind>(change.kind % kChangeKindCount)) {
        case ChangeKind::kNoTensor:
            tensor_of(change, call).reset();
            break;
        case ChangeKind::kNewTensor: {
            Tensor& tensor = tensor_of(change, call);
            if (!tensor) tensor = TensorSpec{.shape = std::vector<int64_t>(change.index % 5, change.value % 8)};
            break;
        }
        case ChangeKind::kListEntry:
        case ChangeKind::kListLength:
            change_list(change, call.*testing::kLists[change.argument % std::size(testing::kLists)].from);
            break;
        case ChangeKind::kInteger:
            change_integer(change, call);
            break;
        case ChangeKind::kReal:
            change_real(change, call);
            break;
        case ChangeKind::kText:
            change_text(change, result);
            break;
        case ChangeKind::kNullResult:
            (change.argument % 2 == 0 ? call.null_workspace_size : call.null_executor) = true;
            break;
        default:
            if (Tensor& tensor = tensor_of(change, call)) change_tensor(change, *tensor);
    }
}

}  // namespace flash_attention::fuzzing
