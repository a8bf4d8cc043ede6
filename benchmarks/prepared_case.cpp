#include "prepared_case.h"

#include <cstdlib>
#include <optional>

#include "aclnn/acl_meta.h"
#include "opbase/cpu_features.h"
#include "testing/backward_runner.h"

namespace fusion_bench {
namespace {

namespace testing = flash_attention::testing;

constexpr const char* kIsaVariable = "ASCEND_CPU_ISA";

// Sets the variable for a while.
class ForcedTable {
  public:
    explicit ForcedTable(const std::string& name) {
        if (const char* value = std::getenv(kIsaVariable)) before_ = value;
        setenv(kIsaVariable, name.c_str(), 1);
    }
    ForcedTable(const ForcedTable&) = delete;
    ForcedTable& operator=(const ForcedTable&) = delete;
    ~ForcedTable() {
        if (before_) {
            setenv(kIsaVariable, before_->c_str(), 1);
        } else {
            unsetenv(kIsaVariable);
        }
    }

  private:
    std::optional<std::string> before_;
};

bool accepted(const std::string& table) {
    const ForcedTable forced(table);
    testing::PreparedCall call(testing::make_call(testing::parse_case("q=1 kv=1 d=16")));
    if (call.phase_one() != ACL_SUCCESS) return false;
    check(aclDestroyAclOpExecutor(call.executor()), "aclDestroyAclOpExecutor");
    return true;
}

// Moves the storage of an operand; the memory that it had stays as it is.
std::unique_ptr<DeviceMemory> move_storage(const aclTensor* tensor) {
    int64_t* dims = nullptr;
    uint64_t count = 0;
    check(aclGetStorageShape(tensor, &dims, &count), "aclGetStorageShape");
    const std::unique_ptr<int64_t[]> owner(dims);
    aclDataType type = ACL_DT_UNDEFINED;
    check(aclGetDataType(tensor, &type), "aclGetDataType");
    const int64_t elements = testing::element_count({dims, dims + count});
    void* from = nullptr;
    check(aclGetRawTensorAddr(tensor, &from), "aclGetRawTensorAddr");
    auto memory = std::make_unique<DeviceMemory>(static_cast<size_t>(elements) * aclDataTypeSize(type));
    memory->fill(from, memory->bytes());
    check(aclSetRawTensorAddr(const_cast<aclTensor*>(tensor), memory->address()), "aclSetRawTensorAddr");
    return memory;
}

}  // namespace

std::vector<std::string> available_tables() {
    const opbase::CpuFeatures& has = opbase::cpu_features();
    std::vector<std::string> tables;
    auto add = [&tables](bool runs, const char* name) {
        if (runs && accepted(name)) tables.emplace_back(name);
    };
    add(has.avx512_bf16, "avx512_bf16");
    add(has.avx512, "avx512");
    add(has.avx2, "avx2");
    add(true, "portable");
    return tables;
}

std::string choose_table() {
    const char* asked = std::getenv(kIsaVariable);
    if (asked != nullptr && *asked != '\0') return asked;
    std::string best = available_tables().at(0);
    setenv(kIsaVariable, best.c_str(), 1);
    return best;
}

PreparedCase::PreparedCase(const testing::Case& c) : case_(c) {
    if (c.backward) {
        testing::Case fast = c;
        fast.given = testing::Given::kOperator;
        take(std::make_shared<testing::PreparedBackward>(testing::make_backward_call(fast)));
    } else {
        take(std::make_shared<testing::PreparedCall>(testing::make_call(c)));
    }
}

template <class Call>
void PreparedCase::take(std::shared_ptr<Call> call) {
    version_ = call->version();
    arguments_ = call->arguments();
    for (int a = 0; a < testing::kArgumentCount; a++) {
        if (const aclTensor* tensor = call->tensor(static_cast<testing::Argument>(a)))
            memory_[a] = move_storage(tensor);
    }
    call_ = std::move(call);
}

double PreparedCase::run(Clock clock) {
    Plan plan;
    testing::ScoreArguments arguments = arguments_;
    arguments.workspace_size = &plan.workspace_size;
    arguments.executor = &plan.executor;
    const std::string name = testing::traits(version_).name;
    check(testing::phase_one(version_, arguments), (name + "GetWorkspaceSize").c_str());
    // It grows with the number of threads.
    if (!workspace_ || workspace_->bytes() < plan.workspace_size)
        workspace_ = std::make_unique<DeviceMemory>(plan.workspace_size);
    const double begin = clock();
    check(testing::phase_two(version_, workspace_->address(), plan.workspace_size, plan.executor, testing::stream()),
          name.c_str());
    check(aclrtSynchronizeStream(testing::stream()), "aclrtSynchronizeStream");
    return clock() - begin;
}

}  // namespace fusion_bench
