// Prints the kernel tables that this machine and build can run, best first, one name a line. The first is the one that
// runs when nobody asks.
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/dispatch.h"

namespace {

// The name of the table that runs when ASCEND_CPU_ISA says `name`; empty when there is none.
std::string table_for(const char* name) {
    setenv("ASCEND_CPU_ISA", name, 1);
    try {
        return flash_attention::kernels().name;
    } catch (const std::runtime_error&) {
        return "";
    }
}

}  // namespace

int main() {
    const std::string best = table_for("");
    std::vector<std::string> names = {best};
    for (const char* name : {"avx512_bf16", "avx512", "avx2", "portable"}) {
        if (name != best && table_for(name) == name) names.emplace_back(name);
    }
    for (const std::string& name : names) std::puts(name.c_str());
    return best.empty() ? 1 : 0;
}
