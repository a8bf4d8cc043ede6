// The figures of the machine, read from made-up trees of /proc and /sys.
#include "machine_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace {

namespace fs = std::filesystem;

// 8 GiB of RAM, 6 GiB of them available.
constexpr std::size_t kTotal = std::size_t{8} << 30;
constexpr std::size_t kAvailable = std::size_t{6} << 30;

class MachineMemoryTest : public ::testing::Test {
  protected:
    void SetUp() override {
        root_ = fs::path(::testing::TempDir()) / ("ascendcl_machine_" + std::to_string(getpid()));
        fs::remove_all(root_);
        write("proc/meminfo",
              "MemTotal:        8388608 kB\nMemFree:          111111 kB\nMemAvailable:    6291456 kB\n");
    }
    void TearDown() override { fs::remove_all(root_); }

    void write(const std::string& path, const std::string& content) {
        fs::create_directories((root_ / path).parent_path());
        std::ofstream(root_ / path) << content;
    }

    void expect(std::size_t total, std::size_t available) {
        const ascendcl::MachineMemory memory = ascendcl::read_machine_memory(root_.string());
        EXPECT_EQ(memory.total, total);
        EXPECT_EQ(memory.available, available);
    }

    fs::path root_;
};

TEST_F(MachineMemoryTest, WithoutControlGroups) {
    expect(kTotal, kAvailable);
}

TEST_F(MachineMemoryTest, Version2Limit) {
    write("proc/self/cgroup", "0::/user/job\n");
    write("sys/fs/cgroup/user/job/memory.max", "1000000\n");
    write("sys/fs/cgroup/user/job/memory.current", "400000\n");
    write("sys/fs/cgroup/user/job/memory.stat", "anon 300000\nfile 100000\ninactive_file 50000\nactive_file 50000\n");
    expect(1000000, 650000);
}

TEST_F(MachineMemoryTest, Version2LimitOfAParent) {
    write("proc/self/cgroup", "0::/user/job\n");
    write("sys/fs/cgroup/user/job/memory.max", "max\n");
    write("sys/fs/cgroup/user/memory.max", "2000000\n");
    write("sys/fs/cgroup/user/memory.current", "500000\n");
    expect(2000000, 1500000);
}

TEST_F(MachineMemoryTest, Version2InsideAContainer) {
    write("proc/self/cgroup", "0::/\n");
    write("sys/fs/cgroup/memory.max", "3000000\n");
    write("sys/fs/cgroup/memory.current", "1000000\n");
    expect(3000000, 2000000);
}

TEST_F(MachineMemoryTest, Version1Limit) {
    write("proc/self/cgroup", "7:cpu,cpuacct:/other\n5:memory:/docker/abc\n0::/init.scope\n");
    write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "4000000\n");
    write("sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "1000000\n");
    write("sys/fs/cgroup/memory/docker/abc/memory.stat", "inactive_file 1\ntotal_inactive_file 200000\n");
    expect(4000000, 3200000);
}

// The path is the host's, the container sees only its own group at the mount.
TEST_F(MachineMemoryTest, Version1InsideAContainer) {
    write("proc/self/cgroup", "5:cpuset,memory:/docker/abc\n");
    write("sys/fs/cgroup/memory/memory.limit_in_bytes", "5000000\n");
    write("sys/fs/cgroup/memory/memory.usage_in_bytes", "6000000\n");
    expect(5000000, 0);
}

TEST_F(MachineMemoryTest, Version1WithoutLimit) {
    write("proc/self/cgroup", "5:memory:/\n");
    write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    write("sys/fs/cgroup/memory/memory.usage_in_bytes", "123456\n");
    expect(kTotal, kAvailable);
}

TEST_F(MachineMemoryTest, LinesThatMakeNoSense) {
    write("proc/self/cgroup", "\nnonsense\n1:memory\n0::relative\n:::\n");
    write("sys/fs/cgroup/memory.max", "1\n");
    write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1\n");
    expect(kTotal, kAvailable);
}

TEST_F(MachineMemoryTest, WithoutProc) {
    fs::remove_all(root_);
    const ascendcl::MachineMemory memory = ascendcl::read_machine_memory(root_.string());
    EXPECT_EQ(memory.total,
              static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
    EXPECT_GT(memory.available, 0U);
    EXPECT_LE(memory.available, memory.total);
}

}  // namespace
