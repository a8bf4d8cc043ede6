#include <gtest/gtest.h>

#include <array>
#include <string>

#include "acl/acl_op_compiler.h"
#include "recent_error.h"

namespace {

std::string option(aclCompileOpt opt) {
    std::array<char, 64> text;
    text.fill('#');
    const size_t size = aclGetCompileoptSize(opt);
    EXPECT_EQ(aclGetCompileopt(opt, text.data(), text.size()), ACL_SUCCESS);
    const std::string value = text.data();
    EXPECT_EQ(size, value.size() + 1);
    EXPECT_EQ(text[size], '#');  // nothing behind the terminator was written
    return value;
}

// torch-npu stays on the aclnn operators with this answer alone.
TEST(CompileOptions, JitIsAlwaysDisabled) {
    EXPECT_EQ(aclGetCompileoptSize(ACL_OP_JIT_COMPILE), 8U);
    EXPECT_EQ(option(ACL_OP_JIT_COMPILE), "disable");
    EXPECT_EQ(aclSetCompileopt(ACL_OP_JIT_COMPILE, "enable"), ACL_SUCCESS);
    EXPECT_EQ(option(ACL_OP_JIT_COMPILE), "disable");
}

TEST(CompileOptions, ValuesAreStored) {
    EXPECT_EQ(option(ACL_DEBUG_DIR), "");
    EXPECT_EQ(aclGetCompileoptSize(ACL_DEBUG_DIR), 1U);
    EXPECT_EQ(aclSetCompileopt(ACL_DEBUG_DIR, "/somewhere"), ACL_SUCCESS);
    EXPECT_EQ(aclSetCompileopt(ACL_OP_DEBUG_OPTION, "last"), ACL_SUCCESS);
    EXPECT_EQ(option(ACL_DEBUG_DIR), "/somewhere");
    EXPECT_EQ(option(ACL_OP_DEBUG_OPTION), "last");
    EXPECT_EQ(aclSetCompileopt(ACL_DEBUG_DIR, ""), ACL_SUCCESS);
    EXPECT_EQ(option(ACL_DEBUG_DIR), "");
}

// The calls that torch-npu makes at its start.
TEST(CompileOptions, StartOfTorchNpu) {
    EXPECT_EQ(aclSetCompileopt(ACL_PRECISION_MODE, ""), ACL_SUCCESS);
    EXPECT_EQ(aclSetCompileopt(ACL_ALLOW_HF32, "10"), ACL_SUCCESS);
    EXPECT_EQ(aclSetCompileopt(ACL_OP_COMPILER_CACHE_MODE, "enable"), ACL_SUCCESS);
    EXPECT_EQ(aclSetCompileopt(ACL_OP_JIT_COMPILE, "disable"), ACL_SUCCESS);
}

TEST(CompileOptions, BadArguments) {
    char text[8] = "keep";
    EXPECT_EQ(aclSetCompileopt(ACL_DEBUG_DIR, nullptr), ACL_ERROR_INVALID_PARAM);
    EXPECT_NE(recent_error().find("aclSetCompileopt: value cannot be nullptr"), std::string::npos);
    EXPECT_EQ(aclSetCompileopt(static_cast<aclCompileOpt>(17), "x"), ACL_ERROR_INVALID_PARAM);
    EXPECT_NE(recent_error().find("opt must be an aclCompileOpt, 0 to 16: got 17"), std::string::npos);
    EXPECT_EQ(aclGetCompileoptSize(static_cast<aclCompileOpt>(31)), 0U);
    EXPECT_NE(recent_error().find("got 31"), std::string::npos);
    EXPECT_EQ(aclGetCompileopt(ACL_OP_JIT_COMPILE, text, 7), ACL_ERROR_INVALID_PARAM);
    EXPECT_NE(recent_error().find("length must be at least 8 for this option: got 7"), std::string::npos);
    EXPECT_STREQ(text, "keep");
    EXPECT_EQ(aclGetCompileopt(ACL_OP_JIT_COMPILE, nullptr, 8), ACL_ERROR_INVALID_PARAM);
    EXPECT_NE(recent_error().find("value cannot be nullptr"), std::string::npos);
}

TEST(CompileAndExecute, NamesTheOperatorAndItsArguments) {
    const int64_t dims[] = {2, 3};
    const int64_t storage[] = {6};
    aclTensorDesc* const x = aclCreateTensorDesc(ACL_FLOAT16, 2, dims, ACL_FORMAT_ND);
    aclTensorDesc* const y = aclCreateTensorDesc(ACL_INT64, 0, nullptr, ACL_FORMAT_NCHW);
    aclSetTensorDescName(x, "self");
    aclSetTensorShape(x, 1, storage);
    aclSetTensorFormat(x, ACL_FORMAT_FRACTAL_NZ);
    aclSetTensorPlaceMent(y, ACL_MEMTYPE_HOST);
    aclTensorDesc* const inputs[] = {x, nullptr};
    aclTensorDesc* const outputs[] = {y};
    EXPECT_EQ(aclopCompileAndExecute("Add", 2, inputs, nullptr, 1, outputs, nullptr, nullptr, ACL_ENGINE_SYS,
                                     ACL_COMPILE_SYS, nullptr, nullptr),
              ACL_ERROR_INTERNAL_ERROR);
    const std::string text = recent_error();
    EXPECT_NE(text.find("aclopCompileAndExecute: Add: operator is not available on the CPU engine (inputs: self: "
                        "float16[2,3] ND stored as [6] stored in aclFormat 29; nullptr; outputs: int64[] NCHW on the "
                        "host; attributes: none)"),
              std::string::npos)
        << text;
    aclDestroyTensorDesc(x);
    aclDestroyTensorDesc(y);
}

TEST(CompileAndExecute, NullOperatorType) {
    EXPECT_EQ(aclopCompileAndExecute(nullptr, 0, nullptr, nullptr, 0, nullptr, nullptr, nullptr, ACL_ENGINE_SYS,
                                     ACL_COMPILE_SYS, nullptr, nullptr),
              ACL_ERROR_INVALID_PARAM);
    EXPECT_NE(recent_error().find("opType cannot be nullptr"), std::string::npos);
}

}  // namespace
