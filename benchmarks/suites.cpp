#include "suites.h"

#include <fmt/format.h>

#include <span>

namespace fusion_bench {
namespace {

using flash_attention::testing::DType;
using flash_attention::testing::parse_case;

constexpr const char* kDTypes[] = {"fp32", "fp16", "bf16"};
constexpr const char* kCausal = "mode=3 mask=compressed";
// 512 keys, the row's own included.
constexpr const char* kWindow = "mode=4 pre=511 next=0 mask=compressed";

// What every problem string of backward has.
constexpr const char* kBackward = " pass=backward";

std::vector<Entry> plain_of(const char* pass) {
    std::vector<Entry> entries;
    for (const char* dtype : kDTypes) {
        for (const int d : {64, 128}) {
            for (const int length : {1024, 2048, 4096}) {
                for (const char* mask : {"", kCausal, kWindow}) {
                    entries.push_back({parse_case(fmt::format("layout=BNSD dtype={} n=8 d={} q={} kv={} {}{}", dtype, d,
                                                              length, length, mask, pass))});
                }
            }
        }
    }
    return entries;
}
std::vector<Entry> plain() {
    return plain_of("");
}
std::vector<Entry> backward() {
    return plain_of(kBackward);
}

// A problem and the plain one with as many useful operations, both without the element type.
struct Pair {
    double floor;
    const char *text, *partner;
};
constexpr const char* kPlain = "layout=BNSD n=8 d=128 q=1024 kv=1024";
constexpr const char* kPlainCausal = "layout=BNSD n=8 d=128 q=1024 kv=1024 mode=3 mask=compressed";
constexpr const char* kPlainBatch = "layout=BNSD b=2 n=4 d=128 q=1024 kv=1024";
// Of both passes.
constexpr Pair kPairs[] = {
    {0.95, "layout=BNSD n=8/1 d=128 q=1024 kv=1024", kPlain},
    {0.95, "layout=BSH n=8 d=128 q=1024 kv=1024", kPlain},
    {0.95, "layout=SBH n=8 d=128 q=1024 kv=1024", kPlain},
    {0.95, "layout=BSND n=8 d=128 q=1024 kv=1024", kPlain},
    {0.95, "layout=TND n=8 d=128 q=1024 kv=1024", kPlain},
    {0.95, "layout=TND n=8 d=128 q=512,512,512,512 kv=512,512,512,512", "layout=BNSD b=4 n=8 d=128 q=512 kv=512"},
    // Heads times features stay the same.
    {0.85, "layout=BNSD n=8 d=80 q=1024 kv=1024", "layout=BNSD n=5 d=128 q=1024 kv=1024"},
    {0.85, "layout=BNSD n=8 d=96 q=1024 kv=1024", "layout=BNSD n=6 d=128 q=1024 kv=1024"},
    {0.85, "layout=BNSD n=8 d=192 q=1024 kv=1024", "layout=BNSD n=12 d=128 q=1024 kv=1024"},
    {0.85, "layout=BNSD n=8 d=256 q=1024 kv=1024", "layout=BNSD n=16 d=128 q=1024 kv=1024"},
    // Any element of a mask in mode 1 may hide its pair; with pre and next the mask agrees with the window.
    {0.80, "layout=BNSD n=8 d=128 q=1024 kv=1024 mode=1 mask=2d:random", kPlain},
    {0.80, "layout=BNSD n=8 d=128 q=1024 kv=1024 mode=0 next=0 mask=2d:causal", kPlainCausal},
    {0.80, "layout=BNSD n=8 d=128 q=1024 kv=1024 mode=3 mask=compressed pse=2:slopes:alibi", kPlainCausal},
    {0.80, "layout=BNSD n=8 d=128 q=1024 kv=1024 keep=0.9 drop=exact", kPlain},
    {0.65, "layout=BNSD n=8 d=128 q=1024 kv=1024 pse=1:full", kPlain},
    {0.85, "layout=BNSD b=2 n=4 d=128 q=1024 kv=1024 strides=q:padded,k:padded,v:padded,out:padded", kPlainBatch},
    {0.85, "layout=BNSD b=2 n=4 d=128 q=1024 kv=1024 strides=q:swapped,k:swapped,v:swapped,out:swapped", kPlainBatch},
    {0.85, "layout=BNSD b=2 n=4 d=128 q=1024 kv=1024 strides=q:every2,k:every2,v:every2,out:every2", kPlainBatch},
};

// The gradient of a bias is one more matrix to write.
constexpr Pair kBackwardPairs[] = {
    {0.50, "layout=BNSD n=8 d=128 q=1024 kv=1024 pse=1:full dpse=wanted", kPlain},
};

void add_pairs(std::vector<Entry>& entries, std::span<const Pair> pairs, const char* dtype, const char* pass) {
    auto problem = [&](const char* text) { return parse_case(fmt::format("{} dtype={}{}", text, dtype, pass)); };
    for (const Pair& pair : pairs) {
        entries.push_back({.description = problem(pair.text), .partner = problem(pair.partner), .floor = pair.floor});
    }
}

std::vector<Entry> shares() {
    std::vector<Entry> entries;
    for (const char* dtype : kDTypes) add_pairs(entries, kPairs, dtype, "");
    return entries;
}

std::vector<Entry> backward_shares() {
    std::vector<Entry> entries;
    for (const char* dtype : kDTypes) {
        add_pairs(entries, kPairs, dtype, kBackward);
        add_pairs(entries, kBackwardPairs, dtype, kBackward);
    }
    return entries;
}

// `shape`: heads and lengths, and the pass.
void add_threaded(std::vector<Entry>& entries, const std::string& shape, double floor) {
    for (const char* dtype : kDTypes) {
        for (const char* mask : {"", kCausal}) {
            entries.push_back(
                {.description = parse_case(fmt::format("layout=BNSD dtype={} d=128 {} {}", dtype, shape, mask)),
                 .floor = floor,
                 .against_one_thread = true});
        }
    }
}

std::vector<Entry> threads() {
    std::vector<Entry> entries;
    add_threaded(entries, "n=8 q=2048 kv=2048", 1.85);
    return entries;
}

std::vector<Entry> backward_threads() {
    std::vector<Entry> entries;
    for (const char* shape : {"n=8 q=2048 kv=2048", "n=1 q=8192 kv=8192"})
        add_threaded(entries, std::string(shape) + kBackward, 1.8);
    return entries;
}

std::vector<Entry> decode() {
    std::vector<Entry> entries;
    for (const char* dtype : kDTypes) {
        for (const int rows : {1, 4, 8}) {
            entries.push_back({.description = parse_case(
                                   fmt::format("layout=BNSD dtype={} b=8 n=32/8 d=128 q={} kv=4096", dtype, rows)),
                               .reads_keys = true});
        }
    }
    return entries;
}

std::vector<ElementwiseCase> ring() {
    std::vector<ElementwiseCase> cases;
    for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
        for (const int64_t dim : {64, 128}) cases.emplace_back(RingCase{dtype, 4096, 8, dim});
    }
    return cases;
}

// The floor is fixed, since dropout inside of attention has to keep up with scores.
std::vector<ElementwiseCase> dropout() {
    return {DropoutCase{int64_t{1} << 20, 1e9}, DropoutCase{int64_t{1} << 26, 1e9}};
}

}  // namespace

const std::vector<Suite>& suites() {
    static const std::vector<Suite> all = {
        {"plain", "S 1024, 2048, 4096; D 64, 128; no mask, causal, window of 512 keys; every type", plain},
        {"shares", "other shapes, layouts and modifiers beside a plain case with as much useful work", shares},
        {"threads", "8 heads on two threads (or --threads) beside one", threads},
        {"decode", "1, 4 and 8 query rows against 4096 keys: GB/s of key and value", decode},
        {"backward", "the cases of plain", backward},
        {"backward-shares", "the cases of shares, and a bias whose gradient is wanted", backward_shares},
        {"backward-threads", "8 heads and one long head on two threads (or --threads) beside one", backward_threads},
        {"ring", "aclnnRingAttentionUpdate: GB/s read and written, beside a plain sum of two arrays", nullptr, ring},
        {"dropout", "aclnnDropoutGenMask: GB/s of random numbers, of which every bit takes 32 bits", nullptr, dropout},
    };
    return all;
}

const Suite* find_suite(std::string_view name) {
    for (const Suite& suite : suites()) {
        if (suite.name == name) return &suite;
    }
    return nullptr;
}

}  // namespace fusion_bench
