// Phase one from end to end: checks, and the run that the executor keeps.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "arguments/checks.h"
#include "arguments/views.h"
#include "dropout_gen_mask/generator/mask_stream.h"
#include "dropout_gen_mask/op_api/mask_request.h"
#include "op_api/planning.h"
#include "opbase/dtype.h"
#include "opbase/error.h"
#include "opbase/executor.h"
#include "opbase/parallel.h"
#include "opbase/tensor.h"

namespace dropout_gen_mask {
namespace {

using opbase::dtype_name;
using opbase::ParameterError;

constexpr int64_t kPaddedBits = 128;  // masks are multiples of it
// Of a work item: some 100 microseconds of random numbers, so that threads share even masks of 1 MiB evenly.
constexpr int64_t kItemBytes = 16384;

// What phase two needs, by value.
struct MaskRun {
    arguments::Views views;
    flash_attention::FillMaskKernel fill = nullptr;
    double prob = 0;
    Precision precision{};
    uint64_t seed = 0, offset = 0;
    aclDataType seed_dtype = ACL_DT_UNDEFINED, offset_dtype = ACL_DT_UNDEFINED;  // of the tensors, if there are any
    int64_t bytes = 0;
    int slots = 1;

    void operator()(const opbase::Launch& launch) const;
    MaskStream stream(const opbase::Launch& launch) const;
    int out_number() const { return seed_dtype == ACL_DT_UNDEFINED ? 0 : 2; }
};

// Sign extension and wrapping are those of the addition modulo 2^64.
uint64_t read_integer(const void* at, aclDataType dtype) {
    if (opbase::element_size(dtype) == 4) {
        uint32_t x;
        std::memcpy(&x, at, sizeof x);
        return dtype == ACL_INT32 ? static_cast<uint64_t>(int64_t{static_cast<int32_t>(x)}) : x;
    }
    uint64_t x;
    std::memcpy(&x, at, sizeof x);
    return x;
}

MaskStream MaskRun::stream(const opbase::Launch& launch) const {
    if (seed_dtype == ACL_DT_UNDEFINED) return make_stream(seed, offset, prob, precision);
    return make_stream(read_integer(views.address(0, launch), seed_dtype),
                       read_integer(views.address(1, launch), offset_dtype) + offset, prob, precision);
}

void MaskRun::operator()(const opbase::Launch& launch) const {
    const MaskStream bits = stream(launch);
    auto* out = static_cast<uint8_t*>(views.address(out_number(), launch));
    const int64_t items = (bytes + kItemBytes - 1) / kItemBytes;
    opbase::parallel_for(items, slots, [&](int64_t item, int) {
        const int64_t begin = item * kItemBytes, count = std::min(kItemBytes, bytes - begin);
        if (bits.keeps_all() || bits.keeps_none()) {
            std::memset(out + begin, bits.keeps_all() ? 0xFF : 0, static_cast<size_t>(count));
        } else {
            fill(bits, 8 * begin, 8 * count, out + begin);
        }
    });
    views.unpack_outputs(launch);
}

// In the order of the signatures.
void check_required(const MaskRequest& request) {
    opbase::require(request.shape, "shape");
    if (opbase::is_absent(request.shape)) {
        throw opbase::OperatorError(opbase::kParamNullptr, "shape cannot be nullptr or empty");
    }
    if (request.from_tensors) {
        opbase::require(request.seed_tensor, "seedTensor");
        opbase::require(request.offset_tensor, "offsetTensor");
    }
    opbase::require(request.out, "out");
    opbase::require(request.workspace_size, "workspaceSize");
    opbase::require(request.executor, "executor");
}

// Bytes of the mask: what out must have.
int64_t mask_bytes(const opbase::Shape& shape) {
    if (std::any_of(shape.begin(), shape.end(), [](int64_t size) { return size < 0; })) {
        throw ParameterError(
            fmt::format("shape {} is not one: its entries must be 0 or more", opbase::to_string(shape)));
    }
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;  // however large the product of the others
    int64_t bits = 1;
    for (const int64_t size : shape) {
        if (!__builtin_mul_overflow(bits, size, &bits) && bits / 8 <= arguments::kAddressSpace) continue;
        throw ParameterError(fmt::format("shape {} has too many elements for a mask", opbase::to_string(shape)));
    }
    return (bits + kPaddedBits - 1) / kPaddedBits * (kPaddedBits / 8);
}

Precision check_precision(aclDataType dtype) {
    if (dtype == ACL_FLOAT) return Precision::kF32;
    if (dtype == ACL_FLOAT16) return Precision::kF16;
    if (dtype == ACL_BF16) return Precision::kBf16;
    throw ParameterError(
        fmt::format("probDataType {} is not supported: expected FLOAT, FLOAT16 or BFLOAT16", dtype_name(dtype)));
}

void check_number_tensor(const char* name, const aclTensor& tensor) {
    const aclDataType dtype = tensor.dtype;
    if (dtype != ACL_INT64 && dtype != ACL_UINT64 && dtype != ACL_INT32 && dtype != ACL_UINT32) {
        throw ParameterError(fmt::format("{} dtype {} is not supported: expected INT64, UINT64, INT32 or UINT32", name,
                                         dtype_name(dtype)));
    }
    if (tensor.count() != 1) {
        throw ParameterError(fmt::format("{} shape {}: expected one element", name, opbase::to_string(tensor.shape)));
    }
    arguments::require_plain_format(name, tensor);
}

// Texts of prob and size are those that programs know from the NPU.
void check_out(const MaskRequest& request, int64_t bytes) {
    const aclTensor& out = *request.out;
    if (out.dtype != ACL_UINT8) {
        throw ParameterError(fmt::format("out dtype {}: expected UINT8", dtype_name(out.dtype)));
    }
    if (!(request.prob >= 0.0 && request.prob <= 1.0)) {
        throw ParameterError(
            fmt::format("The value of prob has to be between 0 and 1, but current is {}", request.prob));
    }
    if (out.count() != bytes) {
        throw ParameterError(fmt::format("Size of out has to be {}, but current is {}", bytes, out.count()));
    }
    arguments::require_plain_format("out", out);
}

opbase::Plan make_plan(const MaskRequest& request) {
    check_required(request);
    MaskRun run;
    run.bytes = mask_bytes(request.shape->values);
    check_out(request, run.bytes);
    run.precision = check_precision(request.prob_dtype);
    if (request.from_tensors) {
        check_number_tensor("seedTensor", *request.seed_tensor);
        check_number_tensor("offsetTensor", *request.offset_tensor);
    }
    run.prob = request.prob;
    run.seed = static_cast<uint64_t>(request.seed);
    run.offset = static_cast<uint64_t>(request.offset);

    if (request.from_tensors) {
        run.seed_dtype = request.seed_tensor->dtype;
        run.offset_dtype = request.offset_tensor->dtype;
        run.views.add_input("seedTensor", request.seed_tensor, arguments::Need::kAnything);
        run.views.add_input("offsetTensor", request.offset_tensor, arguments::Need::kAnything);
    }
    run.views.add_output("out", run.bytes == 0 ? nullptr : request.out, arguments::Need::kContiguous);
    opbase::Plan plan = run.views.plan();
    if (run.bytes == 0) return plan;

    run.fill = flash_attention::plan_with_kernels([] { return flash_attention::kernels().fill_mask; });
    run.slots = opbase::thread_count();
    plan.run = [run = std::make_shared<const MaskRun>(std::move(run))](const opbase::Launch& launch) {
        (*run)(launch);
    };
    return plan;
}

std::string describe(const MaskRequest& request) {
    const auto text_of = [](const aclTensor* tensor) {
        return tensor == nullptr ? "nullptr" : dtype_name(tensor->dtype) + opbase::to_string(tensor->shape);
    };
    return fmt::format("shape={}, prob={}, {}, offset={}, probDataType={}, out={}",
                       request.shape == nullptr ? "nullptr" : opbase::to_string(request.shape->values), request.prob,
                       request.from_tensors ? fmt::format("seedTensor={}, offsetTensor={}",
                                                          text_of(request.seed_tensor), text_of(request.offset_tensor))
                                            : fmt::format("seed={}", request.seed),
                       request.offset, dtype_name(request.prob_dtype), text_of(request.out));
}

}  // namespace

aclnnStatus plan_mask(const MaskRequest& request) noexcept {
    return opbase::plan_operator(
        request.name, request.workspace_size, request.executor, [&] { return make_plan(request); },
        [&] { return describe(request); });
}

}  // namespace dropout_gen_mask
