// What forward and backward give to their aclnn functions besides tensors of their own.
#pragma once

#include <string>
#include <vector>

#include "acl_objects.h"
#include "attention.h"

namespace ops_transformer {

// Lives from before phase one until after phase two. The constructor checks what only values can tell: the running
// totals of packed sequences.
struct SharedArguments {
    SharedArguments(const at::Tensor& query, const at::Tensor& key, const Options& options);

    // The operators want at least one sequence.
    bool has_no_sequence() const { return is_packed && query_ends == nullptr; }

    TensorHandle pse, mask, sink;
    ListHandle prefix, query_ends, key_ends;
    bool is_packed;
    double scale, keep_prob;
    int64_t pre_tokens, next_tokens, heads, sparse_mode, pse_type, seed;
    std::string layout;
    char* statistics_layout;

  private:
    void add_idle_sequence(std::vector<int64_t>& queries, std::vector<int64_t>& keys, std::vector<int64_t>& prefixes,
                           const Options& options);

    at::Tensor slopes;  // when they are not the caller's
};

}  // namespace ops_transformer
