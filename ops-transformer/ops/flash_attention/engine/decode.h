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

// Up to so many query rows of a head: there the other kernels, whose vectors hold query rows, waste lanes. Measured
// with AVX2, for heads of 64 and 128 features and 16 to 32768 keys: one row takes a third to a fifth of their time,
// four rows half, eight rows 0.7 to 1.2 times as long while keys are in cache and 0.5 to 0.8 when they are not; twelve
// and sixteen rows up to 1.4 and 1.7 times as long. That holds for any number of keys and of heads that share them.
inline constexpr int64_t kMostDecodeTokens = 8;

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
