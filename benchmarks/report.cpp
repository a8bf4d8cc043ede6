#include "report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace fusion_bench {
namespace {

double rounded(double value, int digits) {
    const double scale = std::pow(10.0, digits);
    return std::round(value * scale) / scale;
}

// A cell of `width` characters; without a value it stays empty.
std::string cell(int width, std::optional<double> value, int digits = 1) {
    return value ? fmt::format(" {:>{}.{}f}", *value, width, digits) : fmt::format(" {:>{}}", "", width);
}

std::string with_threads(const std::string& description, int threads) {
    return "  " + description + (threads > 1 ? fmt::format("  ({} threads)", threads) : "");
}

using Json = nlohmann::ordered_json;

Json json_of(const Result& r) {
    Json entry = {{"case", r.description},
                  {"threads", r.threads},
                  {"seconds", rounded(r.seconds, 9)},
                  {"gflops", rounded(r.flops / r.seconds * 1e-9, 2)},
                  {"peak_gflops", rounded(r.peak * 1e-9, 2)},
                  {"percent_of_peak", rounded(r.of_peak(r.seconds) * 100, 2)}};
    if (r.share) {
        entry["partner"] = {
            {"case", r.share->partner}, {"threads", r.share->threads}, {"seconds", rounded(r.share->seconds, 9)}};
        entry["share"] = rounded(r.share->share, 4);
        entry["floor"] = r.share->floor;
    }
    if (r.sketch) {
        entry["sketch_percent_of_peak"] = rounded(r.of_peak(r.sketch->seconds) * 100, 2);
        entry["share_of_sketch"] = rounded(r.sketch->share, 4);
    }
    if (r.reading) {
        entry["gigabytes_per_second"] = rounded(r.reading->bytes / r.seconds * 1e-9, 2);
        entry["percent_of_reading"] = rounded(r.reading->share * 100, 2);
    }
    return entry;
}

Json json_of(const ElementwiseResult& r) {
    Json entry = {{"case", r.description},
                  {"threads", r.threads},
                  {"seconds", rounded(r.seconds, 9)},
                  {"gigabytes_per_second", rounded(r.bytes / r.seconds * 1e-9, 3)}};
    if (r.floor) entry["floor_of_thread"] = rounded(*r.floor * 1e-9, 3);
    if (r.sum) {
        entry["sum_gigabytes_per_second"] = rounded(r.sum->speed * 1e-9, 3);
        entry["share_of_sum"] = rounded(r.sum->share, 4);
    }
    return entry;
}

}  // namespace

std::string table_head(const Columns& columns) {
    std::string text = fmt::format("{:>10} {:>9} {:>7}", "ms", "GFLOP/s", "% peak");
    if (columns.share) text += fmt::format(" {:>9} {:>7} {:>7}", "partner", "share", "floor");
    if (columns.sketch) text += fmt::format(" {:>9} {:>7}", "sketch %", "share");
    if (columns.reading) text += fmt::format(" {:>7} {:>7}", "GB/s", "% read");
    return text + "  case";
}

std::string table_row(const Columns& columns, const Result& r) {
    using Cell = std::optional<double>;
    std::string text = fmt::format("{:>10.3f} {:>9.1f} {:>7.1f}", r.seconds * 1e3, r.flops / r.seconds * 1e-9,
                                   r.of_peak(r.seconds) * 100);
    if (columns.share) {
        text += cell(9, r.share ? Cell(r.share->flops / r.share->seconds * 1e-9) : Cell());
        text += cell(7, r.share ? Cell(r.share->share) : Cell(), 3);
        text += cell(7, r.share ? Cell(r.share->floor) : Cell(), 2);
    }
    if (columns.sketch) {
        text += cell(9, r.sketch ? Cell(r.of_peak(r.sketch->seconds) * 100) : Cell());
        text += cell(7, r.sketch ? Cell(r.sketch->share) : Cell(), 3);
    }
    if (columns.reading) {
        text += cell(7, r.reading ? Cell(r.reading->bytes / r.seconds * 1e-9) : Cell());
        text += cell(7, r.reading ? Cell(r.reading->share * 100) : Cell());
    }
    return text + with_threads(r.description, r.threads);
}

std::string elementwise_head() {
    return fmt::format("{:>10} {:>9} {:>7} {:>9} {:>7}  case", "ms", "GB/s", "floor", "sum GB/s", "share");
}

std::string elementwise_row(const ElementwiseResult& r) {
    using Cell = std::optional<double>;
    return fmt::format("{:>10.3f} {:>9.2f}", r.seconds * 1e3, r.bytes / r.seconds * 1e-9) +
           cell(7, r.floor ? Cell(*r.floor * 1e-9) : Cell(), 2) +
           cell(9, r.sum ? Cell(r.sum->speed * 1e-9) : Cell(), 2) + cell(7, r.sum ? Cell(r.sum->share) : Cell(), 3) +
           with_threads(r.description, r.threads);
}

std::string to_json(const Machine& machine, const std::vector<Result>& results,
                    const std::vector<ElementwiseResult>& elementwise) {
    Json list = Json::array();
    for (const Result& r : results) list.push_back(json_of(r));
    for (const ElementwiseResult& r : elementwise) list.push_back(json_of(r));
    const Json all = {{"processor", machine.processor},
                      {"table", machine.table},
                      {"threads", machine.threads},
                      {"compiler", machine.compiler},
                      {"results", std::move(list)}};
    return all.dump(2) + "\n";
}

}  // namespace fusion_bench
