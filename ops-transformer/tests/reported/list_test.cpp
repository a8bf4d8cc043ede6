// README.md lists every reported situation with the files whose tests carry it; here the list and the sources are held
// against each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace {

const std::filesystem::path kFolder = REPORTED_FOLDER;  // where README.md and the sources are

std::string content_of(const std::filesystem::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Where each id is said to be: names of files, or one word.
std::map<std::string, std::set<std::string>> listed() {
    std::map<std::string, std::set<std::string>> list;
    std::istringstream lines(content_of(kFolder / "README.md"));
    const std::regex row(R"(\| ([A-Z]+-\d+b?) \| ([^|]+) \|.*)");
    for (std::string line; std::getline(lines, line);) {
        std::smatch found;
        if (!std::regex_match(line, found, row)) continue;
        std::istringstream words(found[2]);
        const auto [at, added] = list.emplace(found[1], std::set<std::string>{std::istream_iterator<std::string>(words),
                                                                              std::istream_iterator<std::string>()});
        EXPECT_TRUE(added) << found[1] << " is listed twice";
    }
    return list;
}

// The ids that a source names, with dashes. Names of Python functions are in lower case.
std::set<std::string> ids_in(const std::string& source) {
    static const std::regex id(R"((ALIBI|ASC|CPU|DET|FA|GRAD|MLA|PREFIX|PT|RING|SINK|SOFT|VARLEN)[-_]\d\d?b?)",
                               std::regex::icase);
    std::set<std::string> ids;
    for (std::sregex_iterator at(source.begin(), source.end(), id), end; at != end; ++at) {
        std::string text = at->str();
        std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
        std::replace(text.begin(), text.end(), '_', '-');
        if (text.back() == 'B') text.back() = 'b';
        ids.insert(text);
    }
    return ids;
}

TEST(ReportedList, AgreesWithTheSources) {
    const auto list = listed();
    ASSERT_EQ(list.size(), 98U);
    const std::set<std::string> reasons = {"benchmark", "runtime", "none"};
    std::map<std::string, std::set<std::string>> carried;  // the files that name an id
    for (const std::string folder : {"", "../ring/", "../../python/tests/"}) {
        for (const auto& entry : std::filesystem::directory_iterator(kFolder / folder)) {
            const std::string name = folder + entry.path().filename().string();
            const std::string extension = entry.path().extension().string();
            if ((extension != ".cpp" && extension != ".py") || name == "list_test.cpp") continue;
            for (const std::string& id : ids_in(content_of(entry.path()))) carried[id].insert(name);
        }
    }
    for (const auto& [id, where] : list) {
        if (where.size() == 1 && reasons.count(*where.begin()) == 1) {
            EXPECT_EQ(carried.count(id), 0U) << id << " has a test, but is listed as " << *where.begin();
            continue;
        }
        EXPECT_EQ(carried[id], where) << id;
    }
    for (const auto& [id, files] : carried) EXPECT_EQ(list.count(id), 1U) << id << " is not listed";
}

}  // namespace
