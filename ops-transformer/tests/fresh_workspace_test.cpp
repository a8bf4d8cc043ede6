// A workspace that was allocated just now costs its page faults, once, and no page that is not used: phase two neither
// gives memory back and takes it again, nor clears what it does not need.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <string>

#include "opbase/parallel.h"
#include "testing/backward_runner.h"
#include "testing/runner.h"

namespace flash_attention::testing {
namespace {

constexpr uint64_t kPage = 4096;
// Stacks, the heap's bookkeeping and lazily bound symbols; far less than any workspace here.
constexpr uint64_t kOtherPages = 32;

// Memory of which no page was touched yet.
class FreshMemory {
  public:
    explicit FreshMemory(uint64_t bytes) : bytes_(bytes) {
        data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT_NE(data_, MAP_FAILED);
        madvise(data_, bytes, MADV_NOHUGEPAGE);  // so that a fault is a page
    }
    ~FreshMemory() { munmap(data_, bytes_); }
    FreshMemory(const FreshMemory&) = delete;
    FreshMemory& operator=(const FreshMemory&) = delete;
    void* data() const { return data_; }

  private:
    uint64_t bytes_;
    void* data_;
};

uint64_t page_faults() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<uint64_t>(usage.ru_minflt);
}

// Runs the call in a workspace that earlier calls used, then in a fresh one.
template <class Prepared, class Call>
void expect_faults_once(const Call& call) {
    for (const bool warm : {true, false}) {
        Prepared prepared(call);
        ASSERT_EQ(prepared.phase_one(), 0) << error_text();
        const uint64_t bytes = prepared.workspace_size();
        ASSERT_GT(bytes, kOtherPages * kPage * 2) << "too small to tell";
        if (warm) {
            ASSERT_EQ(prepared.phase_two(), 0) << error_text();
            continue;
        }
        const FreshMemory fresh(bytes);
        const uint64_t before = page_faults();
        ASSERT_EQ(phase_two(prepared.version(), fresh.data(), bytes, prepared.executor(), stream()), 0) << error_text();
        EXPECT_LE(page_faults() - before, (bytes + kPage - 1) / kPage + kOtherPages) << bytes << " bytes";
    }
}

const char* const kCases[] = {
    "layout=BNSD dtype=fp32 n=4/2 d=128 q=512 kv=512",
    "layout=BSH dtype=fp16 n=4 d=64 q=700 kv=2600 mode=3 mask=compressed",
    "layout=TND dtype=bf16 n=2 d=64 q=300,40 kv=4500,70 drop=exact keep=0.7",
};

class FreshWorkspace : public ::testing::TestWithParam<const char*> {
  protected:
    void TearDown() override { opbase::set_thread_count(0); }
};

TEST_P(FreshWorkspace, FaultsInOnceForForward) {
    for (const int threads : {1, 4}) {
        opbase::set_thread_count(threads);
        expect_faults_once<PreparedCall>(make_call(parse_case(GetParam())));
    }
}

TEST_P(FreshWorkspace, FaultsInOnceForBackward) {
    for (const int threads : {1, 4}) {
        opbase::set_thread_count(threads);
        expect_faults_once<PreparedBackward>(make_backward_call(parse_case(std::string("pass=backward ") + GetParam())));
    }
}

INSTANTIATE_TEST_SUITE_P(Calls, FreshWorkspace, ::testing::ValuesIn(kCases));

}  // namespace
}  // namespace flash_attention::testing
