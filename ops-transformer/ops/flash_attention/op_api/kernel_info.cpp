#ifndef FUNC_VISIBILITY
#define FUNC_VISIBILITY  // the prototype below becomes a visible symbol of this library
#endif
#include "fusion_attention/kernel_info.h"

#include <exception>
#include <nlohmann/json.hpp>
#include <string>

#include "ascendcl/processors.h"
#include "kernels/dispatch.h"
#include "kernels/table_info.h"
#include "opbase/cpu_features.h"

namespace {

using Json = nlohmann::ordered_json;

Json describe() {
    Json info = {{"processor", opbase::cpu_features().model}, {"tables", Json::array()}};
    for (const flash_attention::TableInfo& table : flash_attention::all_tables())
        info["tables"].push_back({{"name", table.name}, {"needs", table.needs}, {"runs", table.runs_here}});
    info["chosen"] = nullptr;
    info["error"] = nullptr;
    try {
        info["chosen"] = flash_attention::kernels().name;
    } catch (const flash_attention::UnavailableKernels& error) {
        info["error"] = error.what();
    }
    info["processors"] = ascendcl::available_processors();
    info["threads"] = ascendcl::default_threads();
    return info;
}

}  // namespace

const char* fusionAttentionKernelInfo(void) {
    static thread_local std::string text;
    try {
        text = describe().dump(-1, ' ', false, Json::error_handler_t::replace);
    } catch (const std::exception&) {
        return "";
    }
    return text.c_str();
}
