#include "op_api/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>

#include "opbase/dtype.h"
#include "opbase/tensor.h"

namespace flash_attention {
namespace {

constexpr size_t kListEntriesShown = 8;

class Line {
  public:
    void add(std::string_view name, const aclTensor* tensor) {
        if (tensor == nullptr) return;
        fmt::format_to(end(), "{}={}{}, ", name, opbase::dtype_name(tensor->dtype), opbase::to_string(tensor->shape));
        if (!tensor->is_contiguous()) fmt::format_to(end(), "strides={}, ", opbase::to_string(tensor->strides));
        if (tensor->offset != 0) fmt::format_to(end(), "offset={}, ", tensor->offset);
    }

    void add(std::string_view name, const aclIntArray* list) {
        if (list == nullptr) return;
        const std::vector<int64_t>& values = list->values;
        const size_t shown = std::min(values.size(), kListEntriesShown);
        const opbase::Shape head(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(shown));
        fmt::format_to(end(), "{}={}", name, opbase::to_string(head));
        if (shown < values.size()) fmt::format_to(end(), "...({} entries, last {})", values.size(), values.back());
        text_ += ", ";
    }

    template <class Number>
    void add_number(std::string_view name, Number value) {
        fmt::format_to(end(), "{}={}, ", name, value);
    }

    void add_text(std::string_view name, const char* text) {
        if (text == nullptr) return;
        fmt::format_to(end(), "{}=\"{}\", ", name, std::string_view(text, strnlen(text, 32)));
    }

    std::string take() {
        text_.resize(text_.size() - std::strlen(", "));  // there is always something: numbers
        return std::move(text_);
    }

  private:
    std::back_insert_iterator<std::string> end() { return std::back_inserter(text_); }

    std::string text_;
};

}  // namespace

std::string describe(const ScoreRequest& request) {
    Line line;
    const ArgumentNames& names = request.names;
    line.add("query", request.query);
    line.add(names.key, request.key);
    line.add("value", request.value);
    line.add("dy", request.dy);
    line.add(names.query_rope, request.query_rope);
    line.add(names.key_rope, request.key_rope);
    line.add(names.bias, request.bias);
    line.add("dropMaskOptional", request.drop_mask);
    line.add("paddingMaskOptional", request.padding_mask);
    line.add("attenMaskOptional", request.atten_mask);
    line.add(names.sink, request.sink);
    line.add("dScaleQOptional", request.scale_q);
    line.add("dScaleKOptional", request.scale_k);
    line.add("dScaleVOptional", request.scale_v);
    line.add("dScaleDyOptional", request.scale_dy);
    line.add("dScaleOOptional", request.scale_o);
    line.add("prefixOptional", request.prefix);
    line.add("actualSeqQLenOptional", request.q_ends);
    line.add("actualSeqKvLenOptional", request.kv_ends);
    line.add("qStartIdxOptional", request.q_start);
    line.add("kvStartIdxOptional", request.kv_start);
    line.add_number("scaleValue", request.scale);
    line.add_number("keepProb", request.keep_prob);
    line.add_number("preTokens", request.pre_tokens);
    line.add_number("nextTokens", request.next_tokens);
    line.add_number("headNum", request.head_num);
    line.add_text("inputLayout", request.input_layout);
    line.add_number("innerPrecise", request.inner_precise);
    line.add_number("sparseMode", request.sparse_mode);
    if (request.out_dtype != 0) line.add_number("outDtype", request.out_dtype);
    line.add_number("pseType", request.pse_type);
    line.add_text(names.softmax_layout, request.softmax_layout);
    if (request.seed != 0) line.add_number("seed", request.seed);
    if (request.offset != 0) line.add_number("offset", request.offset);
    line.add(names.softmax_max, request.softmax_max);
    line.add(names.softmax_sum, request.softmax_sum);
    line.add(request.backward ? "softmaxInOptional" : "softmaxOutOut", request.softmax_out);
    line.add(names.attention_out, request.attention_out);
    line.add("dqOut", request.dq);
    line.add("dkOut", request.dk);
    line.add("dvOut", request.dv);
    line.add("dqRopeOut", request.dq_rope);
    line.add("dkRopeOut", request.dk_rope);
    line.add("dpseOut", request.dbias);
    line.add("dsinkOut", request.dsink);
    return line.take();
}

}  // namespace flash_attention
