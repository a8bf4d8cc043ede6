// The results of attention_bench as a table and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace fusion_bench {

struct Result {
    std::string description;  // problem string
    int threads = 1;
    double seconds = 0, flops = 0;
    double peak = 0;  // operations a second, of all threads

    struct Share {
        std::string partner;
        int threads = 1;
        double seconds = 0;
        double share = 0, floor = 0;
    };
    std::optional<Share> share = {};

    struct Sketch {
        double seconds = 0;
    };
    std::optional<Sketch> sketch = {};

    struct Reading {
        double bytes = 0, seconds = 0;  // of a plain sum over as many bytes
    };
    std::optional<Reading> reading = {};

    double of_peak(double time) const { return flops / time / peak; }
};

struct Machine {
    std::string processor, table, compiler;
    int threads = 1;
};

// Columns that no result fills are left out.
struct Columns {
    bool share = false, sketch = false, reading = false;
};

std::string table_head(const Columns& columns);
std::string table_row(const Columns& columns, const Result& result);
std::string to_json(const Machine& machine, const std::vector<Result>& results);

}  // namespace fusion_bench
