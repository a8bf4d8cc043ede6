// Compares what the operator computed with the reference, within bounds that have a reason each (judge.cpp).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reference/score.h"
#include "testing/runner.h"

namespace flash_attention::testing {

enum class Quantity { kOut, kMax, kSum };
std::string_view name_of(Quantity quantity);  // as the headers name the arguments

// How far an element may be away from the reference.
double bound_of(Quantity quantity, DType dtype, const reference::Row& row, double reference_value);

// The worst error of a kind so far, as a share of its bound.
struct Worst {
    double ratio = 0, error = 0, bound = 0;
    int64_t elements = 0;
    std::string description;  // the case that it happened in

    void note(const Case& c, double error, double bound);
    static std::string table_head();
    std::string table_line(DType dtype, std::string_view quantity) const;
};

// The first few of many sentences, and how many there were.
class Sentences {
  public:
    explicit Sentences(size_t most) : most_(most) {}
    void add(std::string sentence);
    std::vector<std::string> take();

  private:
    size_t most_, count_ = 0;
    std::vector<std::string> kept_;
};

// Collects over many cases; printed as a table of element type and quantity.
class Accuracy {
  public:
    void note(const Case& c, Quantity quantity, double error, double bound);
    const Worst& worst(DType dtype, Quantity quantity) const;
    std::string table() const;

  private:
    Worst worst_[3][3];
};

// The first few differences as sentences; empty if the outputs are right. Every element of all three outputs is looked
// at.
std::vector<std::string> judge(const Call& call, const reference::ScoreResult& expected, const Outputs& outputs,
                               Accuracy* accuracy = nullptr);

// Runs a case twice, on a workspace of ones and on one of NaN, and judges numbers and promises. Every sentence ends
// with the environment variable that reruns this case alone.
std::vector<std::string> check_case(const Case& c, Accuracy* accuracy = nullptr);
// The same for those who name the case themselves.
std::vector<std::string> examine_case(const Case& c, Accuracy* accuracy = nullptr);

// "run again with FUSION_CASE='...'"
std::string rerun_hint(const Case& c);

// Sentences on lines of their own, for a test's message.
std::string lines(const std::vector<std::string>& sentences);

}  // namespace flash_attention::testing
