// Kernels that were written and measured before the operator, one head at a time. They are no part of this repository:
// where a folder with them is at hand, they are compiled and loaded while the benchmark runs.
#pragma once

#include <memory>
#include <string>
#include <utility>
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

    using Pass = void (*)(const FusionSketchHead*);
    Pass pass(bool backward) const { return backward ? backward_ : forward_; }

  private:
    std::string table_;
    void* library_ = nullptr;
    Pass forward_ = nullptr, backward_ = nullptr;
};

// A case that is prepared for the operator as heads for the sketches, with the same inputs.
class SketchCase {
  public:
    SketchCase(const Sketches& sketches, const PreparedCase& prepared);

    // Seconds for all heads.
    double run();

    // The largest distance to one of the operator's outputs, which must have run before: relative for numbers above 1,
    // absolute for others.
    double largest_difference() const;

  private:
    void add_heads(const FusionSketchHead& common);
    void read_statistics();

    const PreparedCase& prepared_;
    Sketches::Pass pass_;
    std::vector<std::pair<flash_attention::testing::Argument, DeviceMemory>> outputs_;
    DeviceMemory max_, sum_;
    std::vector<FusionSketchHead> heads_;
};

}  // namespace fusion_bench
