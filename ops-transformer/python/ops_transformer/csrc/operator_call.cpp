#include "operator_call.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <memory>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "stream.h"
#include "threads.h"

namespace ops_transformer {
namespace {

constexpr aclnnStatus kParameterIsNull = 161001;
constexpr aclnnStatus kParameterIsWrong = 161002;

void check(aclnnStatus status) {
    if (status == OK) return;
    const char* text = aclGetRecentErrMsg();
    const std::string sentence = text == nullptr || *text == '\0' ? "code " + std::to_string(status) : text;
    TORCH_CHECK_VALUE(status != kParameterIsNull && status != kParameterIsWrong, sentence);
    TORCH_CHECK(false, sentence);
}

struct DestroyExecutor {
    void operator()(aclOpExecutor* executor) const { aclDestroyAclOpExecutor(executor); }
};

}  // namespace

void run_operator(const at::Tensor& tensor, PhaseOne plan, PhaseTwo run) {
    TORCH_CHECK(!tensor.is_cpu() || libraries_are_ours(),
                "ops_transformer: cpu tensors need the libraries of "
                "fusion_attention, but others are loaded: their operators take memory of an NPU only");
    use_torch_threads();
    uint64_t size = 0;
    aclOpExecutor* made = nullptr;
    check(plan(&size, &made));
    std::unique_ptr<aclOpExecutor, DestroyExecutor> executor(made);  // until it runs: memory may run out before
    const at::Tensor workspace =
        size == 0 ? at::Tensor() : at::empty({static_cast<int64_t>(size)}, tensor.options().dtype(at::kByte));
    void* memory = size == 0 ? nullptr : workspace.mutable_data_ptr();
    const aclrtStream stream = stream_of(tensor.device());
    check(run(memory, size, executor.release(), stream));
}

}  // namespace ops_transformer
