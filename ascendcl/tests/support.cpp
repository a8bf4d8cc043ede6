#include "support.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

std::string take_errors() {
    const char* const text = aclGetRecentErrMsg();
    return text == nullptr ? "" : text;
}

namespace {

// Whether `text` starts with something of the form `pattern`, in which '#' stands for a digit and '+' for any further
// digits. Moves behind it.
bool skip(std::string_view& text, std::string_view pattern) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    for (const char expected : pattern) {
        if (expected == '+') {
            while (!text.empty() && is_digit(text.front())) text.remove_prefix(1);
            continue;
        }
        if (text.empty() || (expected == '#' ? !is_digit(text.front()) : text.front() != expected)) return false;
        text.remove_prefix(1);
    }
    return true;
}

}  // namespace

void expect_failure(aclError code, aclError expected, std::initializer_list<std::string_view> parts) {
    EXPECT_EQ(code, expected);
    const std::string text = take_errors();
    std::string_view rest = text;
    EXPECT_TRUE(skip(rest, "[PID:#+] ####-##-##-##:##:##.###.### Runtime_Error(EE9999): acl")) << '"' << text << '"';
    EXPECT_EQ(rest.find('\n'), std::string_view::npos) << "more than one text:\n" << text;
    EXPECT_NE(rest.find(": "), std::string_view::npos) << text << "\nlacks the name of the function";
    for (const std::string_view part : parts) {
        EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks " << part;
    }
}

namespace {

std::string read_all(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string make_file() {
    const std::string pattern = ::testing::TempDir() + "ascendcl_scenario_XXXXXX";
    std::vector<char> path(pattern.c_str(), pattern.c_str() + pattern.size() + 1);
    const int file = mkstemp(path.data());
    EXPECT_GE(file, 0) << std::strerror(errno);
    close(file);
    return path.data();
}

std::string scenario_program() {
    char path[4096];
    const ssize_t size = readlink("/proc/self/exe", path, sizeof(path));
    const std::string self(path, size > 0 ? static_cast<std::size_t>(size) : 0);
    return self.substr(0, self.rfind('/') + 1) + "ascendcl_scenarios";
}

std::string quoted(const std::string& text) {
    std::string result = "'";
    for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return result + "'";
}

}  // namespace

Outcome run_scenario(const std::string& scenario, const Environment& environment,
                     const std::vector<std::string>& arguments) {
    const std::string output = make_file();
    const std::string errors = make_file();
    std::string command =
        "env -u ASCEND_CPU_DEVICES -u ASCEND_RT_VISIBLE_DEVICES -u ASCEND_CPU_SOC -u ASCEND_CPU_LOG -u "
        "ASCEND_CPU_THREADS";
    for (const auto& [name, value] : environment) command += " " + name + "=" + quoted(value);
    command += " timeout -s KILL 60 " + quoted(scenario_program()) + " " + quoted(scenario);
    for (const std::string& argument : arguments) command += " " + quoted(argument);
    command += " >" + quoted(output) + " 2>" + quoted(errors);
    const int status = std::system(command.c_str());
    Outcome outcome;
    outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    outcome.output = read_all(output);
    outcome.errors = read_all(errors);
    unlink(output.c_str());
    unlink(errors.c_str());
    return outcome;
}
