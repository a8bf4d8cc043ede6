#include "elementwise.h"

#include <fmt/format.h>

#include <functional>
#include <numeric>

#include "aclnnop/aclnn_dropout_gen_mask.h"
#include "aclnnop/aclnn_ring_attention_update.h"
#include "opbase/parallel.h"
#include "peak.h"
#include "testing/call_memory.h"

namespace fusion_bench {
namespace {

namespace testing = flash_attention::testing;

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
constexpr int kSumArrays = 3;
constexpr size_t kSumPiece = size_t{1} << 14;  // elements that a thread takes at a time

}  // namespace

std::string to_string(const ElementwiseCase& c) {
    if (const auto* ring = std::get_if<RingCase>(&c))
        return fmt::format("operator=ring layout=SBH dtype={} n={} d={} q={}", testing::name_of(ring->dtype),
                           ring->heads, ring->dim, ring->rows);
    return fmt::format("operator=dropout bits={}", std::get<DropoutCase>(c).bits);
}

DropoutRun::DropoutRun(int64_t bits) : bits_(bits), out_(static_cast<size_t>(bits / 8)) {
    const std::vector<uint8_t> piece(size_t{1} << 16);  // written once, so that the memory exists
    out_.fill(piece.data(), piece.size());
}

double DropoutRun::run(Clock clock) const {
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

RingRun::RingRun(const RingCase& c) : case_(c) {
    const std::vector<float> ones(size_t{1} << 14, 1.0F);  // of any type a number
    for (int part = 0; part < kPartCount; part++) {
        out_.emplace_back(static_cast<size_t>(c.rows * c.heads * c.dim * testing::element_bytes(c.dtype)));
        max_.emplace_back(static_cast<size_t>(c.rows * c.heads * kCopies) * sizeof(float));
        sum_.emplace_back(max_.back().bytes());
        for (const DeviceMemory* memory : {&out_.back(), &max_.back(), &sum_.back()})
            memory->fill(ones.data(), ones.size() * sizeof(float));
    }
}

double RingRun::bytes() const {
    return static_cast<double>(kPartCount) * static_cast<double>(out_[0].bytes() + 2 * max_[0].bytes());
}

double RingRun::run(Clock clock) const {
    const Shape statistics = {1, case_.heads, case_.rows, kCopies};
    const Shape result = {case_.rows, 1, case_.heads * case_.dim};
    std::vector<TensorView> out, max, sum;
    for (int part = 0; part < kPartCount; part++) {
        out.push_back(packed(out_[part], testing::acl_type(case_.dtype), result));
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

SumRun::SumRun(double bytes) {
    const std::vector<float> ones(kSumPiece, 1.0F);
    const auto pieces = static_cast<size_t>(bytes / kSumArrays / (kSumPiece * sizeof(float))) + 1;
    for (int array = 0; array < kSumArrays; array++) {
        arrays_.emplace_back(pieces * kSumPiece * sizeof(float));
        arrays_.back().fill(ones.data(), kSumPiece * sizeof(float));
    }
}

double SumRun::bytes() const {
    return kSumArrays * static_cast<double>(arrays_[0].bytes());
}

double SumRun::run(Clock clock) const {
    auto piece = [this](int array, int64_t item) {
        return static_cast<float*>(arrays_[array].address()) + item * static_cast<int64_t>(kSumPiece);
    };
    auto body = [&piece](int64_t item, int) { add_arrays(piece(0, item), piece(1, item), piece(2, item), kSumPiece); };
    const auto pieces = static_cast<int64_t>(arrays_[0].bytes() / (kSumPiece * sizeof(float)));
    const int threads = opbase::thread_count();
    const double begin = clock();
    opbase::parallel_for(pieces, threads, body);
    return clock() - begin;
}

}  // namespace fusion_bench
