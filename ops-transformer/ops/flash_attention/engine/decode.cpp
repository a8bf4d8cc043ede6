#include "engine/decode.h"

namespace flash_attention {

namespace {

int64_t head_group(const Problem& problem) {
    return problem.query_heads / problem.kv_heads;
}

int64_t row_bytes(const Problem& problem) {
    return decode_row_floats(problem.value_dim) * static_cast<int64_t>(sizeof(float));
}

}  // namespace

bool is_decode(const Sequence& sequence) {
    return sequence.has_pairs() && sequence.q_len <= kMostDecodeTokens;
}

DecodeParts decode_parts(const Problem& problem, const Sequence& sequence) {
    const int64_t group = head_group(problem), most = kDecodeRows / sequence.q_len;
    const int64_t parts = (group + most - 1) / most;
    return {(group + parts - 1) / parts, parts};
}

DecodeChunks decode_chunks(const Sequence& sequence) {
    DecodeChunks chunks;
    chunks.keys = any_visible(sequence.band, 0, sequence.q_len, sequence.kv_len);
    if (chunks.keys.empty()) chunks.keys = {};
    const int64_t units = (chunks.keys.end - chunks.origin() + kDecodeChunk - 1) / kDecodeChunk;
    const int64_t units_of_chunk = std::max<int64_t>((units + kMostDecodeChunks - 1) / kMostDecodeChunks, 1);
    chunks.length = units_of_chunk * kDecodeChunk;
    chunks.count = std::max<int64_t>((units + units_of_chunk - 1) / units_of_chunk, 1);
    return chunks;
}

int64_t partial_bytes(const Problem& problem, const Sequence& sequence) {
    return sequence.q_len * head_group(problem) * row_bytes(problem);
}

int64_t most_partial_bytes(const Problem& problem, int64_t sequences, int64_t rows, int64_t keys) {
    // c >= 2 chunks need more than (c - 1) kDecodeChunk keys, so that c of them need more than c / 2 kDecodeChunk.
    const int64_t chunks = std::min(sequences * kMostDecodeChunks, keys / (kDecodeChunk / 2));
    return std::min(kMostDecodeTokens, rows) * problem.query_heads * chunks * row_bytes(problem);
}

}  // namespace flash_attention
