#include "planned_tables.h"

#include "kernels/table_info.h"

namespace fusion_bench {

using namespace flash_attention;

// Planning asks a table for the rows of a block, and for the size of scratch memory. Functions of kernels that do not
// run here must not be called, so that sizes are those of the table that runs everywhere; no figure depends on them.
std::vector<PlannedTable> planned_tables() {
    std::vector<PlannedTable> planned;
    const std::vector<TableInfo> all = all_tables();
    const Kernels& everywhere = all.back().table;
    for (const TableInfo& info : all) {
        PlannedTable table{info.name, {}, {}};
        for (int type = 0; type < 3; type++) {
            table.forward[type] = everywhere.forward[type];
            table.forward[type].query_block = info.table.forward[type].query_block;
            table.backward[type] = everywhere.backward[type];
            table.backward[type].query_block = info.table.backward[type].query_block;
        }
        planned.push_back(table);
    }
    return planned;
}

std::vector<WorkLoop> PlannedTable::work_of(const Problem& problem, bool is_backward, int threads,
                                            double l2_bytes) const {
    const int type = static_cast<int>(problem.type);
    if (is_backward) return fusion_bench::work_of(problem, plan_backward(problem, backward[type], threads), l2_bytes);
    return fusion_bench::work_of(problem, plan_forward(problem, forward[type], threads));
}

}  // namespace fusion_bench
