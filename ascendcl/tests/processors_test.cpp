// How many threads the process should use: its quota, read from made-up trees, the setting, the affinity mask.
#include "ascendcl/processors.h"

#include <sched.h>

#include <string>

#include "fake_root.h"
#include "support.h"
#include "thread_limits.h"

namespace {

class QuotaTest : public FakeRoot {
  protected:
    int limit() const { return ascendcl::quota_processors(root_.string()); }
};

constexpr const char* kMountsV2 =
    "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
    "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kMountsV1 =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "35 31 0:32 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
    "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n";

TEST_F(QuotaTest, WithoutFilesThereIsNoLimit) {
    EXPECT_EQ(limit(), 0);
}

TEST_F(QuotaTest, Version2) {
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

TEST_F(QuotaTest, TheTightestLimitOfTheParentsCounts) {
    write("/proc/self/mountinfo", kMountsV2);
    write("/proc/self/cgroup", "0::/user/job\n");
    write("/sys/fs/cgroup/user/job/cpu.max", "800000 100000\n");
    write("/sys/fs/cgroup/user/cpu.max", "200000 100000\n");
    EXPECT_EQ(limit(), 2);
    write("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    EXPECT_EQ(limit(), 1);
}

TEST_F(QuotaTest, Version1) {
    write("/proc/self/mountinfo", kMountsV1);
    write("/proc/self/cgroup", "8:cpuset:/other\n4:cpu,cpuacct:/job\n0::/\n");
    write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "50000\n");
    write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    EXPECT_EQ(limit(), 0);
    write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "200000\n");
    EXPECT_EQ(limit(), 4);
}

// A container that shares the host's cgroup names, but has only its own group mounted.
TEST_F(QuotaTest, MountOfAPart) {
    write("/proc/self/mountinfo", "33 31 0:30 /docker/12ab /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n");
    write("/proc/self/cgroup", "4:cpu:/docker/12ab\n");
    write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "600000\n");
    EXPECT_EQ(limit(), 6);
    for (const char* group : {"/elsewhere", "/docker/12abc", "/", "/docker"}) {
        write("/proc/self/cgroup", std::string("4:cpu:") + group + "\n");
        EXPECT_EQ(limit(), 6) << group << ": what is mounted is all there is to see";
    }
    write("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    write("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "300000\n");
    write("/proc/self/cgroup", "4:cpu:/docker/12ab/job\n");
    EXPECT_EQ(limit(), 3);
}

TEST_F(QuotaTest, BrokenFilesMeanNoLimit) {
    write("/proc/self/mountinfo", "\nnot a mount line\n1 2 - cgroup2\n" + std::string(kMountsV2));
    write("/proc/self/cgroup", "nonsense\n0::/job\n");
    for (const char* text : {"", "x", "-5 100000", "0 100000", "100000", "100000 0", "100000 -1"}) {
        write("/sys/fs/cgroup/job/cpu.max", text);
        EXPECT_EQ(limit(), 0) << '"' << text << '"';
    }
}

TEST(ThreadSetting, WholeNumbers) {
    std::string problem;
    EXPECT_EQ(ascendcl::parse_thread_setting("1", &problem), 1);
    EXPECT_EQ(ascendcl::parse_thread_setting("8", &problem), 8);
    EXPECT_EQ(ascendcl::parse_thread_setting("1024", &problem), 1024);
    EXPECT_EQ(ascendcl::parse_thread_setting(nullptr, &problem), 0);
    EXPECT_EQ(ascendcl::parse_thread_setting("", &problem), 0);
    EXPECT_EQ(problem, "");
}

TEST(ThreadSetting, OtherValuesAreExplained) {
    for (const char* text : {"0", "-1", "1025", "abc", "4x", "2.5", " 4", "+4", "99999999999999999999"}) {
        std::string problem;
        EXPECT_EQ(ascendcl::parse_thread_setting(text, &problem), 0) << text;
        EXPECT_EQ(problem,
                  "ASCEND_CPU_THREADS is \"" + std::string(text) + "\": expected a whole number from 1 to 1024");
    }
}

TEST(AvailableProcessors, FollowTheAffinityMask) {
    cpu_set_t before;
    ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
    EXPECT_GE(ascendcl::available_processors(), 1);
    EXPECT_LE(ascendcl::available_processors(), CPU_COUNT(&before));
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++) {
        if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(ascendcl::available_processors(), 1);
    ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

}  // namespace
