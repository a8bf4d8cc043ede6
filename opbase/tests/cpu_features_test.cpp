#include "opbase/cpu_features.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace {

// The kernel's own view of the first processor; it leaves out what it does not save on a context switch.
std::string cpuinfo_value(const std::string& key) {
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);) {
        if (line.compare(0, key.size(), key) == 0) return line.substr(std::min(line.size(), line.find(':') + 2));
    }
    return "";
}

TEST(CpuFeatures, AgreeWithTheKernel) {
    std::istringstream words(cpuinfo_value("flags"));
    std::set<std::string> flags;
    for (std::string word; words >> word;) flags.insert(word);
    const auto has = [&](std::initializer_list<const char*> names) {
        for (const char* name : names) {
            if (flags.count(name) == 0) return false;
        }
        return true;
    };
    const opbase::CpuFeatures& features = opbase::cpu_features();
#if defined(__x86_64__)
    ASSERT_FALSE(flags.empty());
    const bool avx512 = has({"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"});
    EXPECT_EQ(features.avx2, has({"avx", "avx2", "fma", "f16c"}));
    EXPECT_EQ(features.avx512, avx512);
    EXPECT_EQ(features.avx512_bf16, avx512 && has({"avx512_bf16"}));
    EXPECT_EQ(features.model, cpuinfo_value("model name"));
#else
    EXPECT_FALSE(features.avx2);
    EXPECT_FALSE(features.avx512);
    EXPECT_FALSE(features.avx512_bf16);
#endif
}

TEST(CpuFeatures, AreReadOnce) {
    EXPECT_EQ(&opbase::cpu_features(), &opbase::cpu_features());
}

}  // namespace
