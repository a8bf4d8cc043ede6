// Sequences with few query rows and many keys: when they are computed as such, and how their keys are cut, so that one
// head with a long cache keeps all threads busy.
//
// Everything here depends on one sequence's lengths and band and on the group of heads alone, so that its results do
// not depend on what else is in the call or on threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/problem.h"
#include "kernels/dispatch.h"

namespace flash_attention {

// Up to so many query rows of a head: there the other kernels, whose vectors hold query rows, waste lanes and wait for
// keys that are not in cache. Time as a part of theirs, with AVX2 and one head of 64 to 256 features:
//
//   query rows                          1            4            8             12         16
//   32 to 1024 keys, in cache     0.2 to 0.35   0.3 to 0.5   0.55 to 0.7   0.7 to 1   0.85 to 1.3
//   8192 keys in memory, fp32          0.16          0.2         0.3          0.4         0.4
//   8192 keys in memory, 16 bits       0.2           0.3         0.5          0.65        0.7
//
// More heads that share the keys are in favour of this way as long as their rows are computed together.
inline constexpr int64_t kMostDecodeTokens = 12;

// Whether the query rows that share a head of keys and values are computed together.
bool is_decode(const Sequence& sequence);

// The heads that share a head of keys and values, in `parts` of `heads` each (the last one may have fewer) whose rows
// are not more than kDecodeRows: with so many rows reading is not what takes the time any more.
struct DecodeParts {
    int64_t heads, parts;
};
DecodeParts decode_parts(const Problem& problem, const Sequence& sequence);

// Chunks of a sequence's keys, as many as can keep large machines busy; partial results of more would only cost
// memory.
inline constexpr int64_t kMostDecodeChunks = 64;

// The keys that some row sees, in chunks that begin at multiples of `length`; one chunk, perhaps empty, is the least.
struct DecodeChunks {
    KeyRange keys;
    int64_t length = 0, count = 1;
    int64_t origin() const { return keys.begin / kDecodeChunk * kDecodeChunk; }
    KeyRange operator[](int64_t chunk) const {
        const int64_t begin = origin() + chunk * length;
        return {std::max(begin, keys.begin), std::min(begin + length, keys.end)};
    }
};
DecodeChunks decode_chunks(const Sequence& sequence);

// Bytes of partial results for one chunk and all heads that share a head of keys and values.
int64_t partial_bytes(const Problem& problem, const Sequence& sequence);

// At least what the partial results of any `sequences` sequences with these numbers of rows and keys in all take.
int64_t most_partial_bytes(const Problem& problem, int64_t sequences, int64_t rows, int64_t keys);

}  // namespace flash_attention
