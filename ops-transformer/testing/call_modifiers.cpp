// The data of bias, drop mask, sink and rope parts.
#include <algorithm>
#include <cmath>

#include "dropout_gen_mask/reference/mask.h"
#include "testing/call_data.h"
#include "testing/call_memory.h"

namespace flash_attention::testing {
namespace {

// Rows of a compressed bias.
constexpr int64_t kCompressedRows = 1024;

enum Stream : uint64_t { kBiasStream = 1, kDropStream, kSinkStream, kRopeStream };

Random stream_of(const Case& c, Stream stream) {
    return Random(c.seed * 0x9E3779B97F4A7C15U + stream);
}

bool is_row(PseShape shape) {
    return shape == PseShape::kRow || shape == PseShape::kRow1 || shape == PseShape::kRowAny;
}

int64_t longest(const std::vector<int64_t>& lengths) {
    return *std::max_element(lengths.begin(), lengths.end());
}

// A bias is a list of blocks [N, rows, columns], one for each batch entry or sequence, or one for all. The entry at row
// r and column k belongs to query rows and keys with j - i = k - r + diagonal.
struct Block {
    int64_t batch, rows, columns, diagonal;
};

std::vector<Block> bias_blocks(const Case& c) {
    std::vector<Block> blocks;
    const bool shared = c.pse == PseShape::kFull1 || c.pse == PseShape::kRow1 || c.pse == PseShape::kCompressed1;
    if (c.compressed_bias()) {
        const int64_t columns = longest(c.kv);
        for (int64_t b = 0; b < (shared ? 1 : c.sequences()); b++)
            blocks.push_back({b, kCompressedRows, columns, kCompressedRows - columns});
        return blocks;
    }
    for (int64_t b = 0; b < (shared ? 1 : c.sequences()); b++) {
        const auto sequence = static_cast<size_t>(c.varlen() ? b : 0);
        if (sequence >= c.q.size()) break;  // trailing zeros have no entries
        blocks.push_back({b, is_row(c.pse) ? 1 : c.q[sequence], c.kv[sequence], 0});
    }
    return blocks;
}

int64_t bias_count(const Case& c) {
    int64_t count = 0;
    for (const Block& block : bias_blocks(c)) count += c.heads * block.rows * block.columns;
    return count;
}

// The usual slopes of ALiBi: a geometric series over the heads; other batch entries have others.
double alibi_slope(const Case& c, int64_t batch, int64_t head) {
    return std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(c.heads)) * (1.0 + 0.25 * batch);
}

// A function of the distance alone. Keys ahead count half, so that an exchange of rows and keys is noticed.
double alibi(double slope, int64_t distance) {
    return static_cast<double>(distance) * (distance > 0 ? -0.5 * slope : slope);
}

void fill_slopes(const Case& c, std::vector<double>& values, Random& random) {
    std::uniform_real_distribution<double> uniform(-0.3, 0.7);
    std::normal_distribution<double> normal;
    for (size_t i = 0; i < values.size(); i++) {
        const auto batch = static_cast<int64_t>(i) / c.heads, head = static_cast<int64_t>(i) % c.heads;
        values[i] = uniform(random);
        if (c.pse_values == PseValues::kLarge) values[i] = 30.0 * normal(random);
        if (c.pse_values == PseValues::kAlibi) values[i] = alibi_slope(c, batch, head);
    }
}

void fill_bias(const Case& c, std::vector<double>& values, Random& random) {
    std::normal_distribution<double> normal;
    // As large as the scores, or for the scaled type as large as q.k.
    const double usual = c.pse_type == 1 ? std::sqrt(static_cast<double>(c.d)) : 1.0;
    const double factor = c.pse_values == PseValues::kLarge ? 300.0 : usual;
    size_t at = 0;
    for (const Block& block : bias_blocks(c)) {
        for (int64_t row = 0; row < c.heads * block.rows; row++) {
            const int64_t n = row / block.rows, r = row % block.rows;
            const double slope = alibi_slope(c, block.batch, n);
            const bool hides_all = c.pse_values == PseValues::kMinusInf && below(random, 10) == 0;
            for (int64_t k = 0; k < block.columns; k++, at++) {
                const bool toeplitz = c.pse_values == PseValues::kAlibi;
                values[at] = toeplitz ? alibi(slope, k - r + block.diagonal) : factor * normal(random);
                if (hides_all || (c.pse_values == PseValues::kMinusInf && below(random, 4) == 0))
                    values[at] = -kInfinity;
            }
        }
    }
}

// Where in its block [rows, columns] row i and key j of a sequence find their bias; -1 if nowhere. The matrix that a
// compressed bias stands for has all rows of the longest sequence; its last ones are stored, the others read the entry
// of the same distance in row i % 1024. Sequences lie in its bottom right corner.
int64_t entry_of(const Case& c, const reference::Sequence& s, const Block& block, int64_t i, int64_t j) {
    if (!c.compressed_bias()) return (block.rows == 1 ? 0 : i) * block.columns + j;
    const int64_t rows = std::max(kCompressedRows, longest(c.q));
    i += rows - s.q_len;
    j += block.columns - s.kv_len;
    int64_t r = i - (rows - kCompressedRows);
    if (r < 0) {
        r = i % kCompressedRows;
        j = j + rows - i - kCompressedRows + r;
    }
    return j < block.columns ? r * block.columns + j : -1;
}

// NaN and infinities wherever no row reads.
void hide_nan_in_bias(const Case& c, const reference::ScoreArguments& a, std::vector<double>& values, Random& random) {
    if (c.slopes()) return;
    std::vector<bool> read(values.size(), false);
    const std::vector<Block> blocks = bias_blocks(c);
    std::vector<int64_t> begins{0};
    for (const Block& block : blocks) begins.push_back(begins.back() + c.heads * block.rows * block.columns);
    for (const reference::Sequence& s : reference::sequences_of(a)) {
        const size_t b = blocks.size() == 1 ? 0 : static_cast<size_t>(s.index);
        if (b >= blocks.size()) break;
        for (int64_t row = 0; row < c.heads * s.q_len; row++) {
            const int64_t n = row / s.q_len, i = row % s.q_len;
            for (int64_t j = 0; j < s.kv_len; j++) {
                const int64_t entry = entry_of(c, s, blocks[b], i, j);
                if (entry < 0 || !reference::sees(a, s, n, i, j)) continue;
                read[begins[b] + n * blocks[b].rows * blocks[b].columns + entry] = true;
            }
        }
    }
    for (size_t i = 0; i < values.size(); i++) {
        if (!read[i]) values[i] = poison(random);
    }
}

void add_bias(const Case& c, reference::ScoreArguments& a) {
    Random random = stream_of(c, kBiasStream);
    reference::Tensor bias{bias_shape(c), {}};
    bias.values.resize(element_count(bias.shape));
    if (c.slopes()) {
        fill_slopes(c, bias.values, random);
    } else {
        fill_bias(c, bias.values, random);
    }
    if (c.values == Values::kHiddenNan) hide_nan_in_bias(c, a, bias.values, random);
    if (c.values == Values::kVisibleNan) make_visible_nan(bias.values, random);
    apply_expansion(c.views[kPse], bias.shape, bias.values);
    for (double& value : bias.values) value = rounded(bias_type(c), value);
    a.real_shift = std::move(bias);
}

// The bits that the operator has to make itself: those of the share to drop, taken as a float, in the type of query.
std::vector<uint8_t> bits_from_seed(const Case& c) {
    const double share = 1.0F - static_cast<float>(c.keep);
    return dropout_gen_mask::reference::mask(static_cast<uint64_t>(c.drop_seed), static_cast<uint64_t>(c.drop_offset),
                                             share, acl_type(c.dtype), 0, element_count(drop_mask_shape(c)));
}

void add_drop_mask(const Case& c, reference::ScoreArguments& a) {
    if (c.drop == DropShape::kFromSeed) {
        if (static_cast<float>(c.keep) < 1) a.drop_mask = bits_from_seed(c);
        return;
    }
    Random random = stream_of(c, kDropStream);
    std::bernoulli_distribution keeps(c.keep < 1 ? c.keep : 0.5);
    const std::vector<int64_t> shape = drop_mask_shape(c);
    std::vector<uint8_t> bytes(element_count(shape), c.drop_bits == DropBits::kOnes ? 0xFF : 0);
    if (c.drop_bits == DropBits::kRandom) {
        for (uint8_t& byte : bytes) {
            for (int bit = 0; bit < 8; bit++) byte |= static_cast<uint8_t>(keeps(random) << bit);
        }
    }
    apply_expansion(c.views[kDrop], shape, bytes);
    a.drop_mask = std::move(bytes);
}

void add_sink(const Case& c, reference::ScoreArguments& a) {
    Random random = stream_of(c, kSinkStream);
    std::normal_distribution<double> normal;
    a.sink.resize(c.heads);
    for (int64_t n = 0; n < c.heads; n++) {
        a.sink[n] = normal(random) * (c.sink == Sink::kLarge ? 500.0 : 1.0);
        if (c.sink == Sink::kMinusInf && (n + c.seed) % 2 == 0) a.sink[n] = -kInfinity;
    }
    if (c.values == Values::kVisibleNan && below(random, 4) == 0) make_visible_nan(a.sink, random);
    apply_expansion(c.views[kSink], {c.heads}, a.sink);
    for (double& value : a.sink) value = rounded(DType::kFp32, value);
}

// The rope part of query or key. Where values=hidden_nan has put NaN into all features of a row, the rope part gets it
// as well.
reference::Tensor make_rope(const Case& c, const reference::Tensor& features, double factor, View view,
                            Random& random) {
    reference::Tensor rope{features.shape, {}};
    rope.shape.back() = c.rope;
    rope.values.resize(element_count(rope.shape));
    fill(rope.values, random, c.values, factor);
    if (c.values == Values::kHighKey) std::fill(rope.values.begin(), rope.values.end(), 0.5);
    if (c.values == Values::kVisibleNan) make_visible_nan(rope.values, random);
    if (c.values == Values::kHiddenNan) {
        for (size_t at = 0; at < rope.values.size(); at++) {
            const double feature = features.values[at / c.rope * c.d];
            if (!std::isfinite(feature)) rope.values[at] = poison(random);
        }
    }
    apply_expansion(view, rope.shape, rope.values);
    for (double& value : rope.values) value = rounded(DType::kBf16, value);
    return rope;
}

void add_rope(const Case& c, reference::ScoreArguments& a) {
    Random random = stream_of(c, kRopeStream);
    a.query_rope = make_rope(c, a.query, query_factor(c), c.views[kQueryRope], random);
    a.key_rope = make_rope(c, a.key, key_factor(c), c.views[kKeyRope], random);
}

}  // namespace

DType bias_type(const Case& c) {
    return c.slopes() ? DType::kFp32 : c.dtype;
}

std::vector<int64_t> bias_shape(const Case& c) {
    const int64_t q_len = longest(c.q), kv_len = longest(c.kv);
    switch (c.pse) {
        case PseShape::kSlopes:
            return {c.sequences(), c.heads};
        case PseShape::kSlopes1:
            return {c.heads};
        case PseShape::kCompressed:
            return {c.sequences(), c.heads, kCompressedRows, kv_len};
        case PseShape::kCompressed1:
            return {1, c.heads, kCompressedRows, kv_len};
        case PseShape::kFullAny:
        case PseShape::kRowAny:
            return {1, c.heads, bias_count(c) / c.heads};
        case PseShape::kFull1:
            return {1, c.heads, q_len, kv_len};
        case PseShape::kRow1:
            return {1, c.heads, 1, kv_len};
        case PseShape::kFull:
            if (c.varlen()) return {bias_count(c)};
            return {c.batch, c.heads, q_len, kv_len};
        case PseShape::kRow:
            if (c.varlen()) return {bias_count(c)};
            return {c.batch, c.heads, 1, kv_len};
        default:
            return {};
    }
}

int64_t score_count(const Case& c) {
    int64_t pairs = 0;
    for (size_t b = 0; b < c.q.size(); b++) pairs += c.q[b] * c.kv[b];
    return c.batch * c.heads * pairs;
}

std::vector<int64_t> drop_mask_shape(const Case& c) {
    const int64_t bytes = (score_count(c) + 7) / 8;
    switch (c.drop) {
        case DropShape::kRounded:
            return {(score_count(c) + 127) / 128 * 16};
        case DropShape::kLonger:
            return {bytes + 37};
        case DropShape::kOdd:
            return {3, 1, (bytes + 2) / 3};
        default:
            return {bytes};
    }
}

void add_modifiers(const Case& c, reference::ScoreArguments& a) {
    a.pse_type = c.pse_type;
    a.q_start_idx = c.q_start;
    a.kv_start_idx = c.kv_start;
    a.keep_prob = c.keep;
    a.softmax_out_layout = c.stats;
    if (c.biased()) add_bias(c, a);
    if (c.drop != DropShape::kNone) add_drop_mask(c, a);
    if (c.sink != Sink::kNone) add_sink(c, a);
    if (c.rope > 0) add_rope(c, a);
}

}  // namespace flash_attention::testing
