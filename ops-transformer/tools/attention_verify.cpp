// Compares the operators with the double-precision reference, each case on a line of JSON as soon as it is done.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "testing/backward_judge.h"
#include "testing/judge.h"
#include "testing/random_cases.h"

namespace flash_attention::testing {
namespace {

constexpr const char* kUsage = R"(usage: attention_verify [options] ['<problem string>' ...]

Runs attention calls through the C interface of libopapi.so and compares every element of every output with a
double-precision reference. One line of JSON per case: "case" (the problem string), "ok", "outputs" (for each its type
and the element that comes closest to its bound: error, bound, and their ratio), "problems" (sentences).

  --random N         N random cases
  --seed S           another sequence of them (default 1)
  --backward         the random cases are of the backward operators
  --bound-scale X    allow only this share of each bound, 0 to 1 (default 1)
  --print            only print the problem strings

exit code: 0 everything is within its bounds, 1 something is not, 2 an argument is wrong
)";

using Json = nlohmann::ordered_json;

struct UsageError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Options {
    std::vector<Case> cases;
    double bound_scale = 1.0;
    bool print = false;
};

template <class Number>
Number number_of(std::string_view option, std::string_view text, Number least, Number most) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value >= least && value <= most))
        throw UsageError(fmt::format("{} {}: has to be a number from {} to {}", option, text, least, most));
    return value;
}

Case legal_case(std::string_view text) {
    std::optional<Case> c;
    try {
        c = parse_case(text);
    } catch (const std::invalid_argument& error) {
        throw UsageError(fmt::format("problem string '{}': {}", text, error.what()));
    }
    const std::string why = why_illegal(*c);
    if (!why.empty()) throw UsageError(fmt::format("problem string '{}': {}", text, why));
    return *c;
}

Options parse(std::span<char*> arguments) {
    constexpr int64_t kMostCases = 1'000'000;
    Options options;
    int64_t random = 0;
    uint64_t seed = 1;
    bool backward = false;
    for (size_t i = 0; i < arguments.size(); i++) {
        const std::string_view whole = arguments[i];
        // "--seed=7" or "--seed 7"; a problem string has equals signs of its own.
        const size_t equals = whole.starts_with("--") ? whole.find('=') : std::string_view::npos;
        const std::string_view word = whole.substr(0, equals);
        auto value = [&]() -> std::string_view {
            if (equals != std::string_view::npos) return whole.substr(equals + 1);
            if (i + 1 == arguments.size()) throw UsageError(fmt::format("{} needs a value", word));
            return arguments[++i];
        };
        if (word == "--random") {
            random = number_of<int64_t>(word, value(), 1, kMostCases);
        } else if (word == "--seed") {
            seed = number_of<uint64_t>(word, value(), 0, UINT64_MAX);
        } else if (word == "--backward") {
            backward = true;
        } else if (word == "--bound-scale") {
            options.bound_scale = number_of<double>(word, value(), 0.0, 1.0);
        } else if (word == "--print") {
            options.print = true;
        } else if (word.starts_with("-")) {
            throw UsageError(fmt::format("{} is not an option; --help lists them", word));
        } else {
            options.cases.push_back(legal_case(word));
        }
    }
    if (random == 0 && (options.cases.empty() || backward))
        throw UsageError(backward ? "--backward is for --random N; a problem string says pass=backward itself"
                                  : "nothing to do: give --random N or a problem string; --help says more");
    const std::vector<Case> drawn = mixed_cases(seed, random, backward);
    options.cases.insert(options.cases.end(), drawn.begin(), drawn.end());
    return options;
}

// JSON has no NaN and no infinity.
Json number(double value) {
    return std::isfinite(value) ? Json(value) : Json(nullptr);
}

// One case and what is found out about it.
class Examination {
  public:
    explicit Examination(const Case& c, double bound_scale) : bound_scale_(bound_scale) {
        if (c.backward) {
            GradientAccuracy accuracy;
            problems_ = examine_backward_case(c, &accuracy);
            for (const Argument gradient : kGradientArguments)
                add(name_of(gradient), gradient_type(c, gradient), accuracy.worst(c.dtype, gradient));
        } else {
            Accuracy accuracy;
            problems_ = examine_case(c, &accuracy);
            for (const Quantity quantity : {Quantity::kOut, Quantity::kMax, Quantity::kSum}) {
                const DType type = quantity == Quantity::kOut ? c.dtype : DType::kFp32;
                add(name_of(quantity), type, accuracy.worst(c.dtype, quantity));
            }
        }
        result_ = {{"case", to_string(c)}, {"ok", ok()}, {"outputs", outputs_}, {"problems", problems_}};
    }

    bool ok() const { return problems_.empty(); }
    std::string line() const { return result_.dump(-1, ' ', false, Json::error_handler_t::replace); }

  private:
    void add(std::string_view name, DType type, const Worst& worst) {
        if (worst.elements == 0) return;  // the call has no such output, or nothing in it was computed
        outputs_.push_back({{"name", name},
                            {"dtype", name_of(type)},
                            {"elements", worst.elements},
                            {"error", number(worst.error)},
                            {"bound", number(worst.bound)},
                            {"ratio", number(worst.ratio)}});
        // With 1 the judge itself has said it.
        if (bound_scale_ < 1 && !(worst.ratio <= bound_scale_))
            problems_.push_back(fmt::format("{}: an error of {:.3g} is {:.3g} of its bound, more than --bound-scale {}",
                                            name, worst.error, worst.ratio, bound_scale_));
    }

    double bound_scale_;
    std::vector<std::string> problems_;
    Json outputs_ = Json::array();
    Json result_;
};

int verify(std::span<char*> arguments) {
    for (const std::string_view word : arguments) {
        if (word == "--help" || word == "-h") return std::fputs(kUsage, stdout), 0;
    }
    const Options options = parse(arguments);
    bool good = true;
    for (const Case& c : options.cases) {
        if (options.print) {
            fmt::print("{}\n", to_string(c));
            continue;
        }
        const Examination examination(c, options.bound_scale);
        good = good && examination.ok();
        fmt::print("{}\n", examination.line());
        std::fflush(stdout);
    }
    return good ? 0 : 1;
}

}  // namespace
}  // namespace flash_attention::testing

int main(int count, char** words) {
    try {
        return flash_attention::testing::verify({words + 1, static_cast<size_t>(count - 1)});
    } catch (const flash_attention::testing::UsageError& error) {
        fmt::print(stderr, "error: {}\n", error.what());
        return 2;
    } catch (const std::exception& error) {  // not enough memory for a case, or a fault of this program
        fmt::print(stderr, "error: {}\n", error.what());
        return 1;
    }
}
