// Rope parts and sinks with one mistake: 161002 and the exact sentence. The legal rope call is TND with the lengths q
// 3, 4 and kv 5, 4 (Tq 7, Tkv 9), N 4/2, D 32, Drope 16, BFLOAT16, with a causal mask. Numbers name entries of the list
// of known mistakes.
#include <gtest/gtest.h>

#include "call.h"

namespace flash_attention::testing {
namespace {

Call dense() {
    return dense_call("BNSD", {.n = 8});
}
Call tnd() {
    return varlen_call({3, 4}, {5, 4}, 8);
}
Call rope() {
    Call call = varlen_call({3, 4}, {5, 4}, 4, 2, 32);
    call.version = Version::kVarLenV3;
    set_dtype(call, ACL_BF16);
    call.query_rope = TensorSpec{.shape = {7, 4, 16}, .dtype = ACL_BF16};
    call.key_rope = TensorSpec{.shape = {9, 2, 16}, .dtype = ACL_BF16};
    call.mask = compressed_mask();
    call.sparse_mode = 3;
    return call;
}

// 3.13
TEST(RefusalsSink, DtypeAndShape) {
    const std::initializer_list<Mistake> mistakes = {
        {"16 bits", [](Call& c) { c.sink = byte_tensor({8}, ACL_BF16); },
         "sinkOptional must be FLOAT with shape [8]: got BFLOAT16 [8]"},
        {"heads of key", [](Call& c) { c.sink = byte_tensor({2}, ACL_FLOAT); },
         "sinkOptional must be FLOAT with shape [8]: got FLOAT [2]"},
        {"two dimensions",
         [](Call& c) {
             c.sink = byte_tensor({1, 8}, ACL_FLOAT);
         },
         "sinkOptional must be FLOAT with shape [8]: got FLOAT [1, 8]"},
        {"double", [](Call& c) { c.sink = byte_tensor({1}, ACL_DOUBLE); },
         "sinkOptional must be FLOAT with shape [8]: got DOUBLE [1]"},
        {"3.12",
         [](Call& c) {
             c.sink = byte_tensor({8}, ACL_FLOAT);
             c.sink->format = ACL_FORMAT_FRACTAL_NZ;
         },
         "sinkOptional format FRACTAL_NZ is not supported: expected ND"},
    };
    expect_all_refused(only(dense_versions(), &VersionTraits::sink), dense, mistakes);
    expect_all_refused(only(tnd_versions(), &VersionTraits::sink), tnd, mistakes);
}

// The names of the rope parts in the signature of a version.
std::string with_names_of(Version version, std::string sentence) {
    if (version != Version::kScoreV4) return sentence;
    for (const std::string part : {"queryRope", "keyRope"}) {
        for (size_t at = sentence.find(part); at != std::string::npos; at = sentence.find(part, at + 1)) {
            sentence.insert(at + part.size(), "Optional");
        }
    }
    return sentence;
}

// 6.18
const Mistake kRopeMistakes[] = {
    {"key part alone", [](Call& c) { c.query_rope.reset(); }, "queryRope cannot be nullptr when keyRope is given"},
    {"query part alone", [](Call& c) { c.key_rope.reset(); }, "keyRope cannot be nullptr when queryRope is given"},
    {"an empty part counts as none", [](Call& c) { c.key_rope->shape = {0}; },
     "keyRope cannot be nullptr when queryRope is given"},
    {"dtype", [](Call& c) { c.query_rope->dtype = ACL_FLOAT16; },
     "queryRope dtype FLOAT16 is not supported: expected BFLOAT16"},
    {"dtype of key", [](Call& c) { c.key_rope->dtype = ACL_FLOAT; },
     "keyRope dtype FLOAT is not supported: expected BFLOAT16"},
    {"dtype of the call", [](Call& c) { set_dtype(c, ACL_FLOAT16); },
     "query dtype FLOAT16 is not supported with queryRope: expected BFLOAT16"},
    {"float everywhere",
     [](Call& c) {
         set_dtype(c, ACL_FLOAT);
         c.query_rope->dtype = c.key_rope->dtype = ACL_BF16;
     },
     "query dtype FLOAT is not supported with queryRope: expected BFLOAT16"},
    {"3.12", [](Call& c) { c.query_rope->format = ACL_FORMAT_FRACTAL_NZ; },
     "queryRope format FRACTAL_NZ is not supported: expected ND"},
    {"3.12 key", [](Call& c) { c.key_rope->format = ACL_FORMAT_FRACTAL_NZ; },
     "keyRope format FRACTAL_NZ is not supported: expected ND"},
    {"wider than the head",
     [](Call& c) {
         c.query_rope->shape = {7, 4, 64};
         c.key_rope->shape = {9, 2, 64};
     },
     "queryRope shape [7, 4, 64]: expected [7, 4, Drope] with 1 <= Drope <= 32"},
    {"no features",
     [](Call& c) {
         c.query_rope->shape = {7, 4, 0};
         c.key_rope->shape = {9, 2, 0};
     },
     "queryRope shape [7, 4, 0]: expected [7, 4, Drope] with 1 <= Drope <= 32"},
    {"other rows",
     [](Call& c) {
         c.query_rope->shape = {9, 4, 16};
     },
     "queryRope shape [9, 4, 16]: expected [7, 4, Drope] with 1 <= Drope <= 32"},
    {"rank",
     [](Call& c) {
         c.query_rope->shape = {7, 64};
     },
     "queryRope shape [7, 64]: expected [7, 4, Drope] with 1 <= Drope <= 32"},
    {"other features",
     [](Call& c) {
         c.key_rope->shape = {9, 2, 8};
     },
     "keyRope shape [9, 2, 8]: expected [9, 2, 16]"},
    {"heads of query",
     [](Call& c) {
         c.key_rope->shape = {9, 4, 16};
     },
     "keyRope shape [9, 4, 16]: expected [9, 2, 16]"},
    {"mode 6",
     [](Call& c) {
         c.sparse_mode = 6;
         c.mask = compressed_mask({3072, 2048});
         c.prefix = list({5, 4});
     },
     "queryRope is not supported by sparseMode 6"},
    {"no mask", [](Call& c) { c.mask.reset(); }, "queryRope needs attenMaskOptional"},
    {"bias", [](Call& c) { c.real_shift = byte_tensor({124}, ACL_BF16); },
     "queryRope is not supported with realShiftOptional"},
};
const Mistake kRopeWithDropout[] = {
    {"dropout mask", [](Call& c) { c.drop_mask = byte_tensor({16}); },
     "queryRope is not supported with dropMaskOptional"},
    {"dropout without a mask", [](Call& c) { c.keep_prob = 0.9; }, "queryRope is not supported with keepProb 0.9"},
};

TEST(RefusalsRope, EveryRule) {
    for (const Version version : only(tnd_versions(), &VersionTraits::rope)) {
        std::vector<Mistake> mistakes(std::begin(kRopeMistakes), std::end(kRopeMistakes));
        if (traits(version).dropout) {
            mistakes.insert(mistakes.end(), std::begin(kRopeWithDropout), std::end(kRopeWithDropout));
        }
        Call legal = rope();
        legal.version = version;
        for (const Mistake& mistake : mistakes) {
            SCOPED_TRACE(::testing::Message() << legal.name() << ' ' << mistake);
            Call call = legal;
            mistake.make(call);
            expect_refused(call, mistake.code, with_names_of(version, mistake.sentence));
        }
        const Outcome good = run(legal);
        EXPECT_EQ(good.code, 0) << good.text;
    }
}

TEST(RefusalsRope, DenseLayouts) {
    Call call = dense_call("BSND");
    call.version = Version::kScoreV4;
    set_dtype(call, ACL_BF16);
    call.query_rope = byte_tensor({2, 3, 4, 8}, ACL_BF16);
    call.key_rope = byte_tensor({2, 5, 2, 8}, ACL_BF16);
    call.mask = compressed_mask();
    call.sparse_mode = 3;
    expect_refused(call, 161002, "queryRopeOptional needs inputLayout \"TND\": got \"BSND\"");
}

}  // namespace
}  // namespace flash_attention::testing
