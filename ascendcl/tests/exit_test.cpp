// The end of a process and of a thread: nothing may crash, hang or be called a leak.
#include <string>

#include "support.h"

namespace {

TEST(Exit, WithoutFinalizeWhileAThreadIsInsideACallback) {
    const Outcome outcome = run_scenario("exit_while_working");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_EQ(outcome.output, "query 0\n");
}

TEST(Exit, UseAfterFinalizeAndInStaticDestructors) {
    const Outcome outcome = run_scenario("use_after_the_end");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_EQ(outcome.output.rfind("init 0\nset 0\nmalloc 0\nreset 0\nfinalize 0\nfree 0\ndestroy 0\nlate free 0\n"
                                   "late free 107000\ntext [PID:",
                                   0),
              0U)
        << outcome.output;
    EXPECT_NE(outcome.output.find("was already freed\nlate set 0\nlate malloc 0\nlate free 0\n"), std::string::npos)
        << outcome.output;
}

TEST(Exit, UseInThreadLocalDestructors) {
    const Outcome outcome = run_scenario("use_at_thread_end");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    std::size_t ends = 0;
    for (std::size_t at = outcome.output.find("thread free 100000\ntext [PID:"); at != std::string::npos;
         at = outcome.output.find("thread free 100000\ntext [PID:", at + 1)) {
        ++ends;
    }
    EXPECT_EQ(ends, 3U) << outcome.output;
}

// Under the leak sanitizer the exit code would not be 0.
TEST(Exit, LiveObjectsAreNoLeaks) {
    const Outcome outcome = run_scenario("leave_things_alive");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
}

TEST(Exit, UnknownScenarioFails) {
    EXPECT_EQ(run_scenario("no such scenario").exit_code, 2) << "the harness works";
}

}  // namespace
