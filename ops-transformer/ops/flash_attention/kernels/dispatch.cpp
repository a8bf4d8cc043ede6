#include "kernels/dispatch.h"

#include <cstdlib>
#include <string>

#include "kernels/table_info.h"
#include "opbase/cpu_features.h"

namespace flash_attention {

#ifdef __x86_64__
namespace avx512_bf16 {
extern const Kernels kTable;
}
namespace avx512 {
extern const Kernels kTable;
}
namespace avx2 {
extern const Kernels kTable;
}
#endif
namespace portable {
extern const Kernels kTable;
}

namespace {

// Best first; the last one runs everywhere.
constexpr const Kernels* kTables[] = {
#ifdef __x86_64__
    &avx512_bf16::kTable, &avx512::kTable, &avx2::kTable,
#endif
    &portable::kTable};

bool runs_here(const Kernels& table) {
    const opbase::CpuFeatures& cpu = opbase::cpu_features();
    switch (table.needs) {
        case InstructionSet::kNone:
            return true;
        case InstructionSet::kAvx2:
            return cpu.avx2;
#ifdef FUSION_EMULATE_AVX512
        default:
            return cpu.avx2;
#else
        case InstructionSet::kAvx512:
            return cpu.avx512;
        case InstructionSet::kAvx512Bf16:
            return cpu.avx512_bf16;
#endif
    }
    return false;
}

// What cpu_features() looks for. A table needs the first ones, up to those of its instruction set.
constexpr const char* kFlags[] = {"avx",      "avx2",     "fma",      "f16c",     "avx512f",
                                  "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512_bf16"};
[[maybe_unused]] constexpr std::size_t kAvx2Flags = 4, kAvx512Flags = 9;

std::span<const char* const> flags_of(const Kernels& table) {
    const std::span<const char* const> flags(kFlags);
    switch (table.needs) {
        case InstructionSet::kNone:
            return {};
        case InstructionSet::kAvx2:
            return flags.first(kAvx2Flags);
#ifdef FUSION_EMULATE_AVX512
        default:
            return flags.first(kAvx2Flags);
#else
        case InstructionSet::kAvx512:
            return flags.first(kAvx512Flags);
        case InstructionSet::kAvx512Bf16:
            return flags;
#endif
    }
    return {};
}

// "avx2", "portable": the tables that this processor can run.
std::string names_of_tables() {
    std::string names;
    for (const Kernels* table : kTables) {
        if (!runs_here(*table)) continue;
        if (!names.empty()) names += ", ";
        names += '"' + std::string(table->name) + '"';
    }
    return names;
}

const Kernels& best_table() {
    for (const Kernels* table : kTables)
        if (runs_here(*table)) return *table;
    return portable::kTable;
}

}  // namespace

// Not cached: an unavailable table must fail each time, and the choice is a getenv beside a whole planning phase.
const Kernels& kernels() {
    const char* asked = std::getenv("ASCEND_CPU_ISA");
    if (asked == nullptr || *asked == '\0') return best_table();
    for (const Kernels* table : kTables)
        if (std::string_view(asked) == table->name && runs_here(*table)) return *table;
    throw UnavailableKernels("ASCEND_CPU_ISA asks for \"" + std::string(asked) + "\": this machine and build have " +
                             names_of_tables());
}

std::vector<TableInfo> all_tables() {
    std::vector<TableInfo> tables;
    for (const Kernels* table : kTables) tables.push_back({table->name, flags_of(*table), runs_here(*table), *table});
    return tables;
}

}  // namespace flash_attention
