// Masks: their polarity and shapes, rows that they leave without a key, and data that they hide.
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "aclnnop/aclnn_flash_attention_score.h"
#include "reported.h"

namespace flash_attention::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A call with an explicit mask of mode 1 that hides as said, run as BOOL and as UINT8 and with every innerPrecise: all
// agree with the reference and are the same bits. Gives the output as numbers.
std::vector<double> masked_output(const std::string& text, std::vector<int64_t> shape, const Hides& hides) {
    Call call = call_of(text);
    set_mask(call, std::move(shape), hides);
    const Outputs outputs = expect_agrees(call);
    call.description.byte_mask = true;
    EXPECT_TRUE(outputs_of(call) == outputs) << "UINT8, " << text;
    for (const int64_t inner_precise : {1, 2}) {
        RunOptions options;
        options.inner_precise = inner_precise;
        EXPECT_TRUE(outputs_of(call, options) == outputs) << "innerPrecise " << inner_precise << ", " << text;
    }
    return numbers(call, outputs);
}

// Rows of a head of `width` features, exactly zero or exactly not.
void expect_zero_rows(const std::vector<double>& out, int64_t width, const std::vector<bool>& zero) {
    ASSERT_EQ(out.size(), zero.size() * static_cast<size_t>(width));
    for (size_t row = 0; row < zero.size(); row++) {
        for (int64_t d = 0; d < width; d++) {
            EXPECT_EQ(out[row * static_cast<size_t>(width) + static_cast<size_t>(d)] == 0, zero[row]) << "row " << row;
        }
    }
}

std::vector<bool> repeated(const std::vector<bool>& rows, int times) {
    std::vector<bool> all;
    for (int t = 0; t < times; t++) all.insert(all.end(), rows.begin(), rows.end());
    return all;
}

// CPU-05: padding and causal masks added up to twice the sentinel gave hidden keys weight in a row without any.
TEST(RowsWithoutKeys, CPU_05_PaddingAndCausal) {
    auto hides = [](int64_t, int64_t, int64_t i, int64_t j) { return j > i || j == 0 || j == 3 || j == 4 || j == 6; };
    const std::string text = "layout=BNSD dtype=fp32 n=13 d=37 q=7 kv=7 mode=1 mask=11";
    expect_zero_rows(masked_output(text, {1, 1, 7, 7}, hides), 37,
                     repeated({true, false, false, false, false, false, false}, 13));
    Call call = call_of(text);
    set_mask(call, {1, 1, 7, 7}, hides);
    expect_only_visible_keys_count(call, 7);
}

// CPU-31: a maximum that stays at its first value gave hidden keys the weight 1. Zeros whatever innerPrecise is.
TEST(RowsWithoutKeys, CPU_31_FirstRows) {
    for (const char* dtype : {"fp16", "bf16", "fp32"}) {
        const std::string text = std::string("layout=BNSD n=2 d=8 q=4 kv=4 mode=1 mask=2d dtype=") + dtype;
        expect_zero_rows(masked_output(text, {4, 4}, [](int64_t, int64_t, int64_t i, int64_t) { return i < 2; }), 8,
                         repeated({true, true, false, false}, 2));
    }
}

// PT-03: only a corner is visible.
TEST(RowsWithoutKeys, PT_03_HalfOfThem) {
    for (const char* mode : {"0", "1"}) {
        const std::string text = std::string("layout=BNSD dtype=fp32 n=1 d=8 q=8 kv=8 mask=11 mode=") + mode;
        expect_zero_rows(
            masked_output(text, {1, 1, 8, 8}, [](int64_t, int64_t, int64_t i, int64_t j) { return i >= 4 || j >= 4; }),
            8, {false, false, false, false, true, true, true, true});
    }
}

// PT-37: whole heads without keys.
TEST(RowsWithoutKeys, PT_37_WholeHeads) {
    const std::vector<double> out =
        masked_output("layout=BNSD dtype=fp32 n=3 d=1 q=5 kv=5 mode=1 mask=bn", {1, 3, 5, 5},
                      [](int64_t, int64_t n, int64_t, int64_t) { return n < 2; });
    std::vector<bool> zero(15, true);
    std::fill(zero.begin() + 10, zero.end(), false);
    expect_zero_rows(out, 1, zero);
}

// PT-38: the last row has none; what a backward pass needs of the forward one is finite.
TEST(RowsWithoutKeys, PT_38_LastRow) {
    expect_zero_rows(masked_output("layout=BNSD dtype=fp32 n=1 d=4 q=4 kv=4 mode=1 mask=2d", {4, 4},
                                   [](int64_t, int64_t, int64_t i, int64_t) { return i == 3; }),
                     4, {false, false, false, true});
}

// CPU-08: a mask that hides nothing changes nothing, one that hides everything leaves zeros.
TEST(Polarity, CPU_08_NothingAndEverythingHidden) {
    for (const char* dtype : {"fp32", "fp16", "bf16"}) {
        const std::string text = std::string("layout=BNSD b=2 n=4 d=16 q=8 kv=8 dtype=") + dtype;
        const Call open = call_of(text);
        Call masked = open;
        masked.description.mask = MaskShape::kBN;
        masked.description.mode = masked.arguments.sparse_mode = 1;
        set_mask(masked, {2, 4, 8, 8}, [](int64_t, int64_t, int64_t, int64_t) { return false; });
        EXPECT_TRUE(outputs_of(masked) == outputs_of(open));
        set_mask(masked, {2, 4, 8, 8}, [](int64_t, int64_t, int64_t, int64_t) { return true; });
        expect_zero_rows(numbers(masked, expect_agrees(masked)), 16, std::vector<bool>(64, true));
    }
}

// ASC-14: two dimensions are [Sq, Skv], also where [B, Skv] would fit as well.
TEST(Shapes, ASC_14_TwoDimensionsAreRowsAndKeys) {
    Call call = call_of("layout=BSND dtype=fp16 b=64 n=2 d=32 q=64 kv=64 mode=0 mask=2d");
    set_mask(call, {64, 64}, [](int64_t, int64_t, int64_t i, int64_t j) { return j > i; });
    expect_agrees(call);
    std::vector<int64_t> expected;
    for (int64_t matrix = 0; matrix < 64 * 2; matrix++) {
        for (int64_t i = 0; i < 64; i++) expected.push_back(i + 1);
    }
    EXPECT_EQ(visible_counts(call), expected);
}

// ASC-43: a padded batch with a mask and the packed sequences are the same attention.
TEST(Shapes, ASC_43_PaddedBatchAndPackedSequences) {
    constexpr int64_t kLengths[] = {128, 100, 37, 1};
    constexpr int64_t kBatch = 4, kRows = 128, kWidth = 8 * 64;
    Call dense = call_of("layout=SBH dtype=bf16 b=4 n=8 d=64 q=128 kv=128 mode=1 mask=b1");
    set_mask(dense, {kBatch, 1, kRows, kRows},
             [&](int64_t b, int64_t, int64_t i, int64_t j) { return j > i || j >= kLengths[b]; });
    Call packed = call_of("layout=TND dtype=bf16 n=8 d=64 q=128,100,37,1 kv=128,100,37,1 mode=3 mask=compressed");
    auto pack = [&](const reference::Tensor& from, reference::Tensor& to) {
        to.values.clear();
        for (int64_t b = 0; b < kBatch; b++) {
            for (int64_t i = 0; i < kLengths[b]; i++) {
                const auto row = from.values.begin() + (i * kBatch + b) * kWidth;
                to.values.insert(to.values.end(), row, row + kWidth);
            }
        }
    };
    pack(dense.arguments.query, packed.arguments.query);
    pack(dense.arguments.key, packed.arguments.key);
    pack(dense.arguments.value, packed.arguments.value);
    const Outputs padded = expect_agrees(dense), alone = expect_agrees(packed);
    // Both are within the bounds of one reference; so valid rows differ by no more than twice that.
    const reference::ScoreResult r = reference::score(packed.arguments);
    const std::vector<double> a = numbers(dense, padded), b = numbers(packed, alone);
    int64_t row = 0;
    for (int64_t batch = 0; batch < kBatch; batch++) {
        for (int64_t n = 0; n < 8; n++) {
            for (int64_t i = 0; i < kLengths[batch]; i++, row++) {
                for (int64_t d = 0; d < 64; d++) {
                    const int64_t at = r.rows[row].out_begin + d;
                    const double bound =
                        2 * bound_of(Quantity::kOut, DType::kBf16, r.rows[row], r.attention_out.values[at]);
                    EXPECT_NEAR(a[(i * kBatch + batch) * kWidth + n * 64 + d], b[at], bound);
                }
            }
        }
    }
}

// PT-05: what a hidden key holds must not matter.
TEST(HiddenData, PT_05_AnyBits) {
    for (const double poison : {kNan, kInfinity, -kInfinity, 1e10}) {
        Call call = call_of("layout=BNSD dtype=fp32 n=1 d=4 q=2 kv=2 mode=1 mask=2d");
        set_mask(call, {2, 2}, [](int64_t, int64_t, int64_t, int64_t j) { return j == 1; });
        std::fill_n(call.arguments.key.values.begin() + 4, 4, poison);
        std::fill_n(call.arguments.value.values.begin() + 4, 4, poison);
        const Outputs outputs = expect_agrees(call);
        for (int64_t at = 0; at < 8; at++) {
            EXPECT_EQ(outputs.out[at], to_bits(DType::kFp32, call.arguments.value.values[at % 4])) << poison;
        }
    }
    for (const char* dtype : {"fp32", "fp16", "bf16"}) {
        for (const char* text : {"layout=BSND n=2/1 d=40 q=70 kv=150 mode=3 mask=compressed",
                                 "layout=BSND n=2/1 d=40 q=70 kv=150 mode=1 mask=2d:blocks",
                                 "layout=BSND n=2/1 d=40 q=150 kv=70 mode=5 prefix=7 mask=b1:random",
                                 "layout=BSND n=2/1 d=40 q=70 kv=150 pse=1:full:minus_inf"}) {
            EXPECT_EQ(lines(check_case(parse_case(std::string(text) + " values=hidden_nan dtype=" + dtype))), "");
        }
    }
}

// PT-06: what a visible one holds must show, and must not be taken for a row without keys.
TEST(VisibleData, PT_06_NanIsNotLaundered) {
    const std::string text = "layout=BNSD dtype=fp32 b=2 n=4 d=8 q=16 kv=16";
    auto expect_nan = [](const Call& call, const std::function<bool(int64_t)>& is_nan) {
        const std::vector<double> out = numbers(call, expect_agrees(call));
        for (size_t at = 0; at < out.size(); at++) {
            EXPECT_EQ(std::isnan(out[at]), is_nan(static_cast<int64_t>(at))) << "element " << at;
        }
    };
    Call call = call_of(text);
    std::fill(call.arguments.query.values.begin(), call.arguments.query.values.end(), kNan);
    expect_nan(call, [](int64_t) { return true; });
    constexpr int64_t kMatrix = 16 * 8;  // of one head of one batch entry
    call = call_of(text);
    call.arguments.value.values[2 * kMatrix + 3 * 8 + 5] = kNan;
    expect_nan(call, [](int64_t at) { return at / kMatrix == 2 && at % 8 == 5; });
    call = call_of(text);
    call.arguments.key.values[5 * kMatrix + 3 * 8] = kNan;
    expect_nan(call, [](int64_t at) { return at / kMatrix == 5; });
    // Beside rows without any key.
    call = call_of("layout=BNSD dtype=fp32 n=1 d=8 q=16 kv=8 mode=3 mask=compressed");
    call.arguments.key.values[0] = kNan;
    expect_nan(call, [](int64_t at) { return at >= 8 * 8; });
}

// PT-21: with one visible key the output is its value, bit for bit, and the sum is 1.
TEST(VisibleData, PT_21_OneKeyIsItsValue) {
    for (const char* dtype : {"bf16", "fp16", "fp32"}) {
        const int64_t batch = reduced(8, 3);
        Call call =
            call_of("layout=BNSD n=12/4 d=256 q=1 kv=256 scale=0.0625 mode=1 mask=b1 b=" + std::to_string(batch) +
                    " dtype=" + dtype);
        set_mask(call, {batch, 1, 1, 256}, [](int64_t b, int64_t, int64_t, int64_t j) { return j != b * 32; });
        const Outputs outputs = expect_agrees(call);
        for (int64_t row = 0; row < batch * 12; row++) {
            const int64_t b = row / 12, kv_head = row % 12 / 3;
            const int64_t value = ((b * 4 + kv_head) * 256 + b * 32) * 256;
            for (int64_t d = 0; d < 256; d++) {
                ASSERT_EQ(outputs.out[row * 256 + d],
                          to_bits(call.description.dtype, call.arguments.value.values[value + d]));
            }
            ASSERT_EQ(outputs.sum[row * 8], to_bits(DType::kFp32, 1.0));
        }
    }
}

// Memory that is 0 and costs nothing until it is written: masks of billions of bytes fit in.
class SparseBytes {
  public:
    explicit SparseBytes(int64_t bytes)
        : size_(static_cast<size_t>(bytes)),
          data_(static_cast<uint8_t*>(
              mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}
    ~SparseBytes() { munmap(data_, size_); }
    SparseBytes(const SparseBytes&) = delete;
    SparseBytes& operator=(const SparseBytes&) = delete;
    uint8_t* data() { return data_; }
    bool mapped() const { return data_ != MAP_FAILED; }

  private:
    size_t size_;
    uint8_t* data_;
};

// Of rows that see one key each, `shown(i)`: what a row gives goes to that key's value alone. The weight is 1 whatever
// the score, so that nothing but roundings is left for query and key.
void expect_gradients_of_one_key(const Call& forward, const Outputs& outputs, const aclTensor* mask,
                                 const std::function<int64_t(int64_t)>& shown) {
    const Case& c = forward.description;
    BackwardCall call;
    call.description = c;
    call.description.backward = true;
    reference::ScoreGradArguments& g = call.arguments;
    g.forward = forward.arguments;
    g.dy = g.attention_in = {out_shape(c), numbers(forward, outputs)};
    for (size_t at = 0; at < g.dy.values.size(); at++) g.dy.values[at] = static_cast<double>(at * 7 % 5) - 2;
    std::vector<double> expected(g.dy.values.size(), 0.0);
    for (int64_t i = 0; i < c.q[0]; i++) {
        g.softmax_max.push_back(from_bits(DType::kFp32, outputs.max[i * 8]));
        g.softmax_sum.push_back(from_bits(DType::kFp32, outputs.sum[i * 8]));
        for (int64_t d = 0; d < c.dv; d++) expected[shown(i) * c.dv + d] += g.dy.values[i * c.dv + d];
    }
    PreparedBackward prepared(call);
    ScoreArguments arguments = prepared.arguments();
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    arguments.atten_mask = mask;
    arguments.workspace_size = &size;
    arguments.executor = &executor;
    ASSERT_EQ(phase_one(Version::kGrad, arguments), 0) << error_text();
    GuardedMemory workspace(static_cast<int64_t>(size), 0xFF);
    ASSERT_EQ(phase_two(Version::kGrad, workspace.data(), size, executor, stream()), 0) << error_text();
    const Gradients gradients = prepared.gradients();
    const std::vector<double> got = numbers(call, gradients, kDv);
    // Of fewer than 100 rows with numbers up to 2, whose weights are 1 but for the rounding of a score below 16.
    for (size_t at = 0; at < got.size(); at++)
        ASSERT_NEAR(got[at], expected[at], 100 * 2 * 16 * 0x1p-23) << "element " << at;
    for (const Argument of_scores : {kDq, kDk}) {
        // Sums of 16 products below 10 each, of fewer than 100 rows, with numbers below 6.
        for (const double value : numbers(call, gradients, of_scores))
            ASSERT_NEAR(value, 0, 16 * 10 * 100 * 6 * 0x1p-24);
    }
}

// PT-18: an explicit mask of more than 2^31 elements, so that an index of 32 bits wraps. A window of 64 to both sides
// keeps the call cheap; inside, every row is shown one key.
TEST(Shapes, PT_18_MasksOfMoreThanTwoToTheThirtyOneElements) {
    constexpr int64_t kLength = 46342, kDim = 16;
    static_assert(kLength * kLength > (int64_t{1} << 31));
    Call call = call_of("layout=BNSD dtype=fp16 n=1 d=16 q=46342 kv=46342 mode=0 pre=64 next=64");
    auto shown = [](int64_t i) { return std::clamp<int64_t>(i - 60 + i * 7919 % 121, 0, kLength - 1); };
    SparseBytes mask(kLength * kLength);
    ASSERT_TRUE(mask.mapped());
    for (int64_t i = 0; i < kLength; i++) {
        for (int64_t j = std::max<int64_t>(0, i - 70); j < std::min(kLength, i + 71); j++) {
            mask.data()[i * kLength + j] = j != shown(i);
        }
    }
    const int64_t shape[] = {kLength, kLength}, strides[] = {kLength, 1};
    const aclTensor* tensor = aclCreateTensor(shape, 2, ACL_BOOL, strides, 0, ACL_FORMAT_ND, shape, 2, mask.data());
    PreparedCall prepared(call);
    char layout[] = "BNSD";
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(aclnnFlashAttentionScoreGetWorkspaceSize(
                  prepared.tensor(kQuery), prepared.tensor(kKey), prepared.tensor(kValue), nullptr, nullptr, nullptr,
                  tensor, nullptr, call.arguments.scale_value, 1.0, 64, 64, 1, layout, 0, 0, prepared.tensor(kMax),
                  prepared.tensor(kSum), nullptr, prepared.tensor(kOut), &size, &executor),
              0);
    GuardedMemory workspace(static_cast<int64_t>(size), 0xFF);
    ASSERT_EQ(aclnnFlashAttentionScore(workspace.data(), size, executor, stream()), 0);
    const Outputs outputs = prepared.outputs();
    for (int64_t i = 0; i < kLength; i++) {
        for (int64_t d = 0; d < kDim; d++) {
            ASSERT_EQ(outputs.out[i * kDim + d],
                      to_bits(DType::kFp16, call.arguments.value.values[shown(i) * kDim + d]))
                << "row " << i;
        }
    }
    expect_gradients_of_one_key(call, outputs, tensor, shown);
    aclDestroyTensor(tensor);
}

}  // namespace
}  // namespace flash_attention::testing
