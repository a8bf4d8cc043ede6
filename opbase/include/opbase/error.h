// Failures inside an operator are exceptions; plan_operator and run_operator (executor.h) turn them into the code and
// the text of aclGetRecentErrMsg. They never cross the C ABI.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "aclnn/acl_meta.h"
#include "opbase/api.h"

namespace opbase {

// Status codes that operators return (aclnn documentation names).
inline constexpr aclnnStatus kParamNullptr = 161001;
inline constexpr aclnnStatus kParamInvalid = 161002;
inline constexpr aclnnStatus kRuntimeError = 361001;
inline constexpr aclnnStatus kInner = 561000;
inline constexpr aclnnStatus kInnerCreateExecutor = 561101;
inline constexpr aclnnStatus kInnerNullptr = 561103;

class OPBASE_API OperatorError : public std::exception {
  public:
    OperatorError(aclnnStatus code, std::string text) : code_(code), text_(std::move(text)) {}
    aclnnStatus code() const noexcept { return code_; }
    const char* what() const noexcept override { return text_.c_str(); }

  private:
    aclnnStatus code_;
    std::string text_;
};

// 161001 "<name> cannot be nullptr": only for pointers that are always required.
class OPBASE_API NullArgumentError : public OperatorError {
  public:
    explicit NullArgumentError(const std::string& name) : OperatorError(kParamNullptr, name + " cannot be nullptr") {}
};

// 161002 with a sentence that names the argument, its value and the rule.
class OPBASE_API ParameterError : public OperatorError {
  public:
    explicit ParameterError(std::string text) : OperatorError(kParamInvalid, std::move(text)) {}
};

// Throws NullArgumentError unless `pointer` is set.
template <class T>
void require(const T* pointer, const char* name) {
    if (pointer == nullptr) throw NullArgumentError(name);
}

}  // namespace opbase
