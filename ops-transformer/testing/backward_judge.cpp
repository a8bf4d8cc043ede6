#include "testing/backward_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace flash_attention::testing {
namespace {

constexpr size_t kMostSentences = 8;
constexpr double kFp32Roundoff = 0x1p-24;

// A gradient is a sum of terms: a weight, p * k or dS, times a coefficient. In units of 2^-24 its error is
//   (40 + n/512) * sum of |terms|   as for the sums of forward: what does not grow with the number n of terms, which is
//                                   the chains of 64 and of 8, the exponential, the factors k and scale, the division
//                                   by L; and the chain over groups of 512 terms
//   4 * uncertain                   what comes with a weight. The exponent of p is a sum of the products of features,
//                                   the bias, M and log L; each brings up to 2 roundings, of itself and of the
//                                   addition, and an absolute error of an exponent is a relative error of the weight.
//                                   dP and delta are sums of products likewise. Twice that, since the sums are scaled,
//                                   subtracted and multiplied and the powers are those of 2
// M, L and O are the operator's arguments, so they bring no error: the reference has got the same rounded numbers. An
// error of the attentionIn of 16 bits is in delta on both sides.
constexpr double kPerTerm = 40, kPerUncertainty = 4, kTermsOfAGroup = 512;

// 16-bit types: P and dS may be rounded to the type before the products, which moves each term by a roundoff; a quarter
// more is for an exponential of low degree (relative 2^-13), as in forward.
constexpr double kRoundedWeights = 1.25;

// Weights and sums below the normal numbers of fp32 may become 0, so may results.
constexpr double kSmallestNormal = 0x1p-126;

double largest_finite(DType dtype) {
    switch (dtype) {
        case DType::kFp16:
            return 65504;
        case DType::kBf16:
            return 0x1.FEp127;
        default:
            return 0x1.FFFFFEp127;
    }
}

std::string place(const std::vector<int64_t>& shape, size_t at) {
    std::string text;
    auto rest = static_cast<int64_t>(at);
    for (size_t k = shape.size(); k-- > 0;) {
        text = fmt::format("{}{}{}", rest % shape[k], text.empty() ? "" : ", ", text);
        rest /= shape[k];
    }
    return "[" + text + "]";
}

}  // namespace

double gradient_bound(const reference::ScoreGradResult& expected, const reference::Gradient& g, size_t at, DType dtype,
                      DType result) {
    const double fp32 = kFp32Roundoff * ((kPerTerm + static_cast<double>(g.terms) / kTermsOfAGroup) * g.absolute[at] +
                                         kPerUncertainty * g.uncertain[at]);
    // A weight that became 0 takes a factor with it: dP - delta, or for dV none.
    double smallest_weight = kSmallestNormal * expected.largest_factor;
    double rounded_weights = 0;
    if (dtype != DType::kFp32) {
        rounded_weights = kRoundedWeights * unit_roundoff(dtype) * g.absolute[at];
        smallest_weight += smallest_step(dtype) / 2;
    }
    const double last_bit = std::max(smallest_step(result) / 2, kSmallestNormal);
    return fp32 + rounded_weights + smallest_weight * g.coefficients[at] +
           unit_roundoff(result) * std::fabs(g.values[at]) + last_bit;
}

const reference::Gradient& gradient_of(const reference::ScoreGradResult& r, Argument gradient) {
    switch (gradient) {
        case kDq:
            return r.dq;
        case kDk:
            return r.dk;
        case kDv:
            return r.dv;
        case kDqRope:
            return r.dq_rope;
        case kDkRope:
            return r.dk_rope;
        case kDpse:
            return r.dpse;
        default:
            return r.dsink;
    }
}

void GradientAccuracy::note(const Case& c, Argument gradient, double error, double bound) {
    worst_[{c.dtype, gradient}].note(c, error, bound);
}

const Worst& GradientAccuracy::worst(DType dtype, Argument gradient) const {
    static const Worst none;
    const auto found = worst_.find({dtype, gradient});
    return found == worst_.end() ? none : found->second;
}

std::string GradientAccuracy::table() const {
    std::string text = Worst::table_head();
    for (const auto& [of, worst] : worst_) text += worst.table_line(of.first, name_of(of.second));
    return text;
}

std::vector<std::string> judge(const BackwardCall& call, const reference::ScoreGradResult& expected,
                               const Gradients& gradients, GradientAccuracy* accuracy) {
    const Case& c = call.description;
    Sentences sentences(kMostSentences);
    for (size_t index = 0; index < kGradientCount; index++) {
        const Argument argument = kGradientArguments[index];
        const reference::Gradient& g = gradient_of(expected, argument);
        const std::vector<uint32_t>& bits = gradients[index];
        const bool wanted = g.given() && (argument != kDpse || c.dpse == Dpse::kWanted);
        if (bits.size() != (wanted ? g.values.size() : 0)) {
            sentences.add(fmt::format("{} has {} elements, expected {}", name_of(argument), bits.size(),
                                      wanted ? g.values.size() : 0));
            continue;
        }
        const DType type = gradient_type(c, argument);
        for (size_t at = 0; at < bits.size(); at++) {
            const double value = g.values[at], got = from_bits(type, bits[at]);
            auto complain = [&](const std::string& why) {
                sentences.add(fmt::format("{} {}: {:.9g}, expected {:.9g}: {}", name_of(argument), place(g.shape, at),
                                          got, value, why));
            };
            if (!std::isfinite(value)) {
                // Which of NaN and infinity it is depends on whether a weight underflowed.
                if (std::isfinite(got)) complain("must not be finite");
                continue;
            }
            // An element without terms is 0 by definition: of hidden rows and keys, of slopes, of what belongs to no
            // sequence.
            const double bound =
                g.coefficients[at] == 0 && value == 0 ? 0.0 : gradient_bound(expected, g, at, c.dtype, type);
            // What rounds to infinity in the type may do so.
            const bool overflows = std::isinf(got) && std::fabs(value) + bound > largest_finite(type) &&
                                   std::signbit(got) == std::signbit(value);
            const double error = overflows ? 0.0 : std::fabs(got - value);
            if (!(error <= bound)) complain(fmt::format("error {:.3g}, bound {:.3g}", error, bound));
            if (accuracy != nullptr && bound > 0) accuracy->note(c, argument, error, bound);
        }
    }
    return sentences.take();
}

std::vector<std::string> examine_backward_case(const Case& c, GradientAccuracy* accuracy,
                                               const BackwardOperator& computes) {
    const BackwardCall call = make_backward_call(c);
    std::vector<std::string> wrong;
    auto add = [&](const std::vector<std::string>& sentences) {
        wrong.insert(wrong.end(), sentences.begin(), sentences.end());
    };
    const BackwardResult first = run(call, {}, computes);
    add(first.broken_promises);
    if (first.phase_one != 0 || first.phase_two != 0) {
        wrong.push_back(fmt::format("refused with {} in phase one and {} in phase two: {}", first.phase_one,
                                    first.phase_two, first.error_text));
    } else {
        add(judge(call, reference::score_grad(call.arguments), first.gradients, accuracy));
        RunOptions options;
        options.workspace = WorkspaceFill::kNan;
        const BackwardResult second = run(call, options, computes);
        add(second.broken_promises);
        if (second.gradients != first.gradients)
            wrong.push_back("the gradients depend on what the workspace held before");
    }
    return wrong;
}

std::vector<std::string> check_backward_case(const Case& c, GradientAccuracy* accuracy,
                                             const BackwardOperator& computes) {
    std::vector<std::string> wrong = examine_backward_case(c, accuracy, computes);
    Case described = c;
    described.backward = true;  // the tests of backward rerun it
    for (std::string& sentence : wrong) sentence += "; " + rerun_hint(described);
    return wrong;
}

}  // namespace flash_attention::testing
