#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "recent_error.h"

namespace {

using Desc = std::unique_ptr<aclTensorDesc, void (*)(const aclTensorDesc*)>;

Desc make_desc(aclDataType type, const std::vector<int64_t>& dims, aclFormat format) {
    return {aclCreateTensorDesc(type, static_cast<int>(dims.size()), dims.data(), format), aclDestroyTensorDesc};
}

TEST(TensorDesc, GettersReturnWhatWasGiven) {
    const Desc desc = make_desc(ACL_BF16, {2, -1, 5}, ACL_FORMAT_NCHW);
    ASSERT_NE(desc, nullptr);
    EXPECT_EQ(aclGetTensorDescType(desc.get()), ACL_BF16);
    EXPECT_EQ(aclGetTensorDescFormat(desc.get()), ACL_FORMAT_NCHW);
    ASSERT_EQ(aclGetTensorDescNumDims(desc.get()), 3U);
    const std::vector<int64_t> expected = {2, -1, 5};
    for (size_t i = 0; i < expected.size(); ++i) {
        int64_t dim = 77;
        EXPECT_EQ(aclGetTensorDescDimV2(desc.get(), i, &dim), ACL_SUCCESS);
        EXPECT_EQ(dim, expected[i]);
    }
}

TEST(TensorDesc, ShapeIsCopied) {
    std::vector<int64_t> dims = {4, 6};
    const Desc desc = make_desc(ACL_FLOAT, dims, ACL_FORMAT_ND);
    dims[1] = 9;
    int64_t dim = 0;
    EXPECT_EQ(aclGetTensorDescDimV2(desc.get(), 1, &dim), ACL_SUCCESS);
    EXPECT_EQ(dim, 6);
}

TEST(TensorDesc, ScalarHasNoDimensions) {
    const Desc desc = {aclCreateTensorDesc(ACL_INT64, 0, nullptr, ACL_FORMAT_ND), aclDestroyTensorDesc};
    ASSERT_NE(desc, nullptr);
    EXPECT_EQ(aclGetTensorDescNumDims(desc.get()), 0U);
    int64_t dim = 77;
    EXPECT_EQ(aclGetTensorDescDimV2(desc.get(), 0, &dim), ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(dim, 77);
    EXPECT_NE(recent_error().find("index must be less than 0, the number of dimensions: got 0"), std::string::npos);
}

// The storage's shape and format are a second pair beside the logical one.
TEST(TensorDesc, StorageSettersLeaveTheLogicalShape) {
    const Desc desc = make_desc(ACL_FLOAT16, {3, 16}, ACL_FORMAT_ND);
    const int64_t storage[] = {1, 1, 16, 16};
    EXPECT_EQ(aclSetTensorShape(desc.get(), 4, storage), ACL_SUCCESS);
    EXPECT_EQ(aclSetTensorFormat(desc.get(), ACL_FORMAT_FRACTAL_NZ), ACL_SUCCESS);
    EXPECT_EQ(aclSetTensorPlaceMent(desc.get(), ACL_MEMTYPE_HOST), ACL_SUCCESS);
    aclSetTensorDescName(desc.get(), "x");
    EXPECT_EQ(aclGetTensorDescNumDims(desc.get()), 2U);
    EXPECT_EQ(aclGetTensorDescFormat(desc.get()), ACL_FORMAT_ND);
}

TEST(TensorDesc, BadArgumentsAreRefusedWithAText) {
    const int64_t dims[] = {1};
    EXPECT_EQ(aclCreateTensorDesc(ACL_FLOAT, 2, nullptr, ACL_FORMAT_ND), nullptr);
    EXPECT_NE(recent_error().find("aclCreateTensorDesc: dims cannot be nullptr"), std::string::npos);
    EXPECT_EQ(aclCreateTensorDesc(ACL_FLOAT, -1, dims, ACL_FORMAT_ND), nullptr);
    EXPECT_NE(recent_error().find("numDims must be 0 or more: got -1"), std::string::npos);

    const Desc desc = make_desc(ACL_FLOAT, {1}, ACL_FORMAT_ND);
    EXPECT_EQ(aclSetTensorShape(desc.get(), -2, dims), ACL_ERROR_INVALID_PARAM);
    EXPECT_NE(recent_error().find("numDims must be 0 or more: got -2"), std::string::npos);
    EXPECT_EQ(aclSetTensorPlaceMent(desc.get(), static_cast<aclMemType>(3)), ACL_ERROR_INVALID_PARAM);
    EXPECT_NE(recent_error().find("compilation): got 3"), std::string::npos);
    EXPECT_EQ(aclGetTensorDescDimV2(desc.get(), 0, nullptr), ACL_ERROR_INVALID_PARAM);
    EXPECT_NE(recent_error().find("dimSize cannot be nullptr"), std::string::npos);
}

TEST(TensorDesc, NullDescriptor) {
    int64_t dim = 0;
    EXPECT_EQ(aclGetTensorDescType(nullptr), ACL_DT_UNDEFINED);
    EXPECT_EQ(aclGetTensorDescFormat(nullptr), ACL_FORMAT_UNDEFINED);
    EXPECT_EQ(aclGetTensorDescNumDims(nullptr), 0U);
    EXPECT_EQ(aclGetTensorDescDimV2(nullptr, 0, &dim), ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(aclSetTensorFormat(nullptr, ACL_FORMAT_ND), ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(aclSetTensorShape(nullptr, 0, nullptr), ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(aclSetTensorPlaceMent(nullptr, ACL_MEMTYPE_DEVICE), ACL_ERROR_INVALID_PARAM);
    EXPECT_NE(recent_error().find("desc cannot be nullptr"), std::string::npos);
    aclSetTensorDescName(nullptr, "x");
    aclDestroyTensorDesc(nullptr);
    EXPECT_EQ(recent_error(), "");
}

}  // namespace
