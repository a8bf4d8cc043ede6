// The choice of the kernel table by ASCEND_CPU_ISA, as a caller sees it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "testing/backward_judge.h"

namespace flash_attention::testing {
namespace {

// Sets the variable for the length of a test and puts back what the run came with.
class Isa {
  public:
    Isa() {
        if (const char* text = std::getenv("ASCEND_CPU_ISA")) before_ = text;
    }
    ~Isa() { set(before_); }
    void set(const std::string& name) { setenv("ASCEND_CPU_ISA", name.c_str(), 1); }

  private:
    std::string before_;
};

const Call& call() {
    static const Call kCall = make_call(parse_case("layout=BSND dtype=fp32 n=2 d=16 q=9 kv=70 seed=3"));
    return kCall;
}

const BackwardCall& backward_call() {
    static const BackwardCall kCall = make_backward_call(call());
    return kCall;
}

template <class Prepared, class Described>
void expect_unknown_names_refused(const Described& described) {
    Isa isa;
    for (const char* name : {"neon", "AVX2", "avx2 ", "portable,avx2"}) {
        isa.set(name);
        Prepared prepared(described);
        EXPECT_EQ(prepared.phase_one(), 561000) << name;
        const std::string text = aclGetRecentErrMsg();
        EXPECT_NE(text.find('"' + std::string(name) + '"'), std::string::npos) << text;
        EXPECT_NE(text.find("\"portable\""), std::string::npos) << "what there is; " << text;
        EXPECT_EQ(prepared.executor(), nullptr);
        EXPECT_EQ(prepared.workspace_size(), 0U);
    }
}

TEST(Tables, UnknownNameIsRefusedInPhaseOne) {
    expect_unknown_names_refused<PreparedCall>(call());
    expect_unknown_names_refused<PreparedBackward>(backward_call());
}

TEST(Tables, CallsWorkAgainAfterARefusal) {
    Isa isa;
    isa.set("portable");
    const Outputs expected = run(call()).outputs;
    isa.set("nothing like it");
    EXPECT_EQ(run(call()).phase_one, 561000);
    isa.set("portable");
    const RunResult result = run(call());
    EXPECT_EQ(result.phase_one, 0) << result.error_text;
    EXPECT_TRUE(result.outputs == expected);
}

// The plan and its workspace belong to the table of phase one, so that phase two does not look again.
template <class Prepared, class Described, class Results>
void expect_table_of_phase_one(const Described& described, Results results) {
    Isa isa;
    isa.set("portable");
    Prepared first(described);
    ASSERT_EQ(first.phase_one(), 0);
    ASSERT_EQ(first.phase_two(), 0);
    Prepared second(described);
    ASSERT_EQ(second.phase_one(), 0);
    isa.set("nothing like it");
    EXPECT_EQ(second.phase_two(), 0);
    EXPECT_TRUE(results(first) == results(second));
}

TEST(Tables, PhaseTwoRunsTheTableOfPhaseOne) {
    expect_table_of_phase_one<PreparedCall>(call(), [](const PreparedCall& p) { return p.outputs(); });
    expect_table_of_phase_one<PreparedBackward>(backward_call(), [](const PreparedBackward& p) { return p.gradients(); });
}

TEST(Tables, EmptyNameIsTheBestTable) {
    Isa isa;
    isa.set("");
    const RunResult result = run(call());
    EXPECT_EQ(result.phase_one, 0) << result.error_text;
    EXPECT_EQ(lines(judge(call(), reference::score(call().arguments), result.outputs)), "");
}

}  // namespace
}  // namespace flash_attention::testing
