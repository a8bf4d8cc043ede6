// A problem string as a call that can be timed again and again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "clock.h"
#include "device.h"
#include "entry_points.h"
#include "testing/case.h"

namespace fusion_bench {

// Values of ASCEND_CPU_ISA that phase one accepts and the processor can run by itself, the best first.
std::vector<std::string> available_tables();

// What ASCEND_CPU_ISA says, else the best of these tables, which calls use from then on (kernels that are emulated are
// never the best).
std::string choose_table();

// The call with data that is made once, operands where programs have them, in memory of aclrtMalloc, and one workspace.
// Backward gets output and statistics from the forward operator, whatever the case says, because the reference takes
// minutes where the operator takes a second.
class PreparedCase {
  public:
    explicit PreparedCase(const flash_attention::testing::Case& c);

    // Seconds of phase two alone; phase one comes before and makes a new executor. Throws std::runtime_error with the
    // operator's text.
    double run(Clock clock);

    const flash_attention::testing::Case& description() const { return case_; }
    const DeviceMemory& memory(flash_attention::testing::Argument argument) const { return *memory_[argument]; }

  private:
    template <class Call>
    void take(std::shared_ptr<Call> call);

    flash_attention::testing::Case case_;
    std::shared_ptr<void> call_;  // has what the arguments point to
    flash_attention::testing::Version version_{};
    flash_attention::testing::ScoreArguments arguments_;
    std::unique_ptr<DeviceMemory> memory_[flash_attention::testing::kArgumentCount];
    std::unique_ptr<DeviceMemory> workspace_;
};

}  // namespace fusion_bench
