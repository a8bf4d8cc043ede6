#include "compat/op_attr.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "call.h"

using ascendcl::api_call;
using ascendcl::api_value;
using ascendcl::api_void;
using ascendcl::arg;
using ascendcl::Failure;
using ascendcl::require_not_null;

namespace ascendcl {
namespace {

// What all setters share; `make` turns the caller's arguments into the stored value and may throw Failure.
template <class Make, class... Args>
aclError set_attribute(const char* function, aclopAttr* attr, const char* name, Make&& make, const Args&... args) {
    return api_call(
        function,
        [&] {
            require_not_null("attr", attr);
            require_not_null("attrName", name);
            attr->values.insert_or_assign(name, AttrValue(make()));
        },
        arg("attr", attr), arg("attrName", name), args...);
}

void require_list(std::string_view count_name, int count, std::string_view values_name, const void* values) {
    if (count < 0) {
        throw Failure{ACL_ERROR_INVALID_PARAM, fmt::format("{} must be 0 or more: got {}", count_name, count)};
    }
    if (count > 0) require_not_null(values_name, values);
}

template <class Stored, class T>
aclError set_list(const char* function, aclopAttr* attr, const char* name, int count, const T* values) {
    return set_attribute(
        function, attr, name,
        [&] {
            require_list("numValues", count, "values", values);
            return std::vector<Stored>(values, values + count);
        },
        arg("numValues", count), arg("values", values));
}

std::string text_of(bool value) {
    return value ? "true" : "false";
}
std::string text_of(int64_t value) {
    return std::to_string(value);
}
std::string text_of(float value) {
    return fmt::format("{}", value);
}
std::string text_of(const std::string& value) {
    return fmt::format("\"{}\"", value);
}
std::string text_of(aclDataType value) {
    return fmt::format("aclDataType {}", static_cast<int>(value));
}

template <class T>
std::string text_of(const std::vector<T>& list) {
    std::vector<std::string> texts;
    for (const T& value : list) texts.push_back(text_of(value));
    return fmt::format("[{}]", fmt::join(texts, ","));
}

}  // namespace

std::string describe(const aclopAttr* attr) {
    if (attr == nullptr || attr->values.empty()) return "none";
    std::vector<std::string> texts;
    for (const auto& [name, value] : attr->values) {
        texts.push_back(name + '=' + std::visit([](const auto& stored) { return text_of(stored); }, value));
    }
    return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace ascendcl

using ascendcl::set_attribute;
using ascendcl::set_list;

aclopAttr* aclopCreateAttr() {
    return api_value("aclopCreateAttr", static_cast<aclopAttr*>(nullptr), [] { return new aclopAttr; });
}

void aclopDestroyAttr(const aclopAttr* attr) {
    api_void(
        "aclopDestroyAttr", [&] { delete attr; }, arg("attr", attr));
}

aclError aclopSetAttrBool(aclopAttr* attr, const char* attrName, uint8_t attrValue) {
    return set_attribute(
        "aclopSetAttrBool", attr, attrName, [&] { return attrValue != 0; }, arg("attrValue", attrValue));
}

aclError aclopSetAttrInt(aclopAttr* attr, const char* attrName, int64_t attrValue) {
    return set_attribute(
        "aclopSetAttrInt", attr, attrName, [&] { return attrValue; }, arg("attrValue", attrValue));
}

aclError aclopSetAttrFloat(aclopAttr* attr, const char* attrName, float attrValue) {
    return set_attribute(
        "aclopSetAttrFloat", attr, attrName, [&] { return attrValue; }, arg("attrValue", attrValue));
}

aclError aclopSetAttrString(aclopAttr* attr, const char* attrName, const char* attrValue) {
    return set_attribute(
        "aclopSetAttrString", attr, attrName,
        [&] {
            require_not_null("attrValue", attrValue);
            return std::string(attrValue);
        },
        arg("attrValue", attrValue));
}

aclError aclopSetAttrDataType(aclopAttr* attr, const char* attrName, aclDataType attrValue) {
    return set_attribute(
        "aclopSetAttrDataType", attr, attrName, [&] { return attrValue; }, arg("attrValue", attrValue));
}

aclError aclopSetAttrListBool(aclopAttr* attr, const char* attrName, int numValues, const uint8_t* values) {
    return set_list<bool>("aclopSetAttrListBool", attr, attrName, numValues, values);
}

aclError aclopSetAttrListInt(aclopAttr* attr, const char* attrName, int numValues, const int64_t* values) {
    return set_list<int64_t>("aclopSetAttrListInt", attr, attrName, numValues, values);
}

aclError aclopSetAttrListFloat(aclopAttr* attr, const char* attrName, int numValues, const float* values) {
    return set_list<float>("aclopSetAttrListFloat", attr, attrName, numValues, values);
}

aclError aclopSetAttrListListInt(aclopAttr* attr, const char* attrName, int numLists, const int* numValues,
                                 const int64_t* const values[]) {
    return set_attribute(
        "aclopSetAttrListListInt", attr, attrName,
        [&] {
            ascendcl::require_list("numLists", numLists, "values", values);
            if (numLists > 0) require_not_null("numValues", numValues);
            std::vector<std::vector<int64_t>> lists;
            for (int i = 0; i < numLists; ++i) {
                ascendcl::require_list(fmt::format("numValues[{}]", i), numValues[i], fmt::format("values[{}]", i),
                                       values[i]);
                lists.emplace_back(values[i], values[i] + numValues[i]);
            }
            return lists;
        },
        arg("numLists", numLists), arg("numValues", numValues), arg("values", values));
}
