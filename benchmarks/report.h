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

    // Seconds are of the best run. Shares are the operator's speed as a part of the other's, in the same round.
    struct Share {
        std::string partner;
        int threads = 1;
        double seconds = 0, flops = 0;
        double share = 0, floor = 0;
    };
    std::optional<Share> share = {};

    struct Sketch {
        double seconds = 0, share = 0;
    };
    std::optional<Sketch> sketch = {};

    struct Reading {
        double bytes = 0, share = 0;  // of a plain sum over as many bytes
    };
    std::optional<Reading> reading = {};

    double of_peak(double time) const { return flops / time / peak; }
};

// Of an operator that visits every element once.
struct ElementwiseResult {
    std::string description;
    int threads = 1;
    double seconds = 0, bytes = 0;
    std::optional<double> floor = {};  // bytes a second of each thread

    struct Sum {
        double speed = 0;  // bytes a second of a plain sum of two arrays
        double share = 0;
    };
    std::optional<Sum> sum = {};
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
std::string elementwise_head();
std::string elementwise_row(const ElementwiseResult& result);
std::string to_json(const Machine& machine, const std::vector<Result>& results,
                    const std::vector<ElementwiseResult>& elementwise);

}  // namespace fusion_bench
