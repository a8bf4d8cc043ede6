#include "recipe.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <utility>

#include "any_call_fields.h"

namespace flash_attention::fuzzing {
namespace {

using testing::TensorSpec;
using testing::Version;
using testing::VersionTraits;

constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();
constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
constexpr int64_t kHighest = std::numeric_limits<int64_t>::max();

constexpr size_t kMostChanges = 6;
constexpr int64_t kCompressedRows = 1024;  // of a compressed bias
constexpr int64_t kLengths[] = {3, 5, 1, 2, 4, 8, 9, 16, 17, 33, 64, 65, 130, 0};
constexpr int64_t kEdges[] = {kInt32Max, 0, 1, 2, 5, 64, 65536, -1, -2, -6, kHighest, kLowest};

template <class T>
T pick(uint8_t choice, std::initializer_list<T> list) {
    return *(list.begin() + choice % list.size());
}

template <class T, size_t n>
T pick(uint8_t choice, const T (&list)[n]) {
    return list[choice % n];
}

// The legal call that a recipe describes, built in the order in which later choices need earlier ones.
class Cook {
  public:
    Cook(const Recipe& recipe, FuzzCall& result) : recipe_(recipe), result_(result), call_(result.call) {}

    void cook() {
        version_ = static_cast<Version>(recipe_.version % (testing::kVersionCount + testing::kGradVersionCount));
        choose_sizes();
        make_tensors();
        add_mask();
        add_prefix();
        add_bias();
        add_dropout();
        add_rope();
        add_numbers();
        add_texts();
        change_statistics();
        if (has().backward) turn_around();
        add_view(recipe_.view);
        add_view(recipe_.other_view);
        result_.ending = static_cast<Ending>(recipe_.ending % kEndingCount);
        result_.content = static_cast<Content>(recipe_.content % kContentCount);
        result_.hidden = recipe_.hidden;
    }

  private:
    const VersionTraits& has() const { return testing::traits(version_); }

    void choose_sizes() {
        constexpr const char* kLayouts[] = {"BNSD", "BSND", "BSH", "SBH", "TND"};
        layout_ = kLayouts[recipe_.layout % (has().tnd ? 5 : 4)];
        if (!has().dense) layout_ = "TND";
        tnd_ = std::strcmp(layout_, "TND") == 0;
        batch_ = pick<int64_t>(recipe_.batch, {2, 1, 3, 0});
        kv_heads_ = pick<int64_t>(recipe_.heads, {1, 2, 3, 0});
        heads_ = kv_heads_ == 0 ? 2 : kv_heads_ * pick<int64_t>(recipe_.group, {2, 1, 4, 3});
        d_ = pick<int64_t>(recipe_.head_dim, {8, 1, 3, 16, 20, 33, 64, 0});
        dv_ = pick<int64_t>(recipe_.value_dim, {d_, (d_ + 1) / 2, std::min<int64_t>(d_, 1), 0});
        // All sequences of a dense batch are equal; those of a packed one follow each other through the list.
        for (int64_t b = 0; b < batch_; b++) {
            const auto step = static_cast<uint8_t>(tnd_ ? b : 0);
            q_.push_back(pick(static_cast<uint8_t>(recipe_.q_length + 3 * step), kLengths));
            kv_.push_back(pick(static_cast<uint8_t>(recipe_.kv_length + 5 * step), kLengths));
        }
        // The lengths of compressed biases of dense batches, which are slow: for a single head only.
        if (!tnd_ && recipe_.q_length == 255) {
            batch_ = heads_ = kv_heads_ = d_ = dv_ = 1;
            q_ = kv_ = {kCompressedRows + 1 + recipe_.kv_length % 8};
        }
        max_q_ = q_.empty() ? 0 : *std::max_element(q_.begin(), q_.end());
        max_kv_ = kv_.empty() ? 0 : *std::max_element(kv_.begin(), kv_.end());
    }

    void make_tensors() {
        if (tnd_) {
            call_ = testing::varlen_call(q_, kv_, heads_, kv_heads_, d_);
            call_.value->shape[2] = call_.out->shape[2] = dv_;
            const int64_t rows = recipe_.slack % 4, keys = recipe_.slack / 4 % 4;
            for (testing::Tensor* t : {&call_.query, &call_.out, &call_.max, &call_.sum}) (*t)->shape[0] += rows;
            for (testing::Tensor* t : {&call_.key, &call_.value}) (*t)->shape[0] += keys;
            call_.q_ends->insert(call_.q_ends->end(), recipe_.tail % 3, 0);
            call_.kv_ends->insert(call_.kv_ends->end(), recipe_.tail % 3, 0);
            q_.resize(call_.q_ends->size(), 0);
            kv_.resize(call_.kv_ends->size(), 0);
        } else {
            const int64_t q_len = q_.empty() ? 3 : q_[0], kv_len = kv_.empty() ? 5 : kv_[0];
            call_ = testing::dense_call(layout_, {batch_, heads_, kv_heads_, q_len, kv_len, d_, dv_});
        }
        call_.version = version_;
        testing::set_dtype(call_, pick(recipe_.dtype, {ACL_FLOAT, ACL_FLOAT16, ACL_BF16}));
    }

    int64_t sequences() const { return static_cast<int64_t>(q_.size()); }

    void add_mask() {
        call_.sparse_mode = recipe_.mode % 9;
        if (recipe_.mask == 0) return;
        const int64_t shape = recipe_.mask % 128 - 1;
        TensorSpec mask{.shape = {max_q_, max_kv_}, .dtype = recipe_.mask >= 128 ? ACL_BOOL : ACL_UINT8};
        if (call_.sparse_mode <= 1 || call_.sparse_mode == 5) {
            const int64_t batch = shape % 4 == 1 ? 1 : sequences(), heads = shape % 4 == 3 ? heads_ : 1;
            if (shape % 4 != 0) mask.shape = {batch, heads, max_q_, max_kv_};
            if (tnd_ && shape / 4 % 2 == 1) mask.shape = {sum(q_), sum(kv_)};
        } else {
            mask.shape = {call_.sparse_mode == 6 ? 3072 : 2048, 2048};
            if (shape % 2 == 1) mask.shape.insert(mask.shape.begin(), {1, 1});
            mask.without_data = shape / 2 % 2 == 1;
        }
        call_.mask = mask;
        call_.pre = pick(recipe_.pre, kEdges);
        call_.next = pick(recipe_.next, kEdges);
        // Few windows suit a band whose preTokens has to cover all keys.
        if (call_.sparse_mode >= 7 && recipe_.pre % 2 == 0) call_.pre = max_kv_;
    }

    void add_prefix() {
        if (recipe_.prefix == 0) return;
        call_.prefix.emplace();
        for (size_t b = 0; b < q_.size(); b++) {
            const int64_t least = std::max<int64_t>(kv_[b] - q_[b], 0);
            call_.prefix->push_back(least + (recipe_.prefix - 1) % (kv_[b] - least + 1));
        }
    }

    void add_bias() {
        if (has().pse_type) call_.pse_type = pick<int64_t>(recipe_.pse_type, {1, 0, 2, 3});
        if (recipe_.bias == 0 && call_.pse_type == 1) return;
        const int64_t shape = recipe_.bias;
        TensorSpec bias{.shape = {heads_}};
        if (call_.pse_type >= 2) {
            if (shape % 2 == 1) bias.shape.insert(bias.shape.begin(), sequences());
            call_.real_shift = bias;
            return;
        }
        bias.dtype = call_.query->dtype;
        const int64_t batch = shape / 4 % 2 == 0 ? sequences() : 1;
        if (tnd_) {
            const int64_t pairs = std::inner_product(q_.begin(), q_.end(), kv_.begin(), int64_t{0});
            bias.shape = {heads_ * (shape % 4 == 1 ? sum(kv_) : pairs)};
            if (shape / 4 % 2 == 1) bias.shape = {bias.shape[0] / heads_, heads_};
            if (shape % 4 == 2) bias.shape = {batch, heads_, kCompressedRows, max_kv_};
        } else {
            const int64_t rows = shape % 4 == 1                               ? 1
                                 : shape % 4 == 2 && max_q_ > kCompressedRows ? kCompressedRows
                                                                              : max_q_;
            bias.shape = {batch, heads_, rows, max_kv_};
        }
        call_.real_shift = bias;
    }

    void add_dropout() {
        call_.keep_prob = pick(recipe_.keep_prob, {1.0, 0.5, 0.9, 1e-3, 1e-38});
        if (recipe_.drop_mask == 0) {
            // Backward needs the mask of forward, or seed and offset.
            if (has().backward && !has().everything) call_.keep_prob = 1.0;
            call_.seed = recipe_.hidden;
            call_.offset = recipe_.content;
            return;
        }
        const int64_t pairs = std::inner_product(q_.begin(), q_.end(), kv_.begin(), int64_t{0});
        call_.drop_mask =
            TensorSpec{.shape = {(pairs * heads_ + 7) / 8 + (recipe_.drop_mask - 1) % 4}, .dtype = ACL_UINT8};
    }

    void add_rope() {
        if (recipe_.sink > 0 && has().sink) call_.sink = TensorSpec{.shape = {heads_}};
        if (recipe_.rope == 0 || !has().rope || !tnd_ || d_ == 0) return;
        const int64_t features = 1 + (recipe_.rope - 1) % d_;
        testing::set_dtype(call_, ACL_BF16);
        call_.query_rope = TensorSpec{.shape = {call_.query->shape[0], heads_, features}, .dtype = ACL_BF16};
        call_.key_rope = TensorSpec{.shape = {call_.key->shape[0], kv_heads_, features}, .dtype = ACL_BF16};
        call_.real_shift.reset();
        call_.drop_mask.reset();
        call_.keep_prob = 1.0;
        call_.pse_type = 1;
        if (call_.mask && call_.sparse_mode != 6) return;
        call_.sparse_mode = 2;
        call_.mask = testing::compressed_mask();
    }

    void add_numbers() {
        call_.scale = pick(recipe_.scale, {0.5, 0.0883883, 0.0, -1.0, 1e-30, 3e38, -40.0});
        call_.inner_precise = recipe_.ending / kEndingCount % 4;
        if (!has().pse_type || recipe_.starts == 0) return;
        const int64_t q = pick<int64_t>(recipe_.starts, {0, 1, -3, 70, int64_t{1} << 60, -(int64_t{1} << 60)});
        call_.q_start = testing::list({q});
        if (recipe_.starts % 16 != 15) call_.kv_start = testing::list({q / 2, kHighest});
        // Slopes of mode 8 need the start that makes up for the first sequence's lengths.
        if (recipe_.starts >= 128 && !q_.empty()) {
            call_.q_start = testing::list({kv_[0]});
            call_.kv_start = testing::list({q_[0]});
        }
    }

    void add_texts() {
        result_.layout = layout_;
        if (recipe_.layout >= 128) {
            for (char& letter : result_.layout) letter = static_cast<char>(letter - 'A' + 'a');
        }
        call_.layout = result_.layout.c_str();
        if (!has().softmax_layout || recipe_.stats_layout % 4 == 0) return;
        result_.softmax_out_layout = pick<const char*>(recipe_.stats_layout, {"", "same_as_input", "", "TND"});
        // Backward refuses what forward does not look at.
        if (has().backward && (!tnd_ || recipe_.stats_layout % 4 == 3)) return;
        call_.softmax_out_layout = result_.softmax_out_layout.c_str();
    }

    void change_statistics() {
        if (!tnd_ || has().backward) return;
        const int64_t rows = call_.query->shape[0];
        call_.max->shape = pick<std::vector<int64_t>>(recipe_.stats_shape,
                                                      {{rows, heads_, 8}, {rows * heads_, 8}, {1, heads_, rows, 8}});
        call_.sum->shape = pick<std::vector<int64_t>>(recipe_.stats_shape / 3,
                                                      {{rows, heads_, 8}, {rows * heads_, 8}, {1, heads_, rows, 8}});
    }

    // The same attention's gradients.
    void turn_around() {
        call_ = testing::backward_of(std::move(call_), version_);
        if (recipe_.bias >= 128) call_.dpse = call_.real_shift;
        // Rows and keys of no sequence need zeros at the end of the lists.
        if (!tnd_ || recipe_.slack % 4 == 0 || recipe_.slack / 4 % 4 == 0 || recipe_.tail % 3 != 0) return;
        call_.q_ends->push_back(0);
        call_.kv_ends->push_back(0);
        if (call_.prefix) call_.prefix->push_back(0);
    }

    // Other ways to lie in memory for one tensor.
    void add_view(uint8_t choice) {
        constexpr testing::Tensor Call::*kViews[] = {
            &Call::query, &Call::key,       &Call::value, &Call::mask,       &Call::real_shift, &Call::out,
            &Call::max,   &Call::drop_mask, &Call::sink,  &Call::query_rope, &Call::key_rope,   &Call::sum,
            &Call::dy,    &Call::dq,        &Call::dk,    &Call::dv,         &Call::dpse,       &Call::dsink};
        constexpr int kOfForward = 12;
        if (choice == 0) return;
        const int count = has().backward ? static_cast<int>(std::size(kViews)) : kOfForward;
        const auto field = kViews[choice % count];
        const bool is_output = testing::is_output(field, has().backward);
        testing::Tensor& tensor = call_.*field;
        if (!tensor || tensor->without_data) return;
        const std::vector<int64_t>& shape = tensor->shape;
        std::vector<int64_t> strides(shape.size());
        const int way = choice / count % 4;
        int64_t step = way == 1 ? 2 : 1;
        for (size_t i = 0; i < shape.size(); i++) {
            const size_t axis = way == 0 ? i : shape.size() - 1 - i;  // transposed, or with gaps
            strides[axis] = step;
            step = step * std::max<int64_t>(shape[axis], 1) + (way == 2 ? 3 : 0);
        }
        if (way == 3 && !is_output && !shape.empty()) strides[choice / 4 % shape.size()] = 0;
        tensor->strides = strides;
        tensor->offset = way;
    }

    static int64_t sum(const std::vector<int64_t>& lengths) {
        return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    }

    const Recipe& recipe_;
    FuzzCall& result_;
    Call& call_;
    Version version_{};
    const char* layout_ = nullptr;
    bool tnd_ = false;
    int64_t batch_ = 0, heads_ = 0, kv_heads_ = 0, d_ = 0, dv_ = 0;
    std::vector<int64_t> q_, kv_;  // of each batch entry
    int64_t max_q_ = 0, max_kv_ = 0;
};

}  // namespace

void cook(const Recipe& recipe, FuzzCall& result) {
    Cook(recipe, result).cook();
}

void read_call(const uint8_t* data, size_t size, FuzzCall& result) {
    Recipe recipe;
    const size_t used = std::min(size, sizeof recipe);
    if (used > 0) std::memcpy(&recipe, data, used);
    cook(recipe, result);
    const size_t changes = std::min((size - used) / sizeof(Change), kMostChanges);
    for (size_t i = 0; i < changes; i++) {
        Change change;
        std::memcpy(&change, data + used + i * sizeof change, sizeof change);
        apply(change, result);
    }
}

std::vector<uint8_t> to_bytes(const Recipe& recipe, const std::vector<Change>& changes) {
    std::vector<uint8_t> bytes(sizeof recipe + changes.size() * sizeof(Change));
    std::memcpy(bytes.data(), &recipe, sizeof recipe);
    if (!changes.empty()) std::memcpy(bytes.data() + sizeof recipe, changes.data(), changes.size() * sizeof(Change));
    return bytes;
}

}  // namespace flash_attention::fuzzing
