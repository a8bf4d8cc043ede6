#include "suites.h"

#include <fmt/format.h>

namespace fusion_bench {
namespace {

using flash_attention::testing::parse_case;

constexpr const char* kDTypes[] = {"fp32", "fp16", "bf16"};
constexpr const char* kCausal = "mode=3 mask=compressed";
// 512 keys, the row's own included.
constexpr const char* kWindow = "mode=4 pre=511 next=0 mask=compressed";

std::vector<Entry> plain() {
    std::vector<Entry> entries;
    for (const char* dtype : kDTypes) {
        for (const int d : {64, 128}) {
            for (const int length : {1024, 2048, 4096}) {
                for (const char* mask : {"", kCausal, kWindow}) {
                    entries.push_back({parse_case(
                        fmt::format("layout=BNSD dtype={} n=8 d={} q={} kv={} {}", dtype, d, length, length, mask))});
                }
            }
        }
    }
    return entries;
}

// A problem and the plain one with as many useful operations, both without the element type.
struct Pair {
    double floor;
    const char *text, *partner;
};
constexpr const char* kPlain = "layout=BNSD n=8 d=128 q=1024 kv=1024";
constexpr const char* kPlainCausal = "layout=BNSD n=8 d=128 q=1024 kv=1024 mode=3 mask=compressed";
constexpr const char* kPlainBatch = "layout=BNSD b=2 n=4 d=128 q=1024 kv=1024";
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

std::vector<Entry> shares() {
    std::vector<Entry> entries;
    for (const char* dtype : kDTypes) {
        for (const Pair& pair : kPairs) {
            entries.push_back({.description = parse_case(fmt::format("{} dtype={}", pair.text, dtype)),
                               .partner = parse_case(fmt::format("{} dtype={}", pair.partner, dtype)),
                               .floor = pair.floor});
        }
    }
    return entries;
}

std::vector<Entry> threads() {
    std::vector<Entry> entries;
    for (const char* dtype : kDTypes) {
        for (const char* mask : {"", kCausal}) {
            entries.push_back({.description = parse_case(
                                   fmt::format("layout=BNSD dtype={} n=8 d=128 q=2048 kv=2048 {}", dtype, mask)),
                               .floor = 1.85,
                               .against_one_thread = true});
        }
    }
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

}  // namespace

const std::vector<Suite>& suites() {
    static const std::vector<Suite> all = {
        {"plain", "S 1024, 2048, 4096; D 64, 128; no mask, causal, window of 512 keys; every type", plain},
        {"shares", "other shapes, layouts and modifiers beside a plain case with as much useful work", shares},
        {"threads", "8 heads on two threads (or --threads) beside one", threads},
        {"decode", "1, 4 and 8 query rows against 4096 keys: GB/s of key and value", decode},
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
