// The judge of backward: what aclnnFlashAttentionScoreGrad and aclnnFlashAttentionUnpaddingScoreGrad have to compute,
// in double precision and plain loops.
//
//   p(i,j)  = exp(x(i,j) - M_i) / L_i               x as in forward; M and L as they are given, not computed again
//   k(i,j)  = kept(i,j) / keep_prob, or 1 without dropout
//   delta_i = sum over d of dY[i,d] * O[i,d]        O as it is given
//   dS(i,j) = p * ((sum over d of dY[i,d] * V[j,d]) * k - delta_i)
//   dV[j]   = sum over rows and heads of the group of p * k * dY[i]
//   dQ[i]   = scale * sum over j of dS * K[j]
//   dK[j]   = scale * sum over rows and heads of the group of dS * Q[i]
//   dBias   = scale * dS for bias type 1, dS for type 0, summed over all pairs that read the entry
//   dSink   = - sum over rows and batch of exp(sink - M_i) / L_i * delta_i
//
// Pairs that are hidden, rows that see nothing, rows without keys and sinks of minus infinity add nothing, whatever
// numbers they have.
#pragma once

#include "reference/score.h"

namespace flash_attention::reference {

struct ScoreGradArguments {
    ScoreArguments forward;                        // softmax_out_layout is the layout of the statistics given
    Tensor dy, attention_in;                       // in the shape of attention_out
    std::vector<double> softmax_max, softmax_sum;  // one number a row, as ScoreResult has them
};

// A gradient, and for each of its elements what error bounds need. An element is a sum of terms; each is a weight, p *
// k or dS, times a coefficient, which is an element of an operand (times the scale).
struct Gradient {
    std::vector<int64_t> shape;
    std::vector<double> values;
    std::vector<double> absolute;  // sum of the absolute values of the terms
    // What the roundings on the way to a weight move the element by, in roundoffs. Each of the numbers that are added
    // up into the exponent can bring a roundoff of the weight, each of those that are added up into dP - delta a
    // roundoff of itself:
    //   sum of |term| * (sum of |summands of x| + |M| + |log L|) + p * (sum |dY V| * k + sum |dY O|) * |coefficient|
    std::vector<double> uncertain;
    std::vector<double> coefficients;  // sum of their absolute values
    int64_t terms = 0;                 // the most that an element has

    bool given() const { return !shape.empty(); }
};

struct ScoreGradResult {
    Gradient dq, dk, dv;
    Gradient dq_rope, dk_rope;  // with rope parts
    Gradient dpse;              // with a bias; zeros if that is slopes or compressed
    Gradient dsink;             // with a sink
    // The largest sum of absolute values that is added up into a dP - delta, at least 1: what a weight p is multiplied
    // with before it meets a coefficient.
    double largest_factor = 1;
};

ScoreGradResult score_grad(const ScoreGradArguments& arguments);

}  // namespace flash_attention::reference
