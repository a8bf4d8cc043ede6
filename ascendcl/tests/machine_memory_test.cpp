// The figures of the machine, read from made-up trees.
#include "machine_memory.h"

#include "fake_root.h"

namespace {

// 8 GiB of RAM, 6 GiB of them available.
constexpr std::size_t kTotal = std::size_t{8} << 30;
constexpr std::size_t kAvailable = std::size_t{6} << 30;

class MachineMemoryTest : public FakeRoot {
  protected:
    void SetUp() override {
        FakeRoot::SetUp();
        write("/proc/meminfo",
              "MemTotal:        8388608 kB\nMemFree:          111111 kB\nMemAvailable:    6291456 kB\n");
    }

    void expect(std::size_t total, std::size_t available) {
        const ascendcl::MachineMemory memory = ascendcl::read_machine_memory(root_.string());
        EXPECT_EQ(memory.total, total);
        EXPECT_EQ(memory.available, available);
    }
};

constexpr const char* kMountsV2 = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kMountsV1 =
    "33 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "36 31 0:33 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

TEST_F(MachineMemoryTest, WithoutControlGroups) {
    expect(kTotal, kAvailable);
}

TEST_F(MachineMemoryTest, Version2Limit) {
    write("/proc/self/mountinfo", kMountsV2);
    write("/proc/self/cgroup", "0::/user/job\n");
    write("/sys/fs/cgroup/user/job/memory.max", "1000000\n");
    write("/sys/fs/cgroup/user/job/memory.current", "400000\n");
    write("/sys/fs/cgroup/user/job/memory.stat", "anon 300000\nfile 100000\ninactive_file 50000\nactive_file 50000\n");
    expect(1000000, 650000);
}

TEST_F(MachineMemoryTest, Version2LimitOfAParent) {
    write("/proc/self/mountinfo", kMountsV2);
    write("/proc/self/cgroup", "0::/user/job\n");
    write("/sys/fs/cgroup/user/job/memory.max", "max\n");
    write("/sys/fs/cgroup/user/memory.max", "2000000\n");
    write("/sys/fs/cgroup/user/memory.current", "500000\n");
    expect(2000000, 1500000);
}

TEST_F(MachineMemoryTest, Version2InsideAContainer) {
    write("/proc/self/mountinfo", kMountsV2);
    write("/proc/self/cgroup", "0::/\n");
    write("/sys/fs/cgroup/memory.max", "3000000\n");
    write("/sys/fs/cgroup/memory.current", "1000000\n");
    expect(3000000, 2000000);
}

TEST_F(MachineMemoryTest, Version1Limit) {
    write("/proc/self/mountinfo", kMountsV1);
    write("/proc/self/cgroup", "7:cpu,cpuacct:/other\n5:memory:/docker/abc\n0::/init.scope\n");
    write("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "4000000\n");
    write("/sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "1000000\n");
    write("/sys/fs/cgroup/memory/docker/abc/memory.stat", "inactive_file 1\ntotal_inactive_file 200000\n");
    write("/sys/fs/cgroup/memory/other/memory.limit_in_bytes", "1\n");
    expect(4000000, 3200000);
}

// The path is the host's, the container sees only its own group at the mount; whether the mount says so or not.
TEST_F(MachineMemoryTest, Version1InsideAContainer) {
    write("/proc/self/cgroup", "5:cpuset,memory:/docker/abc\n");
    write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "5000000\n");
    write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "6000000\n");
    for (const std::string top : {"/", "/docker/abc", "/elsewhere"}) {
        write("/proc/self/mountinfo",
              "35 31 0:32 " + top + " /sys/fs/cgroup/memory rw - cgroup cgroup rw,cpuset,memory\n");
        expect(5000000, 0);
    }
}

TEST_F(MachineMemoryTest, Version1WithoutLimit) {
    write("/proc/self/mountinfo", kMountsV1);
    write("/proc/self/cgroup", "5:memory:/\n");
    write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "123456\n");
    expect(kTotal, kAvailable);
}

// What is mounted somewhere else than usual, or not at all.
TEST_F(MachineMemoryTest, TheMountCounts) {
    write("/proc/self/cgroup", "0::/job\n");
    write("/sys/fs/cgroup/job/memory.max", "1\n");
    write("/run/groups/job/memory.max", "1000000\n");
    expect(kTotal, kAvailable);
    write("/proc/self/mountinfo", "31 23 0:28 / /run/groups rw - cgroup2 none rw\n");
    expect(1000000, 1000000);
}

// Without a line of the process itself the mount point is all that is known to be above it.
TEST_F(MachineMemoryTest, LinesThatMakeNoSense) {
    write("/proc/self/mountinfo", "\nnonsense\n1 2 - cgroup2\n" + std::string(kMountsV2));
    write("/proc/self/cgroup", "\nnonsense\n1:memory\n0::relative\n:::\n");
    write("/sys/fs/cgroup/relative/memory.max", "1\n");
    write("/sys/fs/cgroup/memory.max", "7000000\n");
    expect(7000000, 7000000);
}

TEST_F(MachineMemoryTest, WithoutProc) {
    std::filesystem::remove_all(root_);
    const ascendcl::MachineMemory memory = ascendcl::read_machine_memory(root_.string());
    EXPECT_EQ(memory.total,
              static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
    EXPECT_GT(memory.available, 0U);
    EXPECT_LE(memory.available, memory.total);
}

}  // namespace
