#include "ring_attention_update/engine/ring.h"

#include <algorithm>

#include "opbase/parallel.h"

namespace ring_attention_update {
namespace {

using flash_attention::element_bytes;
using flash_attention::kStatsCopies;

// Rows of a work item, of all heads. Where heads are neighbours in memory two of them share a cache line of statistics,
// which has to survive the rows of the first one: 6 tensors x 64 rows x 64 bytes fit in the smallest caches.
constexpr int64_t kItemRows = 64;

// Consecutive rows of one batch entry, in one sequence where sequences count.
struct RowRange {
    int64_t batch, begin, end;
    int64_t sequence_begin, sequence_rows;
};

class Ring {
  public:
    Ring(const RingProblem& problem, const RingPlan& plan, const Addresses& addresses)
        : problem_(problem), plan_(plan), addresses_(addresses) {}

    int64_t items() const { return problem_.batch * blocks(); }

    void run_item(int64_t item) const {
        const int64_t begin = item % blocks() * kItemRows;
        RowRange range{item / blocks(), begin, std::min(begin + kItemRows, problem_.rows), 0, 0};
        if (!problem_.statistics_by_sequence) return merge(range);
        const int64_t end = range.end;
        for (int64_t sequence = sequence_of(begin); range.begin < end; sequence++) {
            range.sequence_begin = sequence == 0 ? 0 : end_of(sequence - 1);
            range.sequence_rows = end_of(sequence) - range.sequence_begin;
            range.end = std::min(end, end_of(sequence));
            if (range.begin < range.end) merge(range);
            range.begin = std::max(range.begin, range.end);
        }
    }

  private:
    int64_t blocks() const { return (problem_.rows + kItemRows - 1) / kItemRows; }
    int64_t end_of(int64_t sequence) const {
        return static_cast<const int64_t*>(addresses_[kEnds])[sequence * problem_.ends_stride];
    }

    // The first one that ends behind the row.
    int64_t sequence_of(int64_t row) const {
        int64_t first = 0, count = problem_.sequences;
        while (count > 0) {
            const int64_t half = count / 2;
            if (end_of(first + half) <= row) {
                first += half + 1;
                count -= half + 1;
            } else {
                count = half;
            }
        }
        return first;
    }

    void merge(const RowRange& range) const {
        for (int64_t head = 0; head < problem_.heads; head++) {
            RowsToMerge rows;
            rows.previous = result<PartialRows, const float>(range, head, kPrevOut);
            rows.current = result<PartialRows, const float>(range, head, kCurOut);
            rows.merged = result<MergedRows, float>(range, head, kOut);
            rows.rows = range.end - range.begin;
            rows.dim = problem_.dim;
            plan_.merge(rows);
        }
    }

    // A result's three operands follow one another.
    template <class Rows, class Statistic>
    Rows result(const RowRange& range, int64_t head, int out) const {
        const Strides& strides = problem_.strides[out];
        Rows rows;
        rows.out = static_cast<std::byte*>(addresses_[out]) +
                   (range.batch * strides.batch + range.begin * strides.row + head * strides.head) *
                       element_bytes(problem_.type);
        rows.out_stride = strides.row;
        rows.max = static_cast<Statistic*>(addresses_[out + 1]) + statistics_at(range, head, out + 1);
        rows.sum = static_cast<Statistic*>(addresses_[out + 2]) + statistics_at(range, head, out + 2);
        rows.max_stride = statistics_stride(out + 1);
        rows.sum_stride = statistics_stride(out + 2);
        return rows;
    }

    int64_t statistics_at(const RowRange& range, int64_t head, int operand) const {
        if (problem_.statistics_by_sequence) {
            return (range.sequence_begin * problem_.heads + head * range.sequence_rows + range.begin -
                    range.sequence_begin) *
                   kStatsCopies;
        }
        const Strides& strides = problem_.strides[operand];
        return range.batch * strides.batch + range.begin * strides.row + head * strides.head;
    }
    int64_t statistics_stride(int operand) const {
        return problem_.statistics_by_sequence ? kStatsCopies : problem_.strides[operand].row;
    }

    const RingProblem& problem_;
    const RingPlan& plan_;
    const Addresses& addresses_;
};

}  // namespace

RingPlan plan_ring(const RingProblem& problem) {
    const auto type = static_cast<size_t>(problem.type);
    return {opbase::thread_count(), flash_attention::kernels().merge_results[type]};
}

int64_t first_bad_end(const RingProblem& problem, const int64_t* ends) {
    int64_t before = 0;
    for (int64_t i = 0; i < problem.sequences; i++) {
        const int64_t end = ends[i * problem.ends_stride];
        if (end < before || end > problem.rows) return i;
        before = end;
    }
    return before == problem.rows ? -1 : problem.sequences;
}

void run_ring(const RingProblem& problem, const RingPlan& plan, const Addresses& addresses) {
    const Ring ring(problem, plan, addresses);
    opbase::parallel_for(ring.items(), plan.slots, [&](int64_t item, int) { ring.run_item(item); });
}

}  // namespace ring_attention_update
