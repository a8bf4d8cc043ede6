#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <cstring>
#include <vector>

#include "aclnn/aclnn_base.h"
#include "opbase/tensor.h"
#include "support.h"

namespace {

TEST(IntArray, CopiesItsValues) {
    std::vector<int64_t> values = {7, -1, INT64_MAX};
    aclIntArray* array = aclCreateIntArray(values.data(), values.size());
    ASSERT_NE(array, nullptr);
    values.assign(3, 0);
    EXPECT_EQ(array->values, (std::vector<int64_t>{7, -1, INT64_MAX}));
    uint64_t size = 0;
    EXPECT_EQ(aclGetIntArraySize(array, &size), OK);
    EXPECT_EQ(size, 3U);
    EXPECT_FALSE(opbase::is_absent(array));
    EXPECT_EQ(aclDestroyIntArray(array), OK);
}

TEST(IntArray, EmptyMeansAbsent) {
    aclIntArray* array = aclCreateIntArray(nullptr, 0);
    ASSERT_NE(array, nullptr);
    uint64_t size = 5;
    EXPECT_EQ(aclGetIntArraySize(array, &size), OK);
    EXPECT_EQ(size, 0U);
    EXPECT_TRUE(opbase::is_absent(array));
    EXPECT_TRUE(opbase::is_absent(static_cast<const aclIntArray*>(nullptr)));
    aclDestroyIntArray(array);
}

TEST(FloatArray, CopiesItsValues) {
    const float values[] = {0.5F, -0.0F};
    aclFloatArray* array = aclCreateFloatArray(values, 2);
    ASSERT_NE(array, nullptr);
    EXPECT_EQ(array->values, (std::vector<float>{0.5F, -0.0F}));
    uint64_t size = 0;
    EXPECT_EQ(aclGetFloatArraySize(array, &size), OK);
    EXPECT_EQ(size, 2U);
    EXPECT_EQ(aclDestroyFloatArray(array), OK);
}

TEST(BoolArray, CopiesItsValues) {
    const bool values[] = {true, false, true};
    aclBoolArray* array = aclCreateBoolArray(values, 3);
    ASSERT_NE(array, nullptr);
    EXPECT_EQ(array->values, (std::vector<uint8_t>{1, 0, 1}));
    uint64_t size = 0;
    EXPECT_EQ(aclGetBoolArraySize(array, &size), OK);
    EXPECT_EQ(size, 3U);
    EXPECT_EQ(aclDestroyBoolArray(array), OK);
}

TEST(Scalar, CopiesAsManyBytesAsTheTypeHas) {
    double value = 2.5;
    aclScalar* scalar = aclCreateScalar(&value, ACL_DOUBLE);
    ASSERT_NE(scalar, nullptr);
    value = 0;
    double kept = 0;
    std::memcpy(&kept, scalar->value, sizeof(kept));
    EXPECT_EQ(kept, 2.5);
    EXPECT_EQ(scalar->dtype, ACL_DOUBLE);
    EXPECT_EQ(aclDestroyScalar(scalar), OK);

    std::complex<double> largest(1.0, -2.0);
    scalar = aclCreateScalar(&largest, ACL_COMPLEX128);
    ASSERT_NE(scalar, nullptr);
    EXPECT_EQ(std::memcmp(scalar->value, &largest, 16), 0);
    aclDestroyScalar(scalar);

    uint8_t byte = 1;  // reading more than one byte would be caught by the address sanitizer
    scalar = aclCreateScalar(&byte, ACL_BOOL);
    ASSERT_NE(scalar, nullptr);
    EXPECT_EQ(scalar->value[0], std::byte{1});
    aclDestroyScalar(scalar);
}

TEST(Scalar, RefusesNullAndTypesWithoutASize) {
    float value = 0;
    EXPECT_EQ(aclCreateScalar(nullptr, ACL_FLOAT), nullptr);
    EXPECT_CONTAINS(take_error(), "aclCreateScalar: value cannot be nullptr");
    EXPECT_EQ(aclCreateScalar(&value, ACL_STRING), nullptr);
    EXPECT_CONTAINS(take_error(), "aclCreateScalar: dataType STRING is not supported");
    EXPECT_EQ(aclCreateScalar(&value, ACL_INT4), nullptr);
    EXPECT_CONTAINS(take_error(), "dataType INT4 is not supported");
    EXPECT_EQ(aclCreateScalar(&value, static_cast<aclDataType>(77)), nullptr);
    EXPECT_CONTAINS(take_error(), "dataType unknown (77) is not supported");
}

aclTensor* small_tensor() {
    const int64_t dims[] = {1};
    return aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, nullptr);
}

// The leak checker of the address sanitizer sees whether elements are destroyed, and once only.
TEST(TensorList, OwnsItsElements) {
    const aclTensor* tensors[] = {small_tensor(), nullptr, small_tensor()};
    aclTensorList* list = aclCreateTensorList(tensors, 3);
    ASSERT_NE(list, nullptr);
    EXPECT_EQ(list->tensors, (std::vector<const aclTensor*>(tensors, tensors + 3)));
    uint64_t size = 0;
    EXPECT_EQ(aclGetTensorListSize(list, &size), OK);
    EXPECT_EQ(size, 3U);
    EXPECT_EQ(aclDestroyTensorList(list), OK);
}

TEST(ScalarList, OwnsItsElements) {
    int32_t value = 4;
    const aclScalar* scalars[] = {aclCreateScalar(&value, ACL_INT32), nullptr};
    aclScalarList* list = aclCreateScalarList(scalars, 2);
    ASSERT_NE(list, nullptr);
    uint64_t size = 0;
    EXPECT_EQ(aclGetScalarListSize(list, &size), OK);
    EXPECT_EQ(size, 2U);
    EXPECT_EQ(aclDestroyScalarList(list), OK);
}

TEST(Lists, MayBeEmpty) {
    aclTensorList* tensors = aclCreateTensorList(nullptr, 0);
    aclScalarList* scalars = aclCreateScalarList(nullptr, 0);
    aclFloatArray* floats = aclCreateFloatArray(nullptr, 0);
    aclBoolArray* bools = aclCreateBoolArray(nullptr, 0);
    EXPECT_NE(tensors, nullptr);
    EXPECT_NE(scalars, nullptr);
    EXPECT_NE(floats, nullptr);
    EXPECT_NE(bools, nullptr);
    aclDestroyTensorList(tensors);
    aclDestroyScalarList(scalars);
    aclDestroyFloatArray(floats);
    aclDestroyBoolArray(bools);
}

TEST(Lists, NullValuesWithASize) {
    EXPECT_EQ(aclCreateIntArray(nullptr, 1), nullptr);
    EXPECT_CONTAINS(take_error(), "aclCreateIntArray: value cannot be nullptr when size is 1");
    EXPECT_EQ(aclCreateFloatArray(nullptr, 1), nullptr);
    EXPECT_CONTAINS(take_error(), "aclCreateFloatArray: value cannot be nullptr");
    EXPECT_EQ(aclCreateBoolArray(nullptr, 2), nullptr);
    EXPECT_CONTAINS(take_error(), "aclCreateBoolArray: value cannot be nullptr when size is 2");
    EXPECT_EQ(aclCreateTensorList(nullptr, 1), nullptr);
    EXPECT_CONTAINS(take_error(), "aclCreateTensorList: value cannot be nullptr");
    EXPECT_EQ(aclCreateScalarList(nullptr, 1), nullptr);
    EXPECT_CONTAINS(take_error(), "aclCreateScalarList: value cannot be nullptr");
}

TEST(Lists, ImpossibleSizesAreNotBelieved) {
    const int64_t value = 1;
    EXPECT_EQ(aclCreateIntArray(&value, UINT64_MAX), nullptr);
    EXPECT_CONTAINS(take_error(), "aclCreateIntArray: size is 18446744073709551615");
}

TEST(Lists, NullArgumentsOfSizeGetters) {
    uint64_t size = 77;
    EXPECT_EQ(aclGetIntArraySize(nullptr, &size), 161001);
    EXPECT_CONTAINS(take_error(), "aclGetIntArraySize: array cannot be nullptr");
    EXPECT_EQ(aclGetFloatArraySize(nullptr, &size), 161001);
    EXPECT_EQ(aclGetBoolArraySize(nullptr, &size), 161001);
    EXPECT_EQ(aclGetTensorListSize(nullptr, &size), 161001);
    EXPECT_CONTAINS(take_error(), "aclGetTensorListSize: tensorList cannot be nullptr");
    EXPECT_EQ(aclGetScalarListSize(nullptr, &size), 161001);
    EXPECT_CONTAINS(take_error(), "aclGetScalarListSize: scalarList cannot be nullptr");
    EXPECT_EQ(size, 77U);
    aclIntArray* array = aclCreateIntArray(nullptr, 0);
    EXPECT_EQ(aclGetIntArraySize(array, nullptr), 161001);
    EXPECT_CONTAINS(take_error(), "aclGetIntArraySize: size cannot be nullptr");
    aclDestroyIntArray(array);
}

TEST(Lists, DestroyingNothingSucceeds) {
    EXPECT_EQ(aclDestroyScalar(nullptr), OK);
    EXPECT_EQ(aclDestroyIntArray(nullptr), OK);
    EXPECT_EQ(aclDestroyFloatArray(nullptr), OK);
    EXPECT_EQ(aclDestroyBoolArray(nullptr), OK);
    EXPECT_EQ(aclDestroyTensorList(nullptr), OK);
    EXPECT_EQ(aclDestroyScalarList(nullptr), OK);
}

}  // namespace
