// Calls of the operators that visit every element once, which can be timed again and again: dropout masks and the ring
// update.
#pragma once

#include <cstdint>
#include <vector>

#include "clock.h"
#include "device.h"

namespace fusion_bench {

// A mask of `bits` bits, a multiple of 128.
class MaskRun {
  public:
    explicit MaskRun(int64_t bits);
    // Seconds of phase two; phase one comes before.
    double run(Clock clock) const;
    // A random number of 32 bits stands behind every bit.
    double random_bytes() const { return 4.0 * static_cast<double>(bits_); }

  private:
    int64_t bits_;
    DeviceMemory out_;
};

// One step of a ring, "SBH" with batch 1.
class RingRun {
  public:
    RingRun(aclDataType dtype, int64_t rows, int64_t heads, int64_t dim);
    double run(Clock clock) const;
    // Read and written.
    double bytes() const;

  private:
    enum Part { kPrevious, kCurrent, kMerged, kPartCount };
    aclDataType dtype_;
    int64_t rows_, heads_, dim_;
    std::vector<DeviceMemory> out_, max_, sum_;  // by Part
};

}  // namespace fusion_bench
