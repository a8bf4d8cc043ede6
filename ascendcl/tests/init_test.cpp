// aclInit, aclFinalize and the configuration file. State of the process, so every case is a process.
#include <unistd.h>

#include <fstream>
#include <string>

#include "support.h"

namespace {

// A file that goes with the test.
class ConfigFile {
  public:
    explicit ConfigFile(const std::string& content)
        : path_(::testing::TempDir() + "ascendcl_config_" + std::to_string(getpid()) + "_" + std::to_string(next_++)) {
        std::ofstream(path_) << content;
    }
    ~ConfigFile() { unlink(path_.c_str()); }
    ConfigFile(const ConfigFile&) = delete;
    ConfigFile& operator=(const ConfigFile&) = delete;
    const std::string& path() const { return path_; }

  private:
    static inline int next_ = 0;
    std::string path_;
};

std::string steps(const std::vector<std::string>& arguments) {
    const Outcome outcome = run_scenario("initialisations", {}, arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return outcome.output;
}

TEST(Init, OnceAndEnd) {
    EXPECT_EQ(steps({"i", "f"}), "init 0\nfinalize 0\n");
}

TEST(Init, RepeatedInitSaysThatItCanBeIgnored) {
    const std::string output = steps({"i", "i", "text", "i=no such file", "text"});
    EXPECT_NE(output.find("init 0\ninit 100002\n"), std::string::npos) << output;
    EXPECT_NE(output.find("aclInit: already initialised (call count 2); this code can be ignored"), std::string::npos);
    EXPECT_NE(output.find("aclInit: already initialised (call count 3); this code can be ignored"), std::string::npos)
        << "whatever the argument is";
}

TEST(Init, FinalizeEndsAtOnce) {
    EXPECT_EQ(steps({"i", "i", "f", "f"}), "init 0\ninit 100002\nfinalize 0\nfinalize 100037\n");
}

TEST(Init, RepeatedFinalizeHasAText) {
    EXPECT_NE(steps({"i", "f", "f", "text"}).find("aclFinalize: not initialised, or already finalised"),
              std::string::npos);
}

TEST(Init, FirstFinalizeWithoutInitSucceeds) {
    EXPECT_EQ(steps({"f", "f"}), "finalize 0\nfinalize 100037\n");
}

TEST(Init, ReferenceCounts) {
    EXPECT_EQ(steps({"i", "i", "i", "r", "r", "r", "r"}),
              "init 0\ninit 100002\ninit 100002\nreference 0 2\nreference 0 1\nreference 0 0\nreference 100037 0\n");
    EXPECT_EQ(steps({"r"}), "reference 100037 0\n");
    EXPECT_EQ(steps({"i", "R", "f"}), "init 0\nreference 0\nfinalize 100037\n");
    EXPECT_EQ(steps({"i", "f", "r"}), "init 0\nfinalize 0\nreference 100037 0\n");
}

TEST(Init, AgainAfterTheEnd) {
    EXPECT_EQ(steps({"i", "f", "i", "f", "i", "i"}), "init 0\nfinalize 0\ninit 0\nfinalize 0\ninit 0\ninit 100002\n");
}

TEST(Init, EmptyPathIsNoPath) {
    EXPECT_EQ(steps({"i="}), "init 0\n");
}

TEST(Init, FileThatCannotBeRead) {
    const std::string output = steps({"i=/no/such/file.json", "text", "i=/", "text", "i"});
    EXPECT_NE(output.find("init 100003\ntext [PID:"), std::string::npos) << output;
    EXPECT_NE(output.find("aclInit: configPath \"/no/such/file.json\" cannot be read"), std::string::npos) << output;
    EXPECT_NE(output.find("aclInit: configPath \"/\" cannot be read"), std::string::npos) << output;
    EXPECT_EQ(output.substr(output.size() - 7), "init 0\n") << "a failed aclInit leaves nothing behind";
}

TEST(Init, FileThatIsNoJson) {
    for (const char* const content : {"", "{", "[1, 2]", "text", "{\"err_msg_mode\": \"1\""}) {
        const ConfigFile file(content);
        const std::string output = steps({"i=" + file.path(), "text"});
        EXPECT_EQ(output.rfind("init 100006\n", 0), 0U) << content << '\n' << output;
        EXPECT_NE(output.find("configPath \"" + file.path() + "\""), std::string::npos) << output;
    }
}

TEST(Init, ErrMsgModeIsChecked) {
    for (const char* const mode : {"\"2\"", "1", "null"}) {
        const ConfigFile file(std::string("{\"err_msg_mode\": ") + mode + "}");
        const std::string output = steps({"i=" + file.path(), "text"});
        EXPECT_EQ(output.rfind("init 100006\n", 0), 0U) << output;
        EXPECT_NE(output.find(std::string("err_msg_mode is ") + mode), std::string::npos) << output;
    }
}

TEST(Init, OtherEntriesAreNotRead) {
    const ConfigFile file(R"({"dump": {"dump_mode": "all"}, "max_opqueue_num": "x", "profiler": []})");
    EXPECT_EQ(steps({"i=" + file.path(), "f"}), "init 0\nfinalize 0\n");
    const ConfigFile empty("{}");
    EXPECT_EQ(steps({"i=" + empty.path(), "f"}), "init 0\nfinalize 0\n");
}

TEST(Init, ConfigurationStaysForTheProcess) {
    const ConfigFile first("{}");
    const ConfigFile same("{}");
    const ConfigFile other("{ }");
    const std::string output =
        steps({"i=" + first.path(), "f", "i=" + same.path(), "f", "i=" + other.path(), "text", "i"});
    EXPECT_EQ(output.rfind("init 0\nfinalize 0\ninit 0\nfinalize 0\ninit 100000\n", 0), 0U) << output;
    EXPECT_NE(output.find("differs from the configuration of the first aclInit"), std::string::npos) << output;
    EXPECT_EQ(output.substr(output.size() - 7), "init 0\n");
}

TEST(Init, ErrorTextsOfTheThreadByDefault) {
    const ConfigFile thread(R"({"err_msg_mode": "0"})");
    for (const std::vector<std::string>& arguments : {std::vector<std::string>{}, {thread.path()}}) {
        EXPECT_EQ(run_scenario("error_scope", {}, arguments).output, "init 0\ntext (none)\ntext (none)\ntext (none)\n");
    }
}

TEST(Init, ErrorTextsOfTheProcess) {
    const ConfigFile process(R"({"err_msg_mode": "1"})");
    const Outcome outcome = run_scenario("error_scope", {}, {process.path()});
    EXPECT_EQ(outcome.output.rfind("init 0\ntext [PID:", 0), 0U) << outcome.output;
    EXPECT_NE(outcome.output.find("aclrtFree: devPtr cannot be nullptr\ntext (none)\ntext (none)\n"), std::string::npos)
        << outcome.output << "\na success of this thread clears neither more nor less than its own texts";
}

}  // namespace
