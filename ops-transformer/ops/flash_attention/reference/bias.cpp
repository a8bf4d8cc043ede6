#include "reference/bias.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace flash_attention::reference {
namespace {

constexpr int64_t kStoredRows = 1024;  // of the compressed form

int64_t elements_of(const Tensor& tensor) {
    int64_t elements = 1;
    for (const int64_t extent : tensor.shape) elements *= extent;
    return elements;
}

}  // namespace

Bias::Bias(const ScoreArguments& arguments, const std::vector<Sequence>& sequences, int64_t heads)
    : arguments_(arguments), packed_(arguments.input_layout == "TND"), heads_(heads) {
    for (const Sequence& s : sequences) {
        all_keys_ += s.kv_len;
        all_pairs_ += s.q_len * s.kv_len;
        most_rows_ = std::max(most_rows_, s.q_len);
    }
    if (given()) form_ = form();
}

// In TND the forms are told apart in this order: by the first dimension, by the shape, by the number of elements.
Bias::Form Bias::form() const {
    if (arguments_.pse_type == 2 || arguments_.pse_type == 3) return Form::kSlopes;
    const std::vector<int64_t>& shape = arguments_.real_shift->shape;
    const bool stored_rows = shape.size() == 4 && shape[2] == kStoredRows;
    // With just as many rows as are stored it is an ordinary matrix, which has a gradient.
    if (!packed_) return stored_rows && most_rows_ != kStoredRows ? Form::kLastRows : Form::kMatrices;
    const int64_t one_row = heads_ * all_keys_, full = heads_ * all_pairs_, count = elements_of(*arguments_.real_shift);
    if (shape[0] == one_row) return Form::kPackedOneRow;
    if (shape[0] == full) return Form::kPacked;
    if (stored_rows && (most_rows_ != kStoredRows || count != full)) return Form::kLastRows;
    return count == one_row ? Form::kPackedOneRow : Form::kPacked;
}

double Bias::stored(int64_t index) const {
    return arguments_.real_shift->values.at(static_cast<size_t>(index));
}

// Number of the matrix of a four-dimensional tensor.
int64_t Bias::matrix(const Sequence& s, int64_t head) const {
    return (arguments_.real_shift->shape[0] == 1 ? 0 : s.index) * heads_ + head;
}

// The rows that are stored are the last of a matrix with as many rows as the longest sequence has. Sequences lie in its
// bottom right corner. A row above the stored ones is replaced by stored row `row mod 1024`, moved along, so that the
// distance stays the same; what would lie beyond its end is not known.
double Bias::from_last_rows(const Sequence& s, int64_t head, int64_t i, int64_t j) const {
    const int64_t columns = arguments_.real_shift->shape[3];
    const int64_t rows = std::max(kStoredRows, most_rows_);
    const int64_t row = rows - s.q_len + i;
    int64_t stored_row = row - (rows - kStoredRows);
    int64_t column = columns - s.kv_len + j;
    if (stored_row < 0) {
        stored_row = row % kStoredRows;
        column += (rows - kStoredRows + stored_row) - row;
    }
    if (column >= columns) return std::numeric_limits<double>::quiet_NaN();
    return stored((matrix(s, head) * kStoredRows + stored_row) * columns + column);
}

double Bias::from_slope(const Sequence& s, int64_t head, int64_t i, int64_t j) const {
    const ScoreArguments& a = arguments_;
    const bool slope_for_each_batch = a.real_shift->shape.size() == 2;
    const double slope = stored((slope_for_each_batch ? s.index * heads_ : 0) + head);
    // Only the first sequence of mode 8 can be the rest of one that was cut.
    const bool shifted = !a.atten_mask || a.sparse_mode != 8 || s.index == 0;
    double q_position = static_cast<double>(i), kv_position = static_cast<double>(j);
    if (shifted && !a.q_start_idx.empty() && !a.kv_start_idx.empty()) {
        q_position += static_cast<double>(a.q_start_idx[0]);
        kv_position += static_cast<double>(a.kv_start_idx[0]);
    }
    const double distance = std::fabs(kv_position - q_position);
    return slope * -(a.pse_type == 2 ? distance : std::sqrt(distance));
}

bool Bias::has_gradient() const {
    return given() && form_ != Form::kLastRows && form_ != Form::kSlopes;
}

int64_t Bias::entry(const Sequence& s, int64_t head, int64_t i, int64_t j) const {
    if (form_ == Form::kPacked) return heads_ * s.pairs_begin + (head * s.q_len + i) * s.kv_len + j;
    if (form_ == Form::kPackedOneRow) return heads_ * s.kv_begin + head * s.kv_len + j;
    const int64_t rows = arguments_.real_shift->shape[2];
    return (matrix(s, head) * rows + (rows == 1 ? 0 : i)) * s.kv_len + j;
}

double Bias::at(const Sequence& s, int64_t head, int64_t i, int64_t j) const {
    if (form_ == Form::kLastRows) return from_last_rows(s, head, i, j);
    if (form_ == Form::kSlopes) return from_slope(s, head, i, j);
    return stored(entry(s, head, i, j));
}

bool Bias::hides(double bias) const {
    return form_ != Form::kSlopes && bias == -std::numeric_limits<double>::infinity();
}

}  // namespace flash_attention::reference
