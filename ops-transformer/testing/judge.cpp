#include "testing/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace flash_attention::testing {
namespace {

constexpr size_t kMostSentences = 8;
constexpr int64_t kCopies = 8;  // of a row's maximum and sum
constexpr double kFp32Roundoff = 0x1p-24;

// The relative error that fp32 arithmetic may put into a weight exp(x - M) and into sums of weights, in units of 2^-24:
//   4 A    the exponent: x and M are sums of rounded terms, each wrong by up to 2 A roundings (A is the sum of the
//          absolute values of the terms); an absolute error of an exponent is a relative error of the weight. The terms
//          are the products of the features, rope parts among them, times the scale, and the bias. A bias is one more
//          term with its own roundings: of the product with the scale or the slope, of the root, of the addition
//   n/512  the sums over the n visible keys: chains of 64 terms, 8 chains a group, then groups; what grows with n is
//          the chain over groups of 512 keys
//   40     all that does not grow: the chains of 64 and of 8, the exponential, the division, the rounding of the
//          result, and with a sink one more weight in the sum, which is as wrong as the others
// Dropout brings no error into weights, maximum or sum. It leaves out some of the values and divides by the keep
// probability, whose rounding is one of the 40; the row's largest value is that of the kept keys, divided already.
double fp32_factor(const reference::Row& row) {
    return kFp32Roundoff * (40.0 + 4.0 * row.conditioning + static_cast<double>(row.visible) / 512.0);
}

// A score is wrong by half of what the exponent x - M may be.
double score_error(const reference::Row& row) {
    return kFp32Roundoff * 2.0 * row.conditioning;
}

// 16-bit types: every weight may be rounded to the type before the second product, which moves the result by one
// roundoff of the largest value; a quarter more is for an exponential of low degree (relative 2^-13) and for the sum
// that was formed of unrounded weights. The result itself is rounded once.
constexpr double kRoundedWeights = 1.25;

// The exponential of 16-bit types may be of low degree: a relative 1e-4 in the sum of weights.
constexpr double kSum16 = 1e-4;

double out_bound(DType dtype, const reference::Row& row, double reference_value) {
    const double fp32 = fp32_factor(row) * row.largest_value;
    const double last_bit = smallest_step(dtype) / 2;  // results below the normal numbers are rounded to a fixed step
    if (dtype == DType::kFp32) return fp32 + last_bit;
    const double roundoff = unit_roundoff(dtype);
    return fp32 + kRoundedWeights * roundoff * row.largest_value + roundoff * std::fabs(reference_value) + last_bit;
}

// 4 units in the last place for scaling and for the change between powers of e and of 2, plus the error of the score.
double max_bound(const reference::Row& row, double reference_value) {
    if (reference_value == 0) return score_error(row);
    const double ulp = std::max(std::ldexp(1.0, std::ilogb(std::fabs(reference_value)) - 23), 0x1p-149);
    return 4 * ulp + score_error(row);
}

double sum_bound(DType dtype, const reference::Row& row, double reference_value) {
    return (fp32_factor(row) + (dtype == DType::kFp32 ? 0.0 : kSum16)) * reference_value;
}

std::string place(const reference::Row& row) {
    if (row.sequence < 0) return fmt::format("row {} of head {}, which belongs to no sequence", row.position, row.head);
    return fmt::format("sequence {} head {} row {} ({} visible keys)", row.sequence, row.head, row.position,
                       row.visible);
}

// Judges one case; keeps the first sentences and counts the rest.
class Judge {
  public:
    Judge(const Call& call, Accuracy* accuracy) : c_(call.description), accuracy_(accuracy) {}

    void element(Quantity quantity, const reference::Row& row, int64_t column, double expected, double got) {
        if (std::isnan(expected) || std::isinf(expected)) {
            // A NaN of the formulas may come out as an infinity and the other way round: 0 * inf depends on whether a
            // weight underflowed.
            if (std::isfinite(got)) complain(quantity, row, column, expected, got, "must not be finite");
            return;
        }
        // Rows without a visible key, also those with a sink, and rows without keys are values by definition, not
        // results of arithmetic.
        const bool computed = row.kind == reference::RowKind::kOrdinary && row.visible > 0;
        const double bound = computed ? bound_of(quantity, c_.dtype, row, expected) : 0.0;
        const double error = std::fabs(got - expected);
        if (!(error <= bound)) {
            complain(quantity, row, column, expected, got, fmt::format("error {:.3g}, bound {:.3g}", error, bound));
        }
        if (accuracy_ != nullptr && computed) accuracy_->note(c_, quantity, error, bound);
    }

    void copies(Quantity quantity, const reference::Row& row, const uint32_t* bits) {
        for (int64_t copy = 1; copy < kCopies; copy++) {
            if (bits[copy] == bits[0]) continue;
            complain(quantity, row, copy, from_bits(DType::kFp32, bits[0]), from_bits(DType::kFp32, bits[copy]),
                     "the eight copies differ");
            return;
        }
    }

    void note(std::string sentence) { sentences_.add(std::move(sentence)); }

    std::vector<std::string> sentences() { return sentences_.take(); }

  private:
    void complain(Quantity quantity, const reference::Row& row, int64_t column, double expected, double got,
                  const std::string& why) {
        note(fmt::format("{} {} [{}]: {:.9g}, expected {:.9g}: {}", name_of(quantity), place(row), column, got,
                         expected, why));
    }

    const Case& c_;
    Accuracy* accuracy_;
    Sentences sentences_{kMostSentences};
};

}  // namespace

std::string_view name_of(Quantity quantity) {
    constexpr std::string_view kNames[] = {"attentionOut", "softmaxMax", "softmaxSum"};
    return kNames[static_cast<int>(quantity)];
}

double bound_of(Quantity quantity, DType dtype, const reference::Row& row, double reference_value) {
    switch (quantity) {
        case Quantity::kMax:
            return max_bound(row, reference_value);
        case Quantity::kSum:
            return sum_bound(dtype, row, reference_value);
        default:
            return out_bound(dtype, row, reference_value);
    }
}

void Worst::note(const Case& c, double new_error, double new_bound) {
    elements++;
    const double new_ratio = new_bound > 0 ? new_error / new_bound : (new_error > 0 ? INFINITY : 0.0);
    if (new_ratio <= ratio) return;
    ratio = new_ratio;
    error = new_error;
    bound = new_bound;
    description = to_string(c);
}

std::string Worst::table_head() {
    return fmt::format("{:5} {:13} {:>10} {:>12} {:>10} {:>10}  {}\n", "dtype", "quantity", "elements", "error/bound",
                       "error", "bound", "worst case");
}

std::string Worst::table_line(DType dtype, std::string_view quantity) const {
    if (elements == 0) return "";
    return fmt::format("{:5} {:13} {:>10} {:>12.3f} {:>10.2e} {:>10.2e}  {}\n", name_of(dtype), quantity, elements,
                       ratio, error, bound, description);
}

void Sentences::add(std::string sentence) {
    count_++;
    if (kept_.size() < most_) kept_.push_back(std::move(sentence));
}

std::vector<std::string> Sentences::take() {
    if (count_ > kept_.size()) kept_.push_back(fmt::format("... {} differences in all", count_));
    return std::move(kept_);
}

void Accuracy::note(const Case& c, Quantity quantity, double error, double bound) {
    worst_[static_cast<int>(c.dtype)][static_cast<int>(quantity)].note(c, error, bound);
}

const Worst& Accuracy::worst(DType dtype, Quantity quantity) const {
    return worst_[static_cast<int>(dtype)][static_cast<int>(quantity)];
}

std::string Accuracy::table() const {
    std::string text = Worst::table_head();
    for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
        for (const Quantity quantity : {Quantity::kOut, Quantity::kMax, Quantity::kSum})
            text += worst(dtype, quantity).table_line(dtype, name_of(quantity));
    }
    return text;
}

std::vector<std::string> judge(const Call& call, const reference::ScoreResult& expected, const Outputs& outputs,
                               Accuracy* accuracy) {
    Judge judge(call, accuracy);
    const Case& c = call.description;
    const size_t statistics = expected.rows.size() * kCopies;
    if (outputs.out.size() != expected.attention_out.values.size() || outputs.max.size() != statistics ||
        outputs.sum.size() != statistics) {
        judge.note("the outputs do not have the reference's sizes");
        return judge.sentences();
    }
    for (size_t r = 0; r < expected.rows.size(); r++) {
        const reference::Row& row = expected.rows[r];
        for (int64_t d = 0; d < c.dv; d++) {
            const size_t at = row.out_begin + d;
            judge.element(Quantity::kOut, row, d, expected.attention_out.values[at],
                          from_bits(c.dtype, outputs.out[at]));
        }
        const double sum = expected.softmax_sum[r];
        judge.element(Quantity::kSum, row, 0, sum, from_bits(DType::kFp32, outputs.sum[r * kCopies]));
        judge.copies(Quantity::kSum, row, &outputs.sum[r * kCopies]);
        // The maximum of a row with a NaN is whatever the order of comparisons makes of it.
        if (!std::isnan(sum)) {
            judge.element(Quantity::kMax, row, 0, expected.softmax_max[r],
                          from_bits(DType::kFp32, outputs.max[r * kCopies]));
        }
        judge.copies(Quantity::kMax, row, &outputs.max[r * kCopies]);
    }
    return judge.sentences();
}

std::vector<std::string> examine_case(const Case& c, Accuracy* accuracy) {
    const Call call = make_call(c);
    std::vector<std::string> wrong;
    auto add = [&](const std::vector<std::string>& sentences) {
        wrong.insert(wrong.end(), sentences.begin(), sentences.end());
    };

    const RunResult first = run(call);
    add(first.broken_promises);
    if (first.phase_one != 0 || first.phase_two != 0) {
        wrong.push_back(fmt::format("refused with {} in phase one and {} in phase two: {}", first.phase_one,
                                    first.phase_two, first.error_text));
    } else {
        add(judge(call, reference::score(call.arguments), first.outputs, accuracy));
        RunOptions options;
        options.workspace = WorkspaceFill::kNan;
        const RunResult second = run(call, options);
        add(second.broken_promises);
        if (second.outputs != first.outputs) wrong.push_back("the outputs depend on what the workspace held before");
    }
    return wrong;
}

std::vector<std::string> check_case(const Case& c, Accuracy* accuracy) {
    std::vector<std::string> wrong = examine_case(c, accuracy);
    for (std::string& sentence : wrong) sentence += "; " + rerun_hint(c);
    return wrong;
}

std::string rerun_hint(const Case& c) {
    return fmt::format("run again with FUSION_CASE='{}'", to_string(c));
}

std::string lines(const std::vector<std::string>& sentences) {
    std::string text;
    for (const std::string& sentence : sentences) text += sentence + "\n";
    return text;
}

}  // namespace flash_attention::testing
