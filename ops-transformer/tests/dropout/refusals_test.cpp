// Calls of the mask operators with one mistake: the code and the exact sentence. Numbers name entries of the list of
// known mistakes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "mask_call.h"

namespace dropout_gen_mask::testing {
namespace {

struct Mistake {
    const char* id;
    void (*make)(MaskCall&);
    std::string sentence;
    aclnnStatus code = 161002;
};

void expect_all_refused(std::initializer_list<Version> versions, std::initializer_list<Mistake> mistakes) {
    for (const Version version : versions) {
        for (const Mistake& mistake : mistakes) {
            MaskCall call;
            call.version = version;
            SCOPED_TRACE(fmt::format("{} {}", call.name(), mistake.id));
            mistake.make(call);
            const MaskResult result = run(call);
            expect_refusal(result, call.name(), mistake.code, mistake.sentence);
            EXPECT_TRUE(result.untouched);
        }
        MaskCall call;
        call.version = version;
        EXPECT_EQ(run(call).phase_two, 0) << "after all these";
    }
}

constexpr std::initializer_list<Version> kAll = {Version::kV1, Version::kV2, Version::kV2Tensor};

TEST(MaskRefusals, Pointers) {
    expect_all_refused(
        kAll, {
                  {"8.1", [](MaskCall& c) { c.shape.reset(); }, "shape cannot be nullptr", 161001},
                  {"8.1 empty", [](MaskCall& c) { c.shape->clear(); }, "shape cannot be nullptr or empty", 161001},
                  {"8.1 out", [](MaskCall& c) { c.out.reset(); }, "out cannot be nullptr", 161001},
                  {"workspaceSize", [](MaskCall& c) { c.null_workspace_size = true; },
                   "workspaceSize cannot be nullptr", 161001},
                  {"executor", [](MaskCall& c) { c.null_executor = true; }, "executor cannot be nullptr", 161001},
                  {"before everything else",
                   [](MaskCall& c) {
                       c.out.reset();
                       c.prob = 7;
                   },
                   "out cannot be nullptr", 161001},
              });
    expect_all_refused({Version::kV2Tensor}, {
                                                 {"8.1 seedTensor", [](MaskCall& c) { c.seed_tensor.reset(); },
                                                  "seedTensor cannot be nullptr", 161001},
                                                 {"8.1 offsetTensor", [](MaskCall& c) { c.offset_tensor.reset(); },
                                                  "offsetTensor cannot be nullptr", 161001},
                                             });
}

TEST(MaskRefusals, Probability) {
    expect_all_refused(kAll, {
                                 {"8.7", [](MaskCall& c) { c.prob = 1.5; },
                                  "The value of prob has to be between 0 and 1, but current is 1.5"},
                                 {"8.7 negative", [](MaskCall& c) { c.prob = -1e-9; },
                                  "The value of prob has to be between 0 and 1, but current is -1e-09"},
                                 {"8.7 NaN", [](MaskCall& c) { c.prob = std::nan(""); },
                                  "The value of prob has to be between 0 and 1, but current is nan"},
                                 {"8.7 infinite", [](MaskCall& c) { c.prob = HUGE_VAL; },
                                  "The value of prob has to be between 0 and 1, but current is inf"},
                                 {"8.7 before the size of out",
                                  [](MaskCall& c) {
                                      c.prob = 2;
                                      c.out->shape = {15};
                                  },
                                  "The value of prob has to be between 0 and 1, but current is 2"},
                             });
}

TEST(MaskRefusals, Out) {
    expect_all_refused(
        kAll, {
                  {"8.8", [](MaskCall& c) { c.out->shape = {15}; }, "Size of out has to be 16, but current is 15"},
                  {"8.8 not rounded to 128 bits",
                   [](MaskCall& c) {
                       c.shape = std::vector<int64_t>{3, 50};
                       c.out->shape = {19};
                   },
                   "Size of out has to be 32, but current is 19"},
                  {"8.8 empty", [](MaskCall& c) { c.out->shape = {0}; }, "Size of out has to be 16, but current is 0"},
                  {"8.8 too large",
                   [](MaskCall& c) {
                       c.out->shape = {2, 16};
                   },
                   "Size of out has to be 16, but current is 32"},
                  {"8.9", [](MaskCall& c) { c.out->dtype = ACL_BOOL; }, "out dtype BOOL: expected UINT8"},
                  {"8.9 a number for each bit", [](MaskCall& c) { c.out = TensorSpec{.shape = {128}}; },
                   "out dtype FLOAT: expected UINT8"},
                  {"format", [](MaskCall& c) { c.out->format = ACL_FORMAT_FRACTAL_NZ; },
                   "out format FRACTAL_NZ is not supported: expected ND"},
                  {"storage", [](MaskCall& c) { c.out->storage = {12}; },
                   "out view exceeds its storage: needs element 15, storage has 12"},
                  {"data", [](MaskCall& c) { c.out->without_data = true; },
                   "out has shape [16], but its data address is nullptr"},
                  {"overlap",
                   [](MaskCall& c) {
                       c.out->shape = {2, 8};
                       c.out->strides = {4, 1};
                   },
                   "out view has overlapping elements, so it cannot be an output: shape [2, 8], strides [4, 1]"},
              });
}

TEST(MaskRefusals, ShapeAndTypes) {
    expect_all_refused(kAll, {
                                 {"negative",
                                  [](MaskCall& c) {
                                      c.shape = std::vector<int64_t>{4, -2};
                                  },
                                  "shape [4, -2] is not one: its entries must be 0 or more"},
                                 {"overflow",
                                  [](MaskCall& c) {
                                      c.shape = std::vector<int64_t>{int64_t{1} << 40, int64_t{1} << 40};
                                  },
                                  "shape [1099511627776, 1099511627776] has too many elements for a mask"},
                             });
    expect_all_refused({Version::kV2, Version::kV2Tensor},
                       {
                           {"a type without fraction", [](MaskCall& c) { c.dtype = ACL_INT32; },
                            "probDataType INT32 is not supported: expected FLOAT, FLOAT16 or BFLOAT16"},
                           {"a longer one", [](MaskCall& c) { c.dtype = ACL_DOUBLE; },
                            "probDataType DOUBLE is not supported: expected FLOAT, FLOAT16 or BFLOAT16"},
                       });
    expect_all_refused({Version::kV2Tensor},
                       {
                           {"seedTensor", [](MaskCall& c) { c.seed_tensor->dtype = ACL_FLOAT; },
                            "seedTensor dtype FLOAT is not supported: expected INT64, UINT64, INT32 or UINT32"},
                           {"offsetTensor", [](MaskCall& c) { c.offset_tensor->dtype = ACL_INT8; },
                            "offsetTensor dtype INT8 is not supported: expected INT64, UINT64, INT32 or UINT32"},
                           {"two numbers", [](MaskCall& c) { c.offset_tensor->shape = {2}; },
                            "offsetTensor shape [2]: expected one element"},
                           {"no number", [](MaskCall& c) { c.seed_tensor->shape = {0}; },
                            "seedTensor shape [0]: expected one element"},
                           {"no data", [](MaskCall& c) { c.seed_tensor->without_data = true; },
                            "seedTensor has shape [1], but its data address is nullptr"},
                           {"format", [](MaskCall& c) { c.seed_tensor->format = ACL_FORMAT_FRACTAL_NZ; },
                            "seedTensor format FRACTAL_NZ is not supported: expected ND"},
                       });
}

// Masks without bits: whatever the rest of the shape says, and without a data address.
TEST(MaskRefusals, EmptyMasksAreLegal) {
    for (const Version version : kAll) {
        MaskCall call;
        call.version = version;
        call.shape = std::vector<int64_t>{int64_t{1} << 40, 0, int64_t{1} << 40};
        call.out->shape = {0};
        call.out->without_data = true;
        const MaskResult result = run(call);
        EXPECT_EQ(result.phase_one, 0) << result.text;
        EXPECT_EQ(result.phase_two, 0) << result.text;
        EXPECT_EQ(result.workspace_size, 0U);
    }
}

TEST(MaskRefusals, ExecutorsBelongToTheirOperator) {
    Operand out(TensorSpec{.shape = {16}, .dtype = ACL_UINT8});
    const int64_t bits = 128;
    aclIntArray* shape = aclCreateIntArray(&bits, 1);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(aclnnDropoutGenMaskGetWorkspaceSize(shape, 0.5, 1, 1, out.tensor(), &size, &executor), 0);
    EXPECT_EQ(aclnnDropoutGenMaskV2(nullptr, size, executor, nullptr), 161002);
    EXPECT_EQ(aclnnDropoutGenMask(nullptr, size, nullptr, nullptr), 161001);
    EXPECT_TRUE(out.untouched());
    EXPECT_EQ(aclnnDropoutGenMask(nullptr, size, executor, nullptr), 0);
    EXPECT_EQ(aclnnDropoutGenMask(nullptr, size, executor, nullptr), 561000);
    aclDestroyIntArray(shape);
}

}  // namespace
}  // namespace dropout_gen_mask::testing
