// What aclCreateTensor, aclInitTensor and the getters answer to wrong arguments.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "aclnn/aclnn_base.h"
#include "opbase/tensor.h"
#include "support.h"

namespace {

using opbase::Shape;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kHuge = int64_t{1} << 62;

struct BadTensor {
    const char* what;
    Shape dims;
    Shape strides;  // empty: nullptr
    int64_t offset;
    Shape storage;
    const char* expected_text;
};

// FLOAT16 tensors: two bytes an element.
const BadTensor kBad[] = {
    {"negative dimension", {2, -3, 4}, {}, 0, {}, "viewDims[1] is -3: it cannot be negative"},
    {"smallest dimension", {kMin}, {}, 0, {}, "viewDims[0] is -9223372036854775808"},
    {"too many elements", {kHuge, 4}, {}, 0, {}, "viewDims [4611686018427387904, 4] is too large"},
    {"too many bytes", {kHuge}, {}, 0, {}, "viewDims [4611686018427387904] is too large"},
    {"too many elements beside a zero", {0, kHuge, kHuge}, {}, 0, {}, "is too large"},
    {"seventeen dimensions", Shape(17, 1), {}, 0, {}, "viewDimsNum is 17: a tensor has at most 16 dimensions"},
    {"negative offset", {2}, {}, -1, {}, "offset is -1: it cannot be negative"},
    {"offset beyond addresses", {2}, {}, kMax, {}, "beyond 64-bit addresses"},
    {"offset in bytes beyond addresses", {1}, {}, kHuge, {}, "beyond 64-bit addresses"},
    {"offset of an empty tensor beyond addresses", {0}, {}, kMax, {}, "beyond 64-bit addresses"},
    {"stride beyond addresses", {3}, {kMax}, 0, {}, "beyond 64-bit addresses"},
    {"sum of strides beyond addresses", {2, 2}, {kMax, kMax}, 0, {}, "stride [9223372036854775807, 922337203685477"},
    {"smallest stride", {3}, {kMin}, 0, {}, "beyond 64-bit addresses"},
    {"below the storage", {4}, {-1}, 2, {}, "the view reaches element -1: viewDims [4], stride [-1], offset 2"},
    {"negative storage", {2}, {}, 0, {-5}, "storageDims[0] is -5: it cannot be negative"},
    {"storage too large", {2}, {}, 0, {kMax, kMax}, "storageDims [9223372036854775807, 9223372036854775807] is too"},
    {"storage rank", {2}, {}, 0, Shape(40, 1), "storageDimsNum is 40: a tensor has at most 16 dimensions"},
};

aclTensor* create(const BadTensor& bad) {
    return aclCreateTensor(bad.dims.data(), bad.dims.size(), ACL_FLOAT16,
                           bad.strides.empty() ? nullptr : bad.strides.data(), bad.offset, ACL_FORMAT_ND,
                           bad.storage.data(), bad.storage.size(), nullptr);
}

TEST(TensorBadInput, CreationNamesTheValueAndTheRule) {
    for (const BadTensor& bad : kBad) {
        SCOPED_TRACE(bad.what);
        EXPECT_EQ(create(bad), nullptr);
        const std::string text = take_error();
        EXPECT_CONTAINS(text, "AclNN_Parameter_Error(EZ1001): aclCreateTensor: ");
        EXPECT_CONTAINS(text, bad.expected_text);
        EXPECT_EQ(take_error(), "") << "a failure queues one text";
    }
}

TEST(TensorBadInput, NullArraysWithACount) {
    EXPECT_EQ(aclCreateTensor(nullptr, 3, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, nullptr), nullptr);
    EXPECT_CONTAINS(take_error(), "viewDims cannot be nullptr when viewDimsNum is 3");
    const int64_t dims[] = {2};
    EXPECT_EQ(aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 2, nullptr), nullptr);
    EXPECT_CONTAINS(take_error(), "storageDims cannot be nullptr when storageDimsNum is 2");
    // The array is not read before its length is believed.
    EXPECT_EQ(aclCreateTensor(dims, UINT64_MAX, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, nullptr), nullptr);
    EXPECT_CONTAINS(take_error(), "viewDimsNum is 18446744073709551615");
}

TEST(TensorBadInput, LargestLegalSizes) {
    const int64_t dims[] = {kMax};
    aclTensor* tensor = aclCreateTensor(dims, 1, ACL_INT8, nullptr, 0, ACL_FORMAT_ND, dims, 1, nullptr);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->count(), kMax);
    aclDestroyTensor(tensor);
}

TEST(TensorBadInput, FailedInitLeavesTheTensorAsItWas) {
    const int64_t dims[] = {2, 3};
    int data = 0;
    aclTensor* tensor = aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 6, ACL_FORMAT_ND, dims, 2, &data);
    ASSERT_NE(tensor, nullptr);
    for (const BadTensor& bad : kBad) {
        SCOPED_TRACE(bad.what);
        EXPECT_EQ(aclInitTensor(tensor, bad.dims.data(), bad.dims.size(), ACL_FLOAT16,
                                bad.strides.empty() ? nullptr : bad.strides.data(), bad.offset, ACL_FORMAT_NCHW,
                                bad.storage.data(), bad.storage.size(), nullptr),
                  161002);
        EXPECT_CONTAINS(take_error(), "aclInitTensor: ");
    }
    EXPECT_EQ(aclInitTensor(tensor, nullptr, 1, ACL_INT8, nullptr, 0, ACL_FORMAT_NCHW, nullptr, 0, nullptr), 161001);
    EXPECT_EQ(tensor->shape, (Shape{2, 3}));
    EXPECT_EQ(tensor->offset, 6);
    EXPECT_EQ(tensor->dtype, ACL_FLOAT);
    EXPECT_EQ(tensor->format, ACL_FORMAT_ND);
    EXPECT_EQ(tensor->data, &data);
    aclDestroyTensor(tensor);
}

TEST(TensorBadInput, NullArgumentsOfGettersAreNamed) {
    const int64_t dims[] = {2, 3};
    aclTensor* tensor = aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 2, nullptr);
    int64_t* values = nullptr;
    uint64_t num = 77;
    int64_t offset = 77;
    aclFormat format = ACL_FORMAT_NCL;
    aclDataType dtype = ACL_BOOL;
    void* address = &num;
    const auto expect_null = [](aclnnStatus status, const char* text) {
        EXPECT_EQ(status, 161001);
        EXPECT_CONTAINS(take_error(), text);
    };
    expect_null(aclGetViewShape(nullptr, &values, &num), "aclGetViewShape: tensor cannot be nullptr");
    expect_null(aclGetViewShape(tensor, nullptr, &num), "aclGetViewShape: viewDims cannot be nullptr");
    expect_null(aclGetViewShape(tensor, &values, nullptr), "aclGetViewShape: viewDimsNum cannot be nullptr");
    expect_null(aclGetStorageShape(nullptr, &values, &num), "aclGetStorageShape: tensor cannot");
    expect_null(aclGetStorageShape(tensor, nullptr, &num), "storageDims cannot be nullptr");
    expect_null(aclGetStorageShape(tensor, &values, nullptr), "storageDimsNum cannot be nullptr");
    expect_null(aclGetViewStrides(nullptr, &values, &num), "aclGetViewStrides: tensor cannot");
    expect_null(aclGetViewStrides(tensor, nullptr, &num), "stridesValue cannot be nullptr");
    expect_null(aclGetViewStrides(tensor, &values, nullptr), "stridesNum cannot be nullptr");
    expect_null(aclGetViewOffset(nullptr, &offset), "aclGetViewOffset: tensor cannot");
    expect_null(aclGetViewOffset(tensor, nullptr), "offset cannot be nullptr");
    expect_null(aclGetFormat(nullptr, &format), "aclGetFormat: tensor cannot");
    expect_null(aclGetFormat(tensor, nullptr), "format cannot be nullptr");
    expect_null(aclGetDataType(nullptr, &dtype), "aclGetDataType: tensor cannot");
    expect_null(aclGetDataType(tensor, nullptr), "dataType cannot be nullptr");
    expect_null(aclSetRawTensorAddr(nullptr, &num), "aclSetRawTensorAddr: tensor cannot");
    expect_null(aclGetRawTensorAddr(nullptr, &address), "aclGetRawTensorAddr: tensor cannot");
    expect_null(aclGetRawTensorAddr(tensor, nullptr), "addr cannot be nullptr");
    expect_null(aclInitTensor(nullptr, dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 2, nullptr),
                "aclInitTensor: tensor cannot be nullptr");
    // Nothing was written.
    EXPECT_EQ(values, nullptr);
    EXPECT_EQ(num, 77U);
    EXPECT_EQ(offset, 77);
    EXPECT_EQ(format, ACL_FORMAT_NCL);
    EXPECT_EQ(dtype, ACL_BOOL);
    EXPECT_EQ(address, &num);
    aclDestroyTensor(tensor);
}

}  // namespace
