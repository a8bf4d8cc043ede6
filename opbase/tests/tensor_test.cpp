#include "opbase/tensor.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "aclnn/aclnn_base.h"
#include "opbase/dtype.h"
#include "support.h"

extern "C" int call_from_c(void);

namespace {

using opbase::Shape;

struct DestroyTensor {
    void operator()(const aclTensor* tensor) const { EXPECT_EQ(aclDestroyTensor(tensor), OK); }
};
using TensorPtr = std::unique_ptr<aclTensor, DestroyTensor>;

TensorPtr create(const Shape& dims, const Shape& strides = {}, int64_t offset = 0, const Shape& storage = {},
                 void* data = nullptr) {
    return TensorPtr(aclCreateTensor(dims.data(), dims.size(), ACL_FLOAT16, strides.empty() ? nullptr : strides.data(),
                                     offset, ACL_FORMAT_ND, storage.data(), storage.size(), data));
}

// Takes over an array that a getter allocated.
Shape take(const int64_t* values, uint64_t num) {
    Shape copy(values, values + num);
    delete[] values;
    return copy;
}

TEST(Tensor, KeepsEverythingItIsGiven) {
    std::vector<int64_t> dims = {2, 3, 4};
    std::vector<int64_t> strides = {100, 1, 7};
    std::vector<int64_t> storage = {500};
    float data[1];
    const TensorPtr tensor(aclCreateTensor(dims.data(), 3, aclDataType::ACL_BF16, strides.data(), 5,
                                           aclFormat::ACL_FORMAT_NCL, storage.data(), 1, data));
    ASSERT_NE(tensor, nullptr);
    // The arrays were copied.
    dims.assign(3, -1);
    strides.assign(3, -1);
    storage.assign(1, -1);

    int64_t* values = nullptr;
    uint64_t num = 0;
    ASSERT_EQ(aclGetViewShape(tensor.get(), &values, &num), OK);
    EXPECT_EQ(take(values, num), (Shape{2, 3, 4}));
    ASSERT_EQ(aclGetViewStrides(tensor.get(), &values, &num), OK);
    EXPECT_EQ(take(values, num), (Shape{100, 1, 7}));
    ASSERT_EQ(aclGetStorageShape(tensor.get(), &values, &num), OK);
    EXPECT_EQ(take(values, num), (Shape{500}));
    int64_t offset = 0;
    ASSERT_EQ(aclGetViewOffset(tensor.get(), &offset), OK);
    EXPECT_EQ(offset, 5);
    aclFormat format = ACL_FORMAT_ND;
    ASSERT_EQ(aclGetFormat(tensor.get(), &format), OK);
    EXPECT_EQ(format, ACL_FORMAT_NCL);
    aclDataType dtype = ACL_FLOAT;
    ASSERT_EQ(aclGetDataType(tensor.get(), &dtype), OK);
    EXPECT_EQ(dtype, ACL_BF16);
    void* address = nullptr;
    ASSERT_EQ(aclGetRawTensorAddr(tensor.get(), &address), OK);
    EXPECT_EQ(address, data);
}

TEST(Tensor, NullStridesMeanRowMajor) {
    const TensorPtr tensor = create({2, 3, 4});
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->strides, (Shape{12, 4, 1}));
    EXPECT_TRUE(tensor->is_contiguous());
    EXPECT_EQ(tensor->count(), 24);
    EXPECT_EQ(tensor->reach(), 24);
}

TEST(Tensor, RankZeroHasOneElement) {
    const TensorPtr tensor = create({});
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->rank(), 0);
    EXPECT_EQ(tensor->count(), 1);
    EXPECT_EQ(tensor->reach(), 1);
    EXPECT_TRUE(tensor->is_contiguous());
    int64_t* values = nullptr;
    uint64_t num = 9;
    ASSERT_EQ(aclGetViewShape(tensor.get(), &values, &num), OK);
    EXPECT_EQ(num, 0U);
    EXPECT_NE(values, nullptr);
    delete[] values;
}

TEST(Tensor, EmptyTensors) {
    for (const Shape& dims : {Shape{0}, Shape{2, 0, 3}, Shape{0, int64_t{1} << 40}}) {
        const TensorPtr tensor = create(dims);
        ASSERT_NE(tensor, nullptr) << opbase::to_string(dims);
        EXPECT_EQ(tensor->count(), 0);
        EXPECT_EQ(tensor->reach(), 0);
        EXPECT_TRUE(tensor->is_contiguous());
    }
}

TEST(Tensor, ReachLooksAtTheFarthestElement) {
    EXPECT_EQ(create({24, 2, 8}, {0, 0, 0}, 0, {1})->reach(), 1);  // an expanded scalar
    EXPECT_EQ(create({2, 3}, {10, 2}, 7)->reach(), 7 + 10 + 4 + 1);
    EXPECT_EQ(create({4}, {-1}, 3)->reach(), 4);  // backwards from element 3
    EXPECT_EQ(create({1, 5}, {1000, 1})->reach(), 5);
}

TEST(Tensor, Contiguity) {
    EXPECT_TRUE(create({2, 1, 3}, {3, 77, 1})->is_contiguous());  // a dimension of size 1 may have any stride
    EXPECT_FALSE(create({2, 3}, {1, 2})->is_contiguous());
    EXPECT_FALSE(create({2, 3}, {4, 1})->is_contiguous());
    EXPECT_FALSE(create({2, 3}, {0, 1})->is_contiguous());
    EXPECT_TRUE(create({2, 3}, {3, 1}, 100)->is_contiguous());
}

TEST(Tensor, StorageMayBeSmallerThanTheView) {
    // The operator answers this with its own name for the argument.
    EXPECT_NE(create({4, 4}, {}, 0, {3}), nullptr);
}

TEST(Tensor, AbsentArguments) {
    EXPECT_TRUE(opbase::is_absent(static_cast<const aclTensor*>(nullptr)));
    EXPECT_TRUE(opbase::is_absent(create({}).get()));
    EXPECT_TRUE(opbase::is_absent(create({0}).get()));
    EXPECT_FALSE(opbase::is_absent(create({1}).get()));
    EXPECT_FALSE(opbase::is_absent(create({0, 3}).get()));
}

TEST(Tensor, ContiguousStridesOfAnyShape) {
    EXPECT_EQ(opbase::contiguous_strides({}), Shape{});
    EXPECT_EQ(opbase::contiguous_strides({7}), Shape{1});
    EXPECT_EQ(opbase::contiguous_strides({2, 3, 4}), (Shape{12, 4, 1}));
    EXPECT_EQ(opbase::contiguous_strides({2, 0, 4}), (Shape{4, 4, 1}));
}

TEST(Tensor, ShapesArePrintedInBrackets) {
    EXPECT_EQ(opbase::to_string(Shape{1, 8, 512, 64}), "[1, 8, 512, 64]");
    EXPECT_EQ(opbase::to_string(Shape{}), "[]");
}

TEST(Tensor, RawAddressCanBeReplaced) {
    int first = 0;
    int second = 0;
    const TensorPtr tensor = create({1}, {}, 0, {}, &first);
    EXPECT_EQ(aclSetRawTensorAddr(tensor.get(), &second), OK);
    void* address = nullptr;
    EXPECT_EQ(aclGetRawTensorAddr(tensor.get(), &address), OK);
    EXPECT_EQ(address, &second);
    EXPECT_EQ(aclSetRawTensorAddr(tensor.get(), nullptr), OK);
    EXPECT_EQ(tensor->data, nullptr);
}

TEST(Tensor, InitGivesANewDescription) {
    const TensorPtr tensor = create({2, 3}, {}, 4);
    const int64_t dims[] = {5};
    int data = 0;
    ASSERT_EQ(aclInitTensor(tensor.get(), dims, 1, ACL_INT64, nullptr, 1, ACL_FORMAT_NCHW, dims, 1, &data), OK);
    EXPECT_EQ(tensor->shape, Shape{5});
    EXPECT_EQ(tensor->strides, Shape{1});
    EXPECT_EQ(tensor->offset, 1);
    EXPECT_EQ(tensor->dtype, ACL_INT64);
    EXPECT_EQ(tensor->format, ACL_FORMAT_NCHW);
    EXPECT_EQ(tensor->storage_shape, Shape{5});
    EXPECT_EQ(tensor->data, &data);
}

TEST(Tensor, DestroyingNothingSucceeds) {
    EXPECT_EQ(aclDestroyTensor(nullptr), OK);
}

TEST(Tensor, HeadersAreValidC) {
    EXPECT_EQ(call_from_c(), 0);
}

}  // namespace
