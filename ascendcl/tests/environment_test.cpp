// The variables that the runtime reads, and its log.
#include <string>

#include "ascendcl/processors.h"
#include "support.h"

namespace {

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

std::size_t count_of(const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
}

TEST(Environment, OneDeviceByDefault) {
    const Outcome outcome = run_scenario("devices");
    EXPECT_TRUE(contains(outcome.output, "code 0\ncount 1\nset -1 107001\n")) << outcome.output;
    EXPECT_TRUE(
        contains(outcome.output, "aclrtSetDevice: deviceId -1 is out of range, valid 0..0\nset 0 0\nset 1 107001\n"));
    EXPECT_TRUE(contains(outcome.output, "aclrtSetDevice: deviceId 1 is out of range, valid 0..0\n"));
}

TEST(Environment, DeviceCount) {
    const Outcome outcome = run_scenario("devices", {{"ASCEND_CPU_DEVICES", "3"}});
    EXPECT_TRUE(contains(outcome.output, "count 3\n"));
    EXPECT_TRUE(contains(outcome.output, "set 0 0\nset 1 0\nset 2 0\nset 3 107001\n")) << outcome.output;
    EXPECT_TRUE(contains(outcome.output, "deviceId 3 is out of range, valid 0..2"));
    EXPECT_TRUE(contains(outcome.output, "peer 0\ncan 1\n"));
}

TEST(Environment, BadDeviceCountIsReported) {
    for (const char* const value : {"0", "-1", "65", "many", "2x", "1.5", " 2", "99999999999999999999"}) {
        const Outcome outcome = run_scenario("devices", {{"ASCEND_CPU_DEVICES", value}});
        EXPECT_TRUE(contains(outcome.output, "count 1\n")) << value;
        EXPECT_TRUE(contains(outcome.errors, std::string("ASCEND_CPU_DEVICES is \"") + value +
                                                 "\": expected a number from 1 to 64; using 1"))
            << outcome.errors;
    }
}

TEST(Environment, VisibleDevices) {
    const auto count = [](const char* visible) {
        const Outcome outcome =
            run_scenario("devices", {{"ASCEND_CPU_DEVICES", "4"}, {"ASCEND_RT_VISIBLE_DEVICES", visible}});
        EXPECT_FALSE(contains(outcome.errors, "VISIBLE")) << outcome.errors;
        const std::size_t at = outcome.output.find("count ");
        return at == std::string::npos ? outcome.output : outcome.output.substr(at + 6, 1);
    };
    EXPECT_EQ(count("0,2"), "2");
    EXPECT_EQ(count("3"), "1");
    EXPECT_EQ(count("3,2,1,0"), "4");
    EXPECT_EQ(count(""), "4");
}

TEST(Environment, BadVisibleDevicesAreReported) {
    const struct {
        const char* visible;
        const char* count;
        const char* entry;
    } cases[] = {{"1,4,0", "count 1\n", "\"4\""}, {"1,1", "count 1\n", "\"1\""}, {"-1", "count 0\n", "\"-1\""},
                 {"0,,1", "count 1\n", "\"\""},   {"x", "count 0\n", "\"x\""},   {"0,", "count 1\n", "\"\""},
                 {"0, 1", "count 1\n", "\" 1\""}};
    for (const auto& [visible, count, entry] : cases) {
        const Outcome outcome =
            run_scenario("devices", {{"ASCEND_CPU_DEVICES", "4"}, {"ASCEND_RT_VISIBLE_DEVICES", visible}});
        EXPECT_TRUE(contains(outcome.output, count)) << visible << '\n' << outcome.output;
        EXPECT_TRUE(contains(outcome.errors, std::string(entry) + " is not a device id from 0 to 3")) << outcome.errors;
    }
}

TEST(Environment, NoVisibleDevice) {
    const Outcome outcome = run_scenario("devices", {{"ASCEND_RT_VISIBLE_DEVICES", "7"}});
    EXPECT_TRUE(contains(outcome.output, "set 0 107001\n")) << outcome.output;
    EXPECT_TRUE(contains(outcome.output, "ASCEND_RT_VISIBLE_DEVICES leaves no device visible")) << outcome.output;
}

TEST(Environment, TwoDevicesShareMemory) {
    const Outcome outcome = run_scenario("two_devices", {{"ASCEND_CPU_DEVICES", "2"}});
    EXPECT_EQ(outcome.output,
              "set 0\nset 0\ndistinct 1\nmalloc 0\nattributes 0\nblock device 1\nset context 0\ndevice 0\n"
              "memset on the other device 0\nfree 0\nreset 0\ncontext of 1 107017\ncontext of 0 0\nenable peer 0\n");
}

TEST(Environment, SocName) {
    EXPECT_EQ(run_scenario("soc_name").output, "soc Ascend910B2\n");
    EXPECT_EQ(run_scenario("soc_name", {{"ASCEND_CPU_SOC", "Ascend910_9391"}}).output, "soc Ascend910_9391\n");
    EXPECT_EQ(run_scenario("soc_name", {{"ASCEND_CPU_SOC", ""}}).output, "soc Ascend910B2\n");
    const Outcome bad = run_scenario("soc_name", {{"ASCEND_CPU_SOC", "A100"}});
    EXPECT_EQ(bad.output, "soc Ascend910B2\n");
    EXPECT_TRUE(contains(bad.errors, "ASCEND_CPU_SOC is \"A100\"")) << bad.errors;
}

TEST(Environment, CoresAreTheThreadsOfOperators) {
    const auto cores = [](const std::string& count) {
        return "code 0\ncores " + count + "\ncode 0\nvector cores " + count + "\n";
    };
    EXPECT_EQ(run_scenario("cores").output, cores(std::to_string(ascendcl::available_processors())));
    EXPECT_EQ(run_scenario("cores", {}, {"pinned"}).output, "pinned 0\n" + cores("1"));
    EXPECT_EQ(run_scenario("cores", {{"ASCEND_CPU_THREADS", "5"}}, {"pinned"}).output, "pinned 0\n" + cores("5"));
    const Outcome bad = run_scenario("cores", {{"ASCEND_CPU_THREADS", "0"}}, {"pinned"});
    EXPECT_EQ(bad.output, "pinned 0\n" + cores("1"));
    EXPECT_EQ(
        count_of(bad.errors, "ASCEND_CPU_THREADS is \"0\": expected a whole number from 1 to 1024; using 1 threads\n"),
        1U)
        << bad.errors;
}

TEST(Log, OffIsSilent) {
    EXPECT_EQ(run_scenario("log", {{"ASCEND_CPU_LOG", "off"}}).errors, "");
}

TEST(Log, ErrorShowsErrorsOnly) {
    const std::string log = run_scenario("log", {{"ASCEND_CPU_LOG", "error"}}).errors;
    EXPECT_TRUE(contains(log, "ERROR")) << log;
    EXPECT_TRUE(contains(log, "Runtime_Error(EE9999): aclrtFree: devPtr cannot be nullptr\n"));
    EXPECT_FALSE(contains(log, "WARN"));
    EXPECT_FALSE(contains(log, "DEBUG"));
}

TEST(Log, WarnIsTheDefault) {
    for (const Environment& environment : {Environment{}, Environment{{"ASCEND_CPU_LOG", "warn"}}}) {
        const std::string log = run_scenario("log", environment).errors;
        EXPECT_EQ(count_of(log, "] a warning\n"), 1U) << log << "each kind once";
        EXPECT_EQ(count_of(log, "] another warning\n"), 1U);
        EXPECT_TRUE(contains(log, "ERROR"));
        EXPECT_FALSE(contains(log, "DEBUG"));
        EXPECT_FALSE(contains(log, "aclrtGetDevice:")) << "asking for the device is no error\n" << log;
    }
}

TEST(Log, DebugTracesCallsWithArgumentsAndCode) {
    const Outcome outcome = run_scenario("log", {{"ASCEND_CPU_LOG", "debug"}});
    const std::string& log = outcome.errors;
    const std::string block = outcome.output.substr(6, outcome.output.size() - 7);
    EXPECT_TRUE(contains(log, "aclrtFree(devPtr=nullptr) = 100000\n")) << log;
    EXPECT_TRUE(contains(log, " -> " + block + ", size=64, policy=2) = 0\n")) << log;
    EXPECT_TRUE(contains(log, "aclInit(configPath=\"no such file\") = 100003\n")) << log;
    EXPECT_TRUE(contains(log, "aclrtFree(devPtr=" + block + ") = 0\n")) << log;
    EXPECT_TRUE(contains(log, "aclrtGetDevice(deviceId=0x") && contains(log, ") = 107002\n")) << log;
    EXPECT_TRUE(contains(log, "aclrtGetDevice: this thread has no context")) << "probes are logged when debugging";
    EXPECT_TRUE(contains(log, "aclGetRecentErrMsg() = nullptr\n")) << log;
}

TEST(Log, UnknownLevelIsReported) {
    const std::string log = run_scenario("log", {{"ASCEND_CPU_LOG", "verbose"}}).errors;
    EXPECT_EQ(count_of(log, "ASCEND_CPU_LOG is \"verbose\": expected off, error, warn or debug; using warn\n"), 1U)
        << log;
    EXPECT_TRUE(contains(log, "] a warning\n"));
}

TEST(Log, FinalizeCountsWhatIsLeft) {
    const std::string log = run_scenario("leave_things_alive", {{"ASCEND_CPU_LOG", "debug"}}).errors;
    // One default context with its stream, and one of each that the scenario made.
    EXPECT_TRUE(contains(log, "still alive are 1 contexts, 2 streams, 1 events, 64 bytes of memory\n")) << log;
}

}  // namespace
