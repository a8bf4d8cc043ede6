#include "elementwise.h"

#include <functional>
#include <numeric>

#include "aclnnop/aclnn_dropout_gen_mask.h"
#include "aclnnop/aclnn_ring_attention_update.h"

namespace fusion_bench {
namespace {

TensorView packed(const DeviceMemory& memory, aclDataType dtype, const Shape& shape) {
    const int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    return {memory, dtype, shape, packed_strides(shape), 0, count};
}

// Phase two and the stream, timed. These operators need no workspace for tensors without gaps.
template <class PhaseTwo>
double time_phase_two(PhaseTwo phase_two, const Plan& plan, Clock clock) {
    const double begin = clock();
    check(phase_two(nullptr, plan.workspace_size, plan.executor, nullptr), "phase two");
    return clock() - begin;
}

constexpr int64_t kCopies = 8;

}  // namespace

MaskRun::MaskRun(int64_t bits) : bits_(bits), out_(static_cast<size_t>(bits / 8)) {
    const std::vector<uint8_t> piece(size_t{1} << 16);  // written once, so that the memory exists
    out_.fill(piece.data(), piece.size());
}

double MaskRun::run(Clock clock) const {
    const TensorView out = packed(out_, ACL_UINT8, {bits_ / 8});
    aclIntArray* shape = aclCreateIntArray(&bits_, 1);
    Plan plan;
    // The operator does not change the description, but its prototype says so.
    const int status = aclnnDropoutGenMaskGetWorkspaceSize(shape, 0.1, 1, 2, const_cast<aclTensor*>(out.get()),
                                                           &plan.workspace_size, &plan.executor);
    aclDestroyIntArray(shape);
    check(status, "aclnnDropoutGenMaskGetWorkspaceSize");
    return time_phase_two(aclnnDropoutGenMask, plan, clock);
}

RingRun::RingRun(aclDataType dtype, int64_t rows, int64_t heads, int64_t dim)
    : dtype_(dtype), rows_(rows), heads_(heads), dim_(dim) {
    const std::vector<float> ones(size_t{1} << 14, 1.0F);  // of any type a number
    for (int part = 0; part < kPartCount; part++) {
        out_.emplace_back(static_cast<size_t>(rows * heads * dim) * aclDataTypeSize(dtype));
        max_.emplace_back(static_cast<size_t>(rows * heads * kCopies) * sizeof(float));
        sum_.emplace_back(max_.back().bytes());
        for (const DeviceMemory* memory : {&out_.back(), &max_.back(), &sum_.back()})
            memory->fill(ones.data(), ones.size() * sizeof(float));
    }
}

double RingRun::bytes() const {
    return static_cast<double>(kPartCount) * static_cast<double>(out_[0].bytes() + 2 * max_[0].bytes());
}

double RingRun::run(Clock clock) const {
    const Shape statistics = {1, heads_, rows_, kCopies}, result = {rows_, 1, heads_ * dim_};
    std::vector<TensorView> out, max, sum;
    for (int part = 0; part < kPartCount; part++) {
        out.push_back(packed(out_[part], dtype_, result));
        max.push_back(packed(max_[part], ACL_FLOAT, statistics));
        sum.push_back(packed(sum_[part], ACL_FLOAT, statistics));
    }
    Plan plan;
    check(aclnnRingAttentionUpdateGetWorkspaceSize(out[kPrevious].get(), max[kPrevious].get(), sum[kPrevious].get(),
                                                   out[kCurrent].get(), max[kCurrent].get(), sum[kCurrent].get(),
                                                   nullptr, nullptr, out[kMerged].get(), max[kMerged].get(),
                                                   sum[kMerged].get(), &plan.workspace_size, &plan.executor),
          "aclnnRingAttentionUpdateGetWorkspaceSize");
    return time_phase_two(aclnnRingAttentionUpdate, plan, clock);
}

}  // namespace fusion_bench
