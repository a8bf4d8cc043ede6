// The tensor arguments of an operator whose every element is visited once: used where they lie, or through a packed
// copy in workspace where their strides are of no use to the loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "opbase/executor.h"
#include "opbase/tensor.h"

namespace arguments {

// What the loops need of a view.
enum class Need {
    kAnything,        // they follow all strides
    kContiguousRows,  // the last axis lies side by side
    kContiguous,      // all elements lie one after another
};

class Views {
  public:
    // Arguments are added in the order of the C signature, absent ones (nullptr) too; the first one is number 0. Views
    // are checked (checks.h) and must have elements. Returns the strides that the loops have to follow.
    opbase::Shape add_input(const char* name, const aclTensor* tensor, Need need) {
        return add(name, tensor, need, false);
    }
    opbase::Shape add_output(const char* name, const aclTensor* tensor, Need need) {
        return add(name, tensor, need, true);
    }

    // What the executor has to know: storage addresses and workspace for the copies.
    opbase::Plan plan() const;

    // Phase two. The first element of an argument; nullptr when it is absent.
    void* address(int number, const opbase::Launch& launch) const;
    void pack_inputs(const opbase::Launch& launch) const { copy(launch, false); }
    void unpack_outputs(const opbase::Launch& launch) const { copy(launch, true); }

  private:
    struct View {
        opbase::Tensor tensor;  // data: the storage address of phase one
        bool output = false;
        int64_t slot = 0;      // in Launch::inputs or outputs
        int64_t copy_at = -1;  // in workspace; -1: used where it lies
        opbase::Shape copy_strides;
    };
    opbase::Shape add(const char* name, const aclTensor* tensor, Need need, bool output);
    void copy(const opbase::Launch& launch, bool output) const;
    static std::byte* storage(const View& view, const opbase::Launch& launch);

    std::vector<View> views_;
    int64_t inputs_ = 0, outputs_ = 0;
    int64_t workspace_bytes_ = 0;
};

}  // namespace arguments
