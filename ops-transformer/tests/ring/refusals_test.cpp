// Calls of the ring update with one mistake: the code and the exact sentence. Numbers name entries of the list of known
// mistakes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "draw_results.h"

namespace ring_attention_update::testing {
namespace {

struct Mistake {
    const char* id;
    std::function<void(RingCall&)> make;
    std::string sentence;
    aclnnStatus code = 161002;
};

RingCall sbh() {
    return sbh_call();  // out [3, 2, 32], statistics [2, 4, 3, 8]
}
RingCall tnd() {
    return tnd_call();  // out [8, 4, 8], statistics [8, 4, 8], ends 0, 3, 8
}

void expect_all_refused(RingCall (*make_call)(), const std::vector<Mistake>& mistakes, bool only_v2 = false) {
    for (const bool v2 : {false, true}) {
        if (!v2 && only_v2) continue;
        for (const Mistake& mistake : mistakes) {
            RingCall call = make_call();
            call.v2 = v2;
            SCOPED_TRACE(fmt::format("{} {}", call.name(), mistake.id));
            mistake.make(call);
            const RingResult result = run(call);
            expect_refusal(result, call.name(), mistake.code, mistake.sentence);
            EXPECT_TRUE(result.untouched);
        }
        RingCall call = make_call();
        call.v2 = v2;
        EXPECT_EQ(run(call).phase_two, 0) << "after all these";
    }
}

// 8.1, in the order in which they are told.
TEST(RingRefusals, Pointers) {
    struct Pointer {
        const char* name;
        std::function<void(RingCall&)> clear;
    };
    const auto tensor = [](const char* name, int i) {
        return Pointer{name, [i](RingCall& c) { c.tensors[i].reset(); }};
    };
    const Pointer pointers[] = {tensor("prevAttnOut", kPrevOut),
                                tensor("prevSoftmaxMax", kPrevMax),
                                tensor("prevSoftmaxSum", kPrevSum),
                                tensor("curAttnOut", kCurOut),
                                tensor("curSoftmaxMax", kCurMax),
                                tensor("curSoftmaxSum", kCurSum),
                                {"executor", [](RingCall& c) { c.null_executor = true; }},
                                {"workspaceSize", [](RingCall& c) { c.null_workspace_size = true; }},
                                tensor("attnOutOut", kOut),
                                tensor("softmaxMaxOut", kMax),
                                tensor("softmaxSumOut", kSum)};
    std::vector<Mistake> mistakes;
    for (const Pointer& pointer : pointers)
        mistakes.push_back({pointer.name, pointer.clear, std::string(pointer.name) + " cannot be nullptr", 161001});
    expect_all_refused(sbh, mistakes);
    expect_all_refused(tnd, mistakes);
    RingCall call = sbh();
    call.layout = "neither";  // pointers come first
    for (size_t i = std::size(pointers); i-- > 0;) {
        pointers[i].clear(call);
        expect_refusal(run(call), call.name(), 161001, std::string(pointers[i].name) + " cannot be nullptr");
    }
}

TEST(RingRefusals, Lists) {
    const std::string missing = "actualSeqQlenOptional cannot be nullptr for inputLayout \"TND\"";
    expect_all_refused(
        tnd, {
                 {"8.2", [](RingCall& c) { c.tensors[kEnds].reset(); }, missing, 161001},
                 {"8.2 empty", [](RingCall& c) { c.tensors[kEnds]->shape = {0}; }, missing, 161001},
                 {"type", [](RingCall& c) { c.tensors[kEnds] = TensorSpec{.shape = {3}, .dtype = ACL_INT32}; },
                  "actualSeqQlenOptional dtype INT32: expected INT64"},
                 {"two dimensions",
                  [](RingCall& c) {
                      c.tensors[kEnds]->shape = {1, 3};
                  },
                  "actualSeqQlenOptional shape [1, 3]: expected one dimension"},
                 {"no data", [](RingCall& c) { c.tensors[kEnds]->without_data = true; },
                  "actualSeqQlenOptional has shape [3], but its data address is nullptr"},
             });
    expect_all_refused(tnd,
                       {{"8.2 with statistics by token",
                         [](RingCall& c) {
                             c.softmax_layout = "TND";
                             c.tensors[kEnds].reset();
                         },
                         missing, 161001}},
                       true);
}

// Only phase two can read the entries.
TEST(RingRefusals, EntriesOfTheList) {
    struct Entries {
        std::vector<int64_t> ends;
        std::string sentence;
    };
    for (const Entries& bad :
         {Entries{{0, 3, 7}, "actualSeqQlenOptional must end with T: last entry 7, T is 8"},
          Entries{{0, 3, 9}, "actualSeqQlenOptional entry 2 is 9, but T is 8"},
          Entries{{0, 5, 3}, "actualSeqQlenOptional is not non-decreasing: entry 2 is 3 after 5"},
          Entries{{3, 8, 0}, "actualSeqQlenOptional is not non-decreasing: entry 2 is 0 after 8"},
          Entries{{-1, 3, 8}, "actualSeqQlenOptional entry 0 is -1: expected 0 or more"},
          Entries{{0, 0, 0}, "actualSeqQlenOptional must end with T: last entry 0, T is 8"},
          Entries{{0, INT64_MAX, 8}, "actualSeqQlenOptional entry 1 is 9223372036854775807, but T is 8"}}) {
        for (const bool v2 : {false, true}) {
            for (const char* softmax_layout : {"", "SBH"}) {
                if (!v2 && *softmax_layout != 0) continue;
                RingCall call = tnd();
                call.v2 = v2;
                call.softmax_layout = softmax_layout;
                call.ends = bad.ends;
                const RingResult result = run(call);
                EXPECT_EQ(result.phase_one, 0);
                expect_refusal(result, call.name(), 561000, bad.sentence, 2);
                EXPECT_TRUE(result.untouched);
            }
        }
    }
}

TEST(RingRefusals, Layouts) {
    const std::string end = " is not supported: expected \"SBH\" or \"TND\"";
    expect_all_refused(sbh, {
                                {"BSH", [](RingCall& c) { c.layout = "BSH"; }, "inputLayoutOptional \"BSH\"" + end},
                                {"empty", [](RingCall& c) { c.layout = ""; }, "inputLayoutOptional \"\"" + end},
                                {"NTD", [](RingCall& c) { c.layout = "NTD"; }, "inputLayoutOptional \"NTD\"" + end},
                            });
    const std::string softmax_end = " is not supported: expected \"\", \"SBH\" or \"TND\"";
    const std::vector<Mistake> softmax = {
        {"8.6", [](RingCall& c) { c.softmax_layout = "NTD"; }, "inputSoftmaxLayoutOptional \"NTD\"" + softmax_end},
        {"8.6 of the attention operators", [](RingCall& c) { c.softmax_layout = "same_as_input"; },
         "inputSoftmaxLayoutOptional \"same_as_input\"" + softmax_end},
    };
    expect_all_refused(sbh, softmax, true);
    expect_all_refused(tnd, softmax, true);
}

TEST(RingRefusals, Types) {
    const std::vector<Mistake> mistakes = {
        {"8.4", [](RingCall& c) { c.tensors[kCurOut]->dtype = ACL_FLOAT16; },
         "prevAttnOut and curAttnOut must have the same dtype: got FLOAT, FLOAT16"},
        {"integers",
         [](RingCall& c) {
             c.tensors[kPrevOut]->dtype = c.tensors[kCurOut]->dtype = c.tensors[kOut]->dtype = ACL_INT32;
         },
         "prevAttnOut dtype INT32 is not supported: expected FLOAT16, BFLOAT16 or FLOAT"},
        {"8.4 output", [](RingCall& c) { c.tensors[kOut]->dtype = ACL_BF16; },
         "attnOutOut dtype BFLOAT16 must equal prevAttnOut dtype FLOAT"},
        {"statistics in half precision", [](RingCall& c) { c.tensors[kCurSum]->dtype = ACL_FLOAT16; },
         "curSoftmaxSum dtype FLOAT16 is not supported: expected FLOAT"},
        {"statistics as doubles", [](RingCall& c) { c.tensors[kMax]->dtype = ACL_DOUBLE; },
         "softmaxMaxOut dtype DOUBLE is not supported: expected FLOAT"},
        {"format", [](RingCall& c) { c.tensors[kCurOut]->format = ACL_FORMAT_FRACTAL_NZ; },
         "curAttnOut format FRACTAL_NZ is not supported: expected ND"},
    };
    expect_all_refused(sbh, mistakes);
    expect_all_refused(tnd, mistakes);
}

TEST(RingRefusals, Shapes) {
    expect_all_refused(sbh, {
                                {"8.3",
                                 [](RingCall& c) {
                                     c.tensors[kPrevMax]->shape = {3, 4, 8};
                                 },
                                 "prevSoftmaxMax has 3 dimensions [3, 4, 8], but inputLayout \"SBH\" needs 4"},
                                {"4-D outputs",
                                 [](RingCall& c) {
                                     c.tensors[kPrevOut]->shape = {3, 2, 4, 8};
                                 },
                                 "prevAttnOut has 4 dimensions [3, 2, 4, 8], but inputLayout \"SBH\" needs 3"},
                                {"8.3 without the eight copies",
                                 [](RingCall& c) {
                                     c.tensors[kCurMax]->shape = {2, 4, 3, 1};
                                 },
                                 "curSoftmaxMax shape [2, 4, 3, 1]: expected [2, 4, 3, 8]"},
                                {"rows",
                                 [](RingCall& c) {
                                     c.tensors[kSum]->shape = {2, 4, 2, 8};
                                 },
                                 "softmaxSumOut shape [2, 4, 2, 8]: expected [2, 4, 3, 8]"},
                                {"output",
                                 [](RingCall& c) {
                                     c.tensors[kOut]->shape = {3, 2, 16};
                                 },
                                 "attnOutOut shape [3, 2, 16]: expected [3, 2, 32]"},
                                {"current",
                                 [](RingCall& c) {
                                     c.tensors[kCurOut]->shape = {4, 2, 32};
                                 },
                                 "curAttnOut shape [4, 2, 32]: expected [3, 2, 32]"},
                                {"heads",
                                 [](RingCall& c) {
                                     set_shapes(c, {3, 2, 30}, {2, 4, 3, 8});
                                 },
                                 "last dimension 30 of prevAttnOut is not a multiple of the 4 heads of prevSoftmaxMax"},
                                {"no rows",
                                 [](RingCall& c) {
                                     set_shapes(c, {0, 2, 32}, {2, 4, 0, 8});
                                 },
                                 "prevAttnOut shape [0, 2, 32] has no elements"},
                                {"no heads",
                                 [](RingCall& c) {
                                     set_shapes(c, {3, 2, 32}, {2, 0, 3, 8});
                                 },
                                 "prevSoftmaxMax shape [2, 0, 3, 8] has no elements"},
                            });
    expect_all_refused(
        tnd, {
                 {"8.3",
                  [](RingCall& c) {
                      c.tensors[kSum]->shape = {1, 8, 4, 8};
                  },
                  "softmaxSumOut has 4 dimensions [1, 8, 4, 8], but inputLayout \"TND\" needs 3"},
                 {"8.3 heads first",
                  [](RingCall& c) {
                      c.tensors[kPrevSum]->shape = {4, 8, 8};
                  },
                  "prevSoftmaxSum shape [4, 8, 8]: expected [8, 4, 8]"},
                 {"storage", [](RingCall& c) { c.tensors[kCurOut]->storage = {100}; },
                  "curAttnOut view exceeds its storage: needs element 255, storage has 100"},
                 {"data", [](RingCall& c) { c.tensors[kMax]->without_data = true; },
                  "softmaxMaxOut has shape [8, 4, 8], but its data address is nullptr"},
                 {"overlap",
                  [](RingCall& c) {
                      c.tensors[kOut]->strides = {0, 8, 1};
                  },
                  "attnOutOut view has overlapping elements, so it cannot be an output: shape [8, 4, 8], strides [0, "
                  "8, 1]"},
             });
}

// 8.5, 4.2, and lists where nobody looks at them.
TEST(RingRefusals, LegalCalls) {
    RingCall call = tnd_call(DType::kFp16, {0, 3, 8}, 300, 7);
    EXPECT_EQ(run(call).phase_two, 0) << "any number of heads and features";
    call.layout = "tnd";
    EXPECT_EQ(run(call).phase_two, 0);
    call = sbh();
    call.tensors[kEnds] = TensorSpec{.shape = {2, 2}};
    call.softmax_layout = "TND";
    const RingResult result = run(call);
    EXPECT_EQ(result.phase_two, 0) << result.text;
}

TEST(RingRefusals, KernelsThatThereAreNot) {
    const char* set = std::getenv("ASCEND_CPU_ISA");
    const std::string before = set == nullptr ? "" : set;  // an empty name is the best table
    setenv("ASCEND_CPU_ISA", "neon", 1);
    const RingResult result = run(sbh());
    setenv("ASCEND_CPU_ISA", before.c_str(), 1);
    EXPECT_EQ(result.phase_one, 561000);
    EXPECT_NE(result.text.find("\"neon\""), std::string::npos) << result.text;
    EXPECT_TRUE(result.untouched);
    EXPECT_EQ(run(sbh()).phase_two, 0) << "afterwards";
}

}  // namespace
}  // namespace ring_attention_update::testing
