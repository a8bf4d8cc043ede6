// Calls of the operators that visit every element once, which can be timed again and again: dropout masks and the ring
// update.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "clock.h"
#include "device.h"
#include "testing/element.h"

namespace fusion_bench {

// One step of a ring, "SBH" with batch 1.
struct RingCase {
    flash_attention::testing::DType dtype;
    int64_t rows, heads, dim;
};
struct DropoutCase {
    int64_t bits;  // a multiple of 128
    double floor;  // bytes of random numbers a second of each thread
};
using ElementwiseCase = std::variant<RingCase, DropoutCase>;

// As a line of words like a problem string, which begins with operator=.
std::string to_string(const ElementwiseCase& c);

class RingRun {
  public:
    explicit RingRun(const RingCase& c);
    // Seconds of phase two; phase one comes before.
    double run(Clock clock) const;
    // Read and written.
    double bytes() const;

  private:
    enum Part { kPrevious, kCurrent, kMerged, kPartCount };
    RingCase case_;
    std::vector<DeviceMemory> out_, max_, sum_;  // by Part
};

class DropoutRun {
  public:
    explicit DropoutRun(int64_t bits);
    double run(Clock clock) const;
    // A random number of 32 bits stands behind every bit.
    double random_bytes() const { return 4.0 * static_cast<double>(bits_); }

  private:
    int64_t bits_;
    DeviceMemory out_;
};

// A plain sum of two arrays into a third, by the threads of the operators: what memory lets a ring update do.
class SumRun {
  public:
    // `bytes` are read and written, as near as whole pieces come to that.
    explicit SumRun(double bytes);
    double run(Clock clock) const;
    double bytes() const;

  private:
    std::vector<DeviceMemory> arrays_;
};

}  // namespace fusion_bench
