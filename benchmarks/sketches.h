// Kernels that were written and measured before the operator, one head at a time. They are no part of this repository:
// where a folder with them is at hand, they are compiled and loaded while the benchmark runs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "prepared_case.h"
#include "sketch_head.h"

namespace fusion_bench {

class Sketches {
  public:
    // Compiles and loads the kernels that match `table`. Throws std::runtime_error with what is missing.
    Sketches(const std::string& folder, const std::string& table);
    Sketches(const Sketches&) = delete;
    Sketches& operator=(const Sketches&) = delete;
    ~Sketches();

    // Whether they can compute the case and do so with the instructions of the operator.
    bool can(const flash_attention::testing::Case& c) const;

    void forward(const FusionSketchHead& head) const { forward_(&head); }

  private:
    std::string table_;
    void* library_ = nullptr;
    decltype(&fusion_sketch_forward) forward_ = nullptr;
};

// A case that is prepared for the operator as heads for the sketches, with the same inputs.
class SketchCase {
  public:
    SketchCase(const Sketches& sketches, const PreparedCase& prepared);

    // Seconds for all heads.
    double run();

    // The largest distance to the operator's output, which must have run before.
    double largest_difference() const;

  private:
    const Sketches& sketches_;
    const PreparedCase& prepared_;
    DeviceMemory out_, max_, sum_;
    std::vector<FusionSketchHead> heads_;
};

}  // namespace fusion_bench
