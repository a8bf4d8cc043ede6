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

}  // namespace

std::string table_head(const Columns& columns) {
    std::string text = fmt::format("{:>10} {:>9} {:>7}", "ms", "GFLOP/s", "% peak");
    if (columns.share) text += fmt::format(" {:>9} {:>7} {:>7}", "partner", "share", "floor");
    if (columns.sketch) text += fmt::format(" {:>9} {:>7}", "sketch %", "points");
    if (columns.reading) text += fmt::format(" {:>7} {:>7}", "GB/s", "% read");
    return text + "  case";
}

std::string table_row(const Columns& columns, const Result& r) {
    using Cell = std::optional<double>;
    std::string text = fmt::format("{:>10.3f} {:>9.1f} {:>7.1f}", r.seconds * 1e3, r.flops / r.seconds * 1e-9,
                                   r.of_peak(r.seconds) * 100);
    if (columns.share) {
        text += cell(9, r.share ? Cell(r.flops / r.share->seconds * 1e-9) : Cell());
        text += cell(7, r.share ? Cell(r.share->share) : Cell(), 3);
        text += cell(7, r.share ? Cell(r.share->floor) : Cell(), 2);
    }
    if (columns.sketch) {
        text += cell(9, r.sketch ? Cell(r.of_peak(r.sketch->seconds) * 100) : Cell());
        text += r.sketch ? fmt::format(" {:>+7.1f}", (r.of_peak(r.seconds) - r.of_peak(r.sketch->seconds)) * 100)
                         : cell(7, {});
    }
    if (columns.reading) {
        text += cell(7, r.reading ? Cell(r.reading->bytes / r.seconds * 1e-9) : Cell());
        text += cell(7, r.reading ? Cell(r.reading->seconds / r.seconds * 100) : Cell());
    }
    return text + "  " + r.description + (r.threads > 1 ? fmt::format("  ({} threads)", r.threads) : "");
}

std::string to_json(const Machine& machine, const std::vector<Result>& results) {
    using Json = nlohmann::ordered_json;
    Json list = Json::array();
    for (const Result& r : results) {
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
            const double percent = r.of_peak(r.sketch->seconds) * 100;
            entry["sketch_percent_of_peak"] = rounded(percent, 2);
            entry["points_over_sketch"] = rounded(r.of_peak(r.seconds) * 100 - percent, 2);
        }
        if (r.reading) {
            entry["gigabytes_per_second"] = rounded(r.reading->bytes / r.seconds * 1e-9, 2);
            entry["percent_of_reading"] = rounded(r.reading->seconds / r.seconds * 100, 2);
        }
        list.push_back(std::move(entry));
    }
    const Json all = {{"processor", machine.processor},
                      {"table", machine.table},
                      {"threads", machine.threads},
                      {"compiler", machine.compiler},
                      {"results", std::move(list)}};
    return all.dump(2) + "\n";
}

}  // namespace fusion_bench
