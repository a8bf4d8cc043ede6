// Lengths of the sequences: from the cumulative lists of a varlen call, or the same for every batch entry.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ascendcl/log.h"
#include "op_api/checks.h"
#include "opbase/error.h"
#include "opbase/tensor.h"

namespace flash_attention {
namespace {

using opbase::ParameterError;

constexpr size_t kDocumentedEntries = 20000;  // of the vendor's interface; longer lists work here

// A record is kept for every sequence; more than this would be planning memory of tens of gigabytes.
constexpr int64_t kMaxSequences = int64_t{1} << 28;

struct NamedList {
    const char* name;
    const aclIntArray* list;
};

void require_list(const NamedList& argument) {
    if (!opbase::is_absent(argument.list)) return;
    throw ParameterError(fmt::format("{} cannot be empty for inputLayout \"TND\"", argument.name));
}

// Turns cumulative ends into lengths. Zeros at the end of the list stand for sequences that take no part, so a drop is
// legal when it is to 0 and only zeros follow; any other drop would make sequences overlap.
void read_ends(const NamedList& argument, int64_t Sequence::*length, SequenceLengths& lengths, int64_t& sum,
               int64_t& longest) {
    const std::vector<int64_t>& ends = argument.list->values;
    size_t used = ends.size();
    while (used > 0 && ends[used - 1] == 0) used--;
    int64_t end = 0;
    for (size_t i = 0; i < used; i++) {
        if (ends[i] < end) {
            throw ParameterError(
                fmt::format("{} is not non-decreasing: entry {} is {} after {}", argument.name, i, ends[i], end));
        }
        const int64_t size = ends[i] - end;
        lengths.sequences[i].*length = size;
        longest = std::max(longest, size);
        end = ends[i];
    }
    sum = end;
}

void check_total(const NamedList& argument, const char* tensor_name, int64_t tokens, int64_t sum) {
    if (sum > tokens) {
        throw ParameterError(fmt::format("T of {} is {}, but {} sums to {}", tensor_name, tokens, argument.name, sum));
    }
    // Padding is announced by zeros at the end; without them the caller may have passed lengths instead of ends.
    if (sum < tokens && argument.list->values.back() != 0) {
        ascendcl::warn_once(argument.name, fmt::format("{} must be cumulative: last entry {}, T is {}", argument.name,
                                                       argument.list->values.back(), tokens));
    }
}

// Backward refuses tokens that no sequence has, unless a list says by a 0 at its end that they are meant. Whoever
// passes lengths instead of ends learns what is wrong.
void check_padding(const NamedList& q, int64_t q_tokens, const SequenceLengths& lengths, const NamedList& kv,
                   int64_t kv_tokens) {
    const std::vector<int64_t>& ends = q.list->values;
    if (q_tokens <= lengths.sum_q || kv_tokens <= lengths.sum_kv) return;
    if (ends.back() == 0 || kv.list->values.back() == 0) return;
    if (std::accumulate(ends.begin(), ends.end(), uint64_t{0}) == static_cast<uint64_t>(q_tokens)) {
        throw ParameterError(
            fmt::format("{} must be cumulative: last entry {}, T is {}", q.name, ends.back(), q_tokens));
    }
    throw ParameterError(
        fmt::format("query T {} exceeds the last cumulative length {}; append a 0 entry to both lists to mark padding",
                    q_tokens, lengths.sum_q));
}

// Only the version for all layouts can get lists together with a dense layout.
void warn_about_lists(const ScoreRequest& request, const ScoreSizes& sizes) {
    const NamedList lists[] = {{"actualSeqQLenOptional", request.q_ends}, {"actualSeqKvLenOptional", request.kv_ends}};
    for (const NamedList& argument : lists) {
        if (opbase::is_absent(argument.list)) continue;
        ascendcl::warn_once("lists of a dense batch", fmt::format("{} has no effect for inputLayout \"{}\"",
                                                                  argument.name, opbase::layout_name(sizes.layout)));
    }
}

}  // namespace

SequenceLengths check_sequences(const ScoreRequest& request, const ScoreSizes& sizes) {
    SequenceLengths lengths;
    if (!request.varlen) {
        if (sizes.batch > kMaxSequences) {
            throw ParameterError(fmt::format("batch {} is too large: expected at most {}", sizes.batch, kMaxSequences));
        }
        warn_about_lists(request, sizes);
        lengths.sequences.assign(sizes.batch, {.q_len = sizes.q_len, .kv_len = sizes.kv_len});
        lengths.max_q = sizes.q_len;
        lengths.max_kv = sizes.kv_len;
        return lengths;
    }
    const NamedList q{"actualSeqQLenOptional", request.q_ends};
    const NamedList kv{"actualSeqKvLenOptional", request.kv_ends};
    require_list(q);
    require_list(kv);
    const size_t entries = q.list->values.size();
    if (entries != kv.list->values.size()) {
        throw ParameterError(fmt::format("{} has {} entries, {} has {}: they must have the same length", q.name,
                                         entries, kv.name, kv.list->values.size()));
    }
    if (entries > kDocumentedEntries) {
        ascendcl::warn_once("long actualSeqQLenOptional",
                            fmt::format("{} has {} entries: the NPU operator is documented for at most {}", q.name,
                                        entries, kDocumentedEntries));
    }
    lengths.sequences.reserve(entries + 1);  // one more for rows that belong to no sequence
    lengths.sequences.resize(entries);
    read_ends(q, &Sequence::q_len, lengths, lengths.sum_q, lengths.max_q);
    read_ends(kv, &Sequence::kv_len, lengths, lengths.sum_kv, lengths.max_kv);
    check_total(q, "query", sizes.q_len, lengths.sum_q);
    check_total(kv, request.names.key, sizes.kv_len, lengths.sum_kv);
    if (request.backward) check_padding(q, sizes.q_len, lengths, kv, sizes.kv_len);
    return lengths;
}

}  // namespace flash_attention
