#include "work.h"

#include <algorithm>
#include <numeric>

#include "testing/call.h"

namespace fusion_bench {
namespace {

namespace testing = flash_attention::testing;
namespace reference = flash_attention::reference;

// Sequences end where running totals say; trailing zeros are sequences without rows.
std::vector<int64_t> ends_of(const std::vector<int64_t>& lengths, int64_t tail) {
    std::vector<int64_t> ends(lengths.size());
    std::partial_sum(lengths.begin(), lengths.end(), ends.begin());
    ends.insert(ends.end(), tail, 0);
    return ends;
}

}  // namespace

reference::ScoreArguments visibility_of(const testing::Case& c) {
    reference::ScoreArguments a;
    a.input_layout = c.layout;
    a.query.shape = testing::query_shape(c);
    a.key.shape = testing::key_shape(c, c.d);
    a.head_num = c.heads;
    a.sparse_mode = c.mode;
    a.pre_tokens = c.pre;
    a.next_tokens = c.next;
    a.prefix = c.prefix;
    if (c.varlen()) {
        a.actual_seq_qlen = ends_of(c.q, c.tail);
        a.actual_seq_kvlen = ends_of(c.kv, c.tail);
    }
    if (c.masked()) {
        const int64_t rows = *std::max_element(c.q.begin(), c.q.end());
        const int64_t keys = *std::max_element(c.kv.begin(), c.kv.end());
        a.atten_mask = reference::Mask{{rows, keys}, std::vector<uint8_t>(c.compressed() ? 0 : rows * keys)};
    }
    return a;
}

// The keys of a row are one range without gaps, whose ends never move to the left from a row to the next.
int64_t shown_pairs(const testing::Case& c) {
    const reference::ScoreArguments arguments = visibility_of(c);
    int64_t pairs = 0;
    for (const reference::Sequence& s : reference::sequences_of(arguments)) {
        int64_t begin = 0, end = 0;
        for (int64_t row = 0; row < s.q_len; row++) {
            auto sees = [&](int64_t key) { return reference::sees(arguments, s, 0, row, key); };
            int64_t first = begin;
            while (first < s.kv_len && !sees(first)) first++;
            if (first == s.kv_len) continue;  // nothing to see, which says nothing about the next row
            begin = first;
            end = std::max(begin, end);
            while (end < s.kv_len && sees(end)) end++;
            pairs += end - begin;
        }
    }
    return pairs;
}

double useful_flops(const testing::Case& c) {
    const int64_t of_query = c.d + c.rope;
    const int64_t features = c.backward ? 3 * of_query + 2 * c.dv : of_query + c.dv;
    return 2.0 * static_cast<double>(shown_pairs(c)) * static_cast<double>(c.heads) * static_cast<double>(features);
}

}  // namespace fusion_bench
