// The positional bias of a call, whatever the shape in which it is given.
#pragma once

#include "reference/score.h"

namespace flash_attention::reference {

class Bias {
  public:
    // `heads` of the query. Keeps a reference to the arguments.
    Bias(const ScoreArguments& arguments, const std::vector<Sequence>& sequences, int64_t heads);

    bool given() const { return arguments_.real_shift.has_value(); }
    // Whether the scale multiplies the bias too.
    bool inside_scale() const { return arguments_.pse_type == 1; }
    // What is added for row i of head n and key j, both counted from the start of the sequence.
    double at(const Sequence& sequence, int64_t head, int64_t i, int64_t j) const;
    // Whether the bias is stored as a tensor with an entry of its own for each row or for all rows of a key, so that it
    // has a gradient of that shape. A compressed bias and slopes have none.
    bool has_gradient() const;
    // The entry that row i and key j read, of a bias that has a gradient.
    int64_t entry(const Sequence& sequence, int64_t head, int64_t i, int64_t j) const;
    // Minus infinity in a given tensor takes the key away like a mask. (Generated values are only numbers.)
    bool hides(double bias) const;

  private:
    enum class Form {
        kMatrices,      // [B or 1, N, Sq or 1, Skv]
        kLastRows,      // [B or 1, N, 1024, Skv]: the end of a matrix that depends on the distance only
        kPacked,        // TND: for each sequence [N, Sq_b, Skv_b]
        kPackedOneRow,  // TND: for each sequence [N, Skv_b]
        kSlopes,        // [B, N] or [N]
    };
    Form form() const;
    double stored(int64_t index) const;
    int64_t matrix(const Sequence& sequence, int64_t head) const;
    double from_last_rows(const Sequence& sequence, int64_t head, int64_t i, int64_t j) const;
    double from_slope(const Sequence& sequence, int64_t head, int64_t i, int64_t j) const;

    const ScoreArguments& arguments_;
    bool packed_;
    int64_t heads_;
    int64_t all_keys_ = 0, all_pairs_ = 0;  // of all sequences
    int64_t most_rows_ = 0;                 // of a sequence
    Form form_ = Form::kMatrices;
};

}  // namespace flash_attention::reference
