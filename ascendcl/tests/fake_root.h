// A made-up tree of /proc and /sys for what reads the machine.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

class FakeRoot : public ::testing::Test {
  protected:
    void SetUp() override {
        root_ = std::filesystem::path(::testing::TempDir()) / ("ascendcl_root_" + std::to_string(getpid()));
        std::filesystem::remove_all(root_);
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    // `path` as the machine has it, "/proc/self/cgroup".
    void write(const std::string& path, const std::string& content) {
        const std::filesystem::path file = root_.string() + path;
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file) << content;
    }

    std::filesystem::path root_;
};
