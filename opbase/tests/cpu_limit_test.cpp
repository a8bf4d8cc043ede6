// The processor limit, read from made-up /proc and cgroup trees.
#include "cpu_limit.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support.h"

namespace {

namespace fs = std::filesystem;

class CpuLimit : public testing::Test {
  protected:
    void SetUp() override {
        root_ = fs::path(testing::TempDir()) / ("cpu_limit_" + std::to_string(getpid()));
        fs::remove_all(root_);
    }
    void TearDown() override { fs::remove_all(root_); }

    void write(const std::string& path, const std::string& text) {
        const fs::path file = root_.string() + path;
        fs::create_directories(file.parent_path());
        std::ofstream(file) << text;
    }
    int limit() const { return opbase::cgroup_processors(root_.string()); }

    fs::path root_;
};

constexpr const char* kMountsV2 =
    "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
    "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kMountsV1 =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "35 31 0:32 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
    "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n";

TEST_F(CpuLimit, WithoutFilesThereIsNoLimit) {
    EXPECT_EQ(limit(), 0);
}

TEST_F(CpuLimit, Version2) {
    write("/proc/self/mountinfo", kMountsV2);
    write("/proc/self/cgroup", "0::/user/job\n");
    write("/sys/fs/cgroup/user/job/cpu.max", "max 100000\n");
    EXPECT_EQ(limit(), 0);
    write("/sys/fs/cgroup/user/job/cpu.max", "300000 100000\n");
    EXPECT_EQ(limit(), 3);
    write("/sys/fs/cgroup/user/job/cpu.max", "150000 100000\n");
    EXPECT_EQ(limit(), 2) << "part of a processor counts as a whole";
    write("/sys/fs/cgroup/user/job/cpu.max", "1000 100000\n");
    EXPECT_EQ(limit(), 1);
}

TEST_F(CpuLimit, TheTightestLimitOfTheParentsCounts) {
    write("/proc/self/mountinfo", kMountsV2);
    write("/proc/self/cgroup", "0::/user/job\n");
    write("/sys/fs/cgroup/user/job/cpu.max", "800000 100000\n");
    write("/sys/fs/cgroup/user/cpu.max", "200000 100000\n");
    EXPECT_EQ(limit(), 2);
    write("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    EXPECT_EQ(limit(), 1);
}

TEST_F(CpuLimit, Version1) {
    write("/proc/self/mountinfo", kMountsV1);
    write("/proc/self/cgroup", "8:cpuset:/other\n4:cpu,cpuacct:/job\n0::/\n");
    write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "50000\n");
    write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    EXPECT_EQ(limit(), 0);
    write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "200000\n");
    EXPECT_EQ(limit(), 4);
}

// A container that shares the host's cgroup names, but has only its own group mounted.
TEST_F(CpuLimit, MountOfAPart) {
    write("/proc/self/mountinfo", "33 31 0:30 /docker/12ab /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n");
    write("/proc/self/cgroup", "4:cpu:/docker/12ab\n");
    write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "600000\n");
    EXPECT_EQ(limit(), 6);
    write("/proc/self/cgroup", "4:cpu:/elsewhere\n");
    EXPECT_EQ(limit(), 6) << "an unknown group: what is mounted is all there is to see";
}

TEST_F(CpuLimit, BrokenFilesMeanNoLimit) {
    write("/proc/self/mountinfo", "\nnot a mount line\n1 2 - cgroup2\n" + std::string(kMountsV2));
    write("/proc/self/cgroup", "nonsense\n0::/job\n");
    for (const char* text : {"", "x", "-5 100000", "0 100000", "100000", "100000 0", "100000 -1"}) {
        write("/sys/fs/cgroup/job/cpu.max", text);
        EXPECT_EQ(limit(), 0) << '"' << text << '"';
    }
}

TEST(ThreadSetting, WholeNumbers) {
    std::string problem;
    EXPECT_EQ(opbase::parse_thread_setting("1", &problem), 1);
    EXPECT_EQ(opbase::parse_thread_setting("8", &problem), 8);
    EXPECT_EQ(opbase::parse_thread_setting("1024", &problem), 1024);
    EXPECT_EQ(opbase::parse_thread_setting(nullptr, &problem), 0);
    EXPECT_EQ(opbase::parse_thread_setting("", &problem), 0);
    EXPECT_EQ(problem, "");
}

TEST(ThreadSetting, OtherValuesAreExplained) {
    for (const char* text : {"0", "-1", "1025", "abc", "4x", "2.5", " 4", "+4", "99999999999999999999"}) {
        std::string problem;
        EXPECT_EQ(opbase::parse_thread_setting(text, &problem), 0) << text;
        EXPECT_EQ(problem,
                  "ASCEND_CPU_THREADS is \"" + std::string(text) + "\": expected a whole number from 1 to 1024");
    }
}

TEST(AvailableProcessors, FollowTheAffinityMask) {
    cpu_set_t before;
    ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
    EXPECT_GE(opbase::available_processors(), 1);
    EXPECT_LE(opbase::available_processors(), CPU_COUNT(&before));
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++) {
        if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(opbase::available_processors(), 1);
    ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

}  // namespace
