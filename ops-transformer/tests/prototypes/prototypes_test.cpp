// op_proto/attention_proto.h, read as a tool would: with macros that write down what they are told.
#include <gtest/gtest.h>

#include <initializer_list>
#include <map>
#include <sstream>
#include <string>

namespace ge {
namespace {

struct TensorType {
    std::string text;
    TensorType(std::initializer_list<const char*> types) {
        for (const char* type : types) text += (text.empty() ? "" : " ") + std::string(type);
    }
};
constexpr const char *DT_FLOAT16 = "fp16", *DT_BF16 = "bf16", *DT_FLOAT32 = "fp32", *DT_INT64 = "int64",
                     *DT_UINT8 = "uint8", *DT_BOOL = "bool";

std::map<std::string, std::string>& prototypes() {
    static std::map<std::string, std::string> all;
    return all;
}

class Prototype {
  public:
    explicit Prototype(const char* name) : name_(name) {}
    Prototype& tensor(const char* kind, const char* name, const TensorType& types) {
        text_ << kind << ' ' << name << ": " << types.text << '\n';
        return *this;
    }
    template <class Value>
    Prototype& attribute(const char* name, const char* type, const Value& value) {
        text_ << "attribute " << name << ": " << type << ' ' << value << '\n';
        return *this;
    }
    bool end(const char* name) {
        EXPECT_EQ(name_, name);
        return prototypes().emplace(name_, text_.str()).second;
    }

  private:
    std::string name_;
    std::ostringstream text_;
};

}  // namespace
}  // namespace ge

#define REG_OP(name) [[maybe_unused]] const bool k##name = Prototype(#name)
#define INPUT(name, types) tensor("input", #name, types)
#define OPTIONAL_INPUT(name, types) tensor("optional", #name, types)
#define OUTPUT(name, types) tensor("output", #name, types)
#define ATTR(name, type, value) attribute(#name, #type, value)
#define REQUIRED_ATTR(name, type) attribute(#name, #type, "required")
#define OP_END_FACTORY_REG(name) end(#name);

#include "op_proto/attention_proto.h"

namespace ge {
namespace {

std::string tensors(const std::string& kind, const std::string& names, const std::string& types) {
    std::istringstream words(names);
    std::string text;
    for (std::string name; words >> name;) text += kind + ' ' + name + ": " + types + '\n';
    return text;
}

constexpr const char* kFloats = "fp16 bf16 fp32";

std::string attributes(const std::string& layout) {
    return "attribute scale_value: Float 1\nattribute keep_prob: Float 1\n"
           "attribute pre_tockens: Int 2147483647\nattribute next_tockens: Int 2147483647\n"
           "attribute head_num: Int required\nattribute input_layout: String required\n"
           "attribute inner_precise: Int 0\nattribute sparse_mode: Int 0\nattribute pse_type: Int 1\n"
           "attribute seed: Int 0\nattribute offset: Int 0\nattribute out_dtype: Int 0\nattribute " +
           layout + ": String \n";
}

TEST(Prototypes, Forward) {
    EXPECT_EQ(prototypes()["FlashAttentionScore"],
              tensors("input", "query key value", kFloats) + tensors("optional", "real_shift", kFloats) +
                  tensors("optional", "drop_mask", "uint8") + tensors("optional", "padding_mask", kFloats) +
                  tensors("optional", "atten_mask", "bool uint8") +
                  tensors("optional", "prefix actual_seq_qlen actual_seq_kvlen q_start_idx kv_start_idx", "int64") +
                  tensors("optional", "d_scale_q d_scale_k d_scale_v", "fp32") +
                  tensors("optional", "query_rope key_rope", kFloats) + tensors("optional", "sink p_scale", "fp32") +
                  tensors("output", "softmax_max softmax_sum", "fp32") +
                  tensors("output", "softmax_out attention_out", kFloats) + attributes("softmax_out_layout"));
}

TEST(Prototypes, Backward) {
    EXPECT_EQ(
        prototypes()["FlashAttentionScoreGrad"],
        tensors("input", "query key value dy", kFloats) + tensors("optional", "pse_shift", kFloats) +
            tensors("optional", "drop_mask", "uint8") + tensors("optional", "padding_mask", kFloats) +
            tensors("optional", "atten_mask", "bool uint8") + tensors("optional", "softmax_max softmax_sum", "fp32") +
            tensors("optional", "softmax_in attention_in", kFloats) +
            tensors("optional", "prefix actual_seq_qlen actual_seq_kvlen q_start_idx kv_start_idx", "int64") +
            tensors("optional", "d_scale_q d_scale_k d_scale_v d_scale_dy d_scale_o", "fp32") +
            tensors("optional", "query_rope key_rope", kFloats) + tensors("optional", "sink ds_scale p_scale", "fp32") +
            tensors("output", "dq dk dv dpse dq_rope dk_rope", kFloats) + tensors("output", "dsink", "fp32") +
            attributes("softmax_in_layout"));
}

TEST(Prototypes, Ring) {
    EXPECT_EQ(
        prototypes()["RingAttentionUpdate"],
        tensors("input", "prev_attn_out", kFloats) + tensors("input", "prev_softmax_max prev_softmax_sum", "fp32") +
            tensors("input", "cur_attn_out", kFloats) + tensors("input", "cur_softmax_max cur_softmax_sum", "fp32") +
            tensors("optional", "actual_seq_qlen", "int64") + tensors("output", "attn_out", kFloats) +
            tensors("output", "softmax_max softmax_sum", "fp32") +
            "attribute input_layout: String SBH\nattribute input_softmax_layout: String \n");
}

TEST(Prototypes, NoOthers) {
    EXPECT_EQ(prototypes().size(), 3U);
}

}  // namespace
}  // namespace ge
