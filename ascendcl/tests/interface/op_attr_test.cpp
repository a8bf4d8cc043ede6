// There are no getters for attributes; that they were stored shows in the refusal of aclopCompileAndExecute, which
// lists them for the reader.
#include <gtest/gtest.h>

#include <cstring>

#include "acl/acl_op_compiler.h"
#include "recent_error.h"

namespace {

class OpAttr : public ::testing::Test {
  protected:
    OpAttr() { EXPECT_NE(attr_, nullptr); }
    ~OpAttr() override { aclopDestroyAttr(attr_); }

    std::string listed() {
        recent_error();  // older texts would stand behind this one
        EXPECT_EQ(aclopCompileAndExecute("Op", 0, nullptr, nullptr, 0, nullptr, nullptr, attr_, ACL_ENGINE_SYS,
                                         ACL_COMPILE_SYS, nullptr, nullptr),
                  ACL_ERROR_INTERNAL_ERROR);
        const std::string text = recent_error();
        const size_t start = text.find("attributes: ");
        const size_t end = text.rfind(')');
        if (start == std::string::npos || end == std::string::npos) return text;
        return text.substr(start + std::strlen("attributes: "), end - start - std::strlen("attributes: "));
    }

    aclopAttr* attr_ = aclopCreateAttr();
};

TEST_F(OpAttr, EmptySet) {
    EXPECT_EQ(listed(), "none");
}

TEST_F(OpAttr, ScalarsAreStored) {
    EXPECT_EQ(aclopSetAttrBool(attr_, "keep", 2), ACL_SUCCESS);
    EXPECT_EQ(aclopSetAttrInt(attr_, "axis", -1), ACL_SUCCESS);
    EXPECT_EQ(aclopSetAttrFloat(attr_, "scale", 0.5F), ACL_SUCCESS);
    EXPECT_EQ(aclopSetAttrDataType(attr_, "type", ACL_BF16), ACL_SUCCESS);
    char mode[] = "sum";
    EXPECT_EQ(aclopSetAttrString(attr_, "mode", mode), ACL_SUCCESS);
    mode[0] = 'x';  // the text was copied
    EXPECT_EQ(listed(), "axis=-1, keep=true, mode=\"sum\", scale=0.5, type=aclDataType 27");
}

TEST_F(OpAttr, ListsAreStored) {
    uint8_t bools[] = {1, 0, 3};
    int64_t ints[] = {7, -8};
    const float floats[] = {1.5F};
    EXPECT_EQ(aclopSetAttrListBool(attr_, "a", 3, bools), ACL_SUCCESS);
    EXPECT_EQ(aclopSetAttrListInt(attr_, "b", 2, ints), ACL_SUCCESS);
    EXPECT_EQ(aclopSetAttrListFloat(attr_, "c", 1, floats), ACL_SUCCESS);
    EXPECT_EQ(aclopSetAttrListInt(attr_, "d", 0, nullptr), ACL_SUCCESS);
    const int counts[] = {2, 0, 1};
    const int64_t* const lists[] = {ints, nullptr, ints + 1};
    EXPECT_EQ(aclopSetAttrListListInt(attr_, "e", 3, counts, lists), ACL_SUCCESS);
    bools[0] = 0;
    ints[0] = 0;
    EXPECT_EQ(listed(), "a=[true,false,true], b=[7,-8], c=[1.5], d=[], e=[[7,-8],[],[-8]]");
}

TEST_F(OpAttr, SameNameReplaces) {
    EXPECT_EQ(aclopSetAttrInt(attr_, "x", 1), ACL_SUCCESS);
    EXPECT_EQ(aclopSetAttrString(attr_, "x", "two"), ACL_SUCCESS);
    EXPECT_EQ(listed(), "x=\"two\"");
}

TEST_F(OpAttr, BadArgumentsLeaveTheSetAlone) {
    const int64_t value = 1;
    const int bad_count[] = {-1};
    const int good_count[] = {1};
    const int64_t* const lists[] = {&value};
    const int64_t* const null_lists[] = {nullptr};
    EXPECT_EQ(aclopSetAttrInt(nullptr, "x", 1), ACL_ERROR_INVALID_PARAM);
    EXPECT_NE(recent_error().find("aclopSetAttrInt: attr cannot be nullptr"), std::string::npos);
    EXPECT_EQ(aclopSetAttrInt(attr_, nullptr, 1), ACL_ERROR_INVALID_PARAM);
    EXPECT_NE(recent_error().find("attrName cannot be nullptr"), std::string::npos);
    EXPECT_EQ(aclopSetAttrString(attr_, "x", nullptr), ACL_ERROR_INVALID_PARAM);
    EXPECT_NE(recent_error().find("attrValue cannot be nullptr"), std::string::npos);
    EXPECT_EQ(aclopSetAttrListInt(attr_, "x", 1, nullptr), ACL_ERROR_INVALID_PARAM);
    EXPECT_NE(recent_error().find("values cannot be nullptr"), std::string::npos);
    EXPECT_EQ(aclopSetAttrListFloat(attr_, "x", -4, nullptr), ACL_ERROR_INVALID_PARAM);
    EXPECT_NE(recent_error().find("numValues must be 0 or more: got -4"), std::string::npos);
    EXPECT_EQ(aclopSetAttrListListInt(attr_, "x", 1, bad_count, lists), ACL_ERROR_INVALID_PARAM);
    EXPECT_NE(recent_error().find("numValues[0] must be 0 or more: got -1"), std::string::npos);
    EXPECT_EQ(aclopSetAttrListListInt(attr_, "x", 1, good_count, null_lists), ACL_ERROR_INVALID_PARAM);
    EXPECT_NE(recent_error().find("values[0] cannot be nullptr"), std::string::npos);
    EXPECT_EQ(aclopSetAttrListListInt(attr_, "x", 1, nullptr, lists), ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(aclopSetAttrListListInt(attr_, "x", -1, good_count, lists), ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(listed(), "none");
}

TEST(OpAttrNull, DestroyingNothingIsAllowed) {
    aclopDestroyAttr(nullptr);
}

}  // namespace
